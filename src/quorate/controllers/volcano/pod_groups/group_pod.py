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


class Phase(Struct):
    phase: str = "Pending"


class _Gates(Struct):
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class GroupPod(Struct):
    """A pod; its spec, as bytes, is whole until it names a pod group, then only its gates."""

    metadata: ObjectMeta
    spec: msgspec.Raw = EMPTY_OBJECT
    status: Phase = Phase()

    def __post_init__(self) -> None:
        if not self.group:
            msgspec.structs.force_setattr(self, "spec", self.spec.copy())
            return
        # Most pods name their group from the start; the controllers read only the gates of those.
        kept = EMPTY_OBJECT
        if _GATES_FIELD in bytes(self.spec):
            kept = msgspec.Raw(codec.encode(codec.decode(_Gates, self.spec)))
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
        return codec.decode(_Gates, self.spec).scheduling_gates

    @property
    def needs_pod_group(self) -> bool:
        is_terminating = self.metadata.deletion_timestamp is not None
        return not self.group and not is_terminating and self.status.phase not in FINISHED_POD_PHASES


GROUP_PODS: Final = Resource("", "v1", "pods", "Pod", True, GroupPod)
