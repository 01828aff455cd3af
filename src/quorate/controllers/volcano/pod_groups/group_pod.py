"""Pods of a gang scheduler, reduced to what the pod group controllers read."""

from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.batch import EMPTY_OBJECT
from quorate.api.core import SchedulingGate
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.api.volcano.annotations import GROUP_NAME, QUEUE_ALLOCATION_GATE
from quorate.controllers.volcano.job.job_pods import FINISHED_POD_PHASES, prune_metadata
from quorate.kube.resources import Resource

_ANNOTATIONS: Final = frozenset({GROUP_NAME, QUEUE_ALLOCATION_GATE})
_GATES_FIELD: Final = b'"schedulingGates"'
_NODE_FIELD: Final = b'"nodeName"'


class Phase(Struct):
    phase: str = "Pending"


class _Spec(Struct):
    node_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class GroupPod(Struct):
    """A pod; its spec, as bytes, is whole until it names a pod group, then only its gates and its node."""

    metadata: ObjectMeta
    spec: msgspec.Raw = EMPTY_OBJECT
    status: Phase = Phase()

    def __post_init__(self) -> None:
        if not self.group:
            msgspec.structs.force_setattr(self, "spec", self.spec.copy())
            return
        # Most pods name their group from the start; the controllers read only these fields of those.
        kept, written = EMPTY_OBJECT, bytes(self.spec)
        if _GATES_FIELD in written or _NODE_FIELD in written:
            kept = msgspec.Raw(codec.encode(codec.decode(_Spec, self.spec)))
        msgspec.structs.force_setattr(self, "spec", kept)
        msgspec.structs.force_setattr(self, "metadata", prune_metadata(self.metadata, _ANNOTATIONS))

    @property
    def group(self) -> str:
        return self.metadata.annotations.get(GROUP_NAME, "")

    @property
    def group_key(self) -> Key:
        return Key(self.metadata.namespace, self.group)

    @property
    def gates(self) -> tuple[SchedulingGate, ...]:
        """The scheduling gates in the order of the spec."""
        if _GATES_FIELD not in bytes(self.spec):
            return ()
        return codec.decode(_Spec, self.spec).scheduling_gates

    @property
    def node_name(self) -> str:
        """The node that the pod is bound to; empty without one."""
        return codec.decode(_Spec, self.spec).node_name if _NODE_FIELD in bytes(self.spec) else ""

    @property
    def needs_pod_group(self) -> bool:
        is_terminating = self.metadata.deletion_timestamp is not None
        return not self.group and not is_terminating and self.status.phase not in FINISHED_POD_PHASES


GROUP_PODS: Final = Resource("", "v1", "pods", "Pod", True, GroupPod)
