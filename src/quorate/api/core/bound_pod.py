"""Pods as users of nodes: what they request, and the annotations that tell of their place.

Every bound pod of a cluster is kept by the queueing controllers, so little is kept of each.
"""

from sys import intern
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.core import Container, ResourceRequirements, Resources
from quorate.api.core.pod_resources import pod_requests
from quorate.api.interning import InternCache, intern_strings
from quorate.api.kueue import SLICE_NAME, WORKLOAD_ANNOTATION
from quorate.api.kueue.topology_annotations import REQUESTS
from quorate.api.meta import ObjectMeta, Struct

_ANNOTATIONS: Final = frozenset((*REQUESTS, SLICE_NAME, WORKLOAD_ANNOTATION))


class _Spec(Struct):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Resources = {}
    resources: ResourceRequirements = ResourceRequirements()


class _Status(Struct):
    phase: str = "Pending"


class BoundPod(Struct):
    """A pod of which only ``requests``, the effective request, is kept of all its containers."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()
    requests: Resources = {}

    def __post_init__(self) -> None:
        metadata, spec = self.metadata, self.spec
        kept = {key: value for key, value in metadata.annotations.items() if key in _ANNOTATIONS}
        trimmed = ObjectMeta(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            annotations=intern_strings(kept),
        )
        msgspec.structs.force_setattr(self, "metadata", trimmed)
        if spec.containers or spec.init_containers:
            requests = _intern_requests(codec.encode(pod_requests(spec)))
            msgspec.structs.force_setattr(self, "requests", requests)
            msgspec.structs.force_setattr(self, "spec", _Spec(node_name=intern(spec.node_name)))


def _decode_requests(content: bytes) -> Resources:
    return codec.decode(Resources, content)


_intern_requests = InternCache(_decode_requests)
