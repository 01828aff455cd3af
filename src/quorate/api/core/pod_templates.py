"""Pods of the templates that workloads store, with the fields that affect placement."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import PodTemplateMeta
from quorate.api.core.pod import Pod, PodMeta
from quorate.api.core.scheduling import Container, ContainerPort, PodSpec
from quorate.api.meta import Struct

HOST_NETWORK: Final = b'"hostNetwork"'


class PlaceableTemplate(Struct):
    metadata: PodTemplateMeta = PodTemplateMeta()
    spec: PodSpec = PodSpec()


class _Ports(Struct):
    ports: tuple[ContainerPort, ...] = ()


class _HostNetworkSpec(Struct):
    host_network: bool = False
    containers: tuple[_Ports, ...] = ()
    init_containers: tuple[_Ports, ...] = ()


class _HostNetworkTemplate(Struct):
    spec: _HostNetworkSpec = _HostNetworkSpec()


def template_pod(namespace: str, content: bytes | msgspec.Raw) -> Pod:
    """Return a pod of a template.

    It has no constraint if the template cannot be decoded: where it is queued, that is reported.
    """
    try:
        template = codec.decode(PlaceableTemplate, content)
        spec = _with_host_ports(template.spec, bytes(content))
    except msgspec.ValidationError:
        template, spec = PlaceableTemplate(), PodSpec()
    return Pod(metadata=PodMeta(namespace=namespace, labels=template.metadata.labels), spec=spec)


def _with_host_ports(spec: PodSpec, content: bytes) -> PodSpec:
    """Return ``spec`` with the host ports that the API server adds to pods in the network of their host."""
    if HOST_NETWORK not in content:
        return spec
    own = codec.decode(_HostNetworkTemplate, content).spec
    if not own.host_network:
        return spec
    return replace(
        spec,
        containers=tuple(_on_host(spec.containers, own.containers)),
        init_containers=tuple(_on_host(spec.init_containers, own.init_containers)),
    )


def _on_host(containers: Iterable[Container], own: Iterable[_Ports]) -> Iterable[Container]:
    for container, listed in zip(containers, own, strict=True):
        ports = (replace(port, host_port=port.host_port or port.container_port) for port in listed.ports)
        yield replace(container, ports=tuple(ports))
