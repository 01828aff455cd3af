"""Pods as users of nodes: what they request, what keeps other pods away, and what tells of their place.

Every bound pod of a cluster is kept by the queueing controllers, so little is kept of each.
"""

from sys import intern
from typing import Annotated, Final

import msgspec

from quorate.api import codec
from quorate.api.core import AT_MOST_CONTAINERS, ResourceRequirements, Resources
from quorate.api.core.pod_resources import pod_requests
from quorate.api.core.scheduling import (
    Affinity,
    Container,
    ContainerStatus,
    PodAffinity,
    PodCondition,
    PodSpec,
    Volume,
)
from quorate.api.interning import InternCache, intern_strings
from quorate.api.kueue import POD_GROUP_NAME, SLICE_NAME, WORKLOAD_ANNOTATION
from quorate.api.kueue.topology_annotations import REQUESTS
from quorate.api.meta import ObjectMeta, OwnerReference, Struct
from quorate.api.volcano.annotations import GROUP_NAME

_ANNOTATIONS: Final = frozenset((*REQUESTS, GROUP_NAME, POD_GROUP_NAME, SLICE_NAME, WORKLOAD_ANNOTATION))


class _Spec(Struct):
    node_name: str = ""
    containers: Annotated[tuple[Container, ...], AT_MOST_CONTAINERS] = ()
    init_containers: Annotated[tuple[Container, ...], AT_MOST_CONTAINERS] = ()
    overhead: Resources = {}
    resources: ResourceRequirements = ResourceRequirements()
    affinity: Affinity | None = None
    volumes: tuple[Volume, ...] = ()


class _Status(Struct):
    phase: str = "Pending"
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None


class BoundPod(Struct):
    """A pod of which only ``requests`` and ``constraints`` are kept of its containers and volumes.

    Of its owners only the controller is kept.

    ``requests`` is the effective request, with what an in-place resize has not released.  ``constraints`` has
    the host ports, the claims and the required anti-affinity, which keep other pods away; None if it has none
    of them.
    """

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()
    requests: Resources = {}
    constraints: PodSpec | None = None

    def __post_init__(self) -> None:
        metadata, spec = self.metadata, self.spec
        kept = {key: value for key, value in metadata.annotations.items() if key in _ANNOTATIONS}
        trimmed = ObjectMeta(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            labels=intern_strings(metadata.labels),
            annotations=intern_strings(kept),
            owner_references=_controller(metadata),
        )
        msgspec.structs.force_setattr(self, "metadata", trimmed)
        if spec.containers or spec.init_containers:
            status = self.status
            requests = _intern_requests(codec.encode(pod_requests(spec, status)))
            msgspec.structs.force_setattr(self, "requests", requests)
            msgspec.structs.force_setattr(self, "constraints", _constraints(spec))
            msgspec.structs.force_setattr(self, "spec", _Spec(node_name=intern(spec.node_name)))
            status = _Status(phase=intern(status.phase), nominated_node_name=status.nominated_node_name)
            msgspec.structs.force_setattr(self, "status", status)


def _controller(metadata: ObjectMeta) -> tuple[OwnerReference, ...]:
    controller = metadata.controller
    return () if controller is None else _intern_owners(codec.encode((controller,)))


def _constraints(spec: _Spec) -> PodSpec | None:
    terms = None if spec.affinity is None else spec.affinity.pod_anti_affinity
    affinity = None
    if terms is not None and terms.required:
        affinity = Affinity(pod_anti_affinity=PodAffinity(required=terms.required))
    volumes = tuple(volume for volume in spec.volumes if volume.has_claim)
    sidecars = tuple(each for each in spec.init_containers if each.restart_policy == "Always")
    ports = tuple(Container(ports=each.ports) for each in (*spec.containers, *sidecars) if each.ports)
    if affinity is None and not volumes and not ports:
        return None
    return _intern_constraints(codec.encode(PodSpec(containers=ports, affinity=affinity, volumes=volumes)))


def _decode_constraints(content: bytes) -> PodSpec:
    return codec.decode(PodSpec, content)


_intern_constraints = InternCache(_decode_constraints)


def _decode_owners(content: bytes) -> tuple[OwnerReference, ...]:
    return codec.decode(tuple[OwnerReference, ...], content)


_intern_owners = InternCache(_decode_owners)


def _decode_requests(content: bytes) -> Resources:
    return codec.decode(Resources, content)


_intern_requests = InternCache(_decode_requests)
