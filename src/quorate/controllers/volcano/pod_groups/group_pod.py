"""Pods that a gang scheduler places, as the controllers of pod groups read them: hardly at all."""

from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.batch import EMPTY_OBJECT
from quorate.api.core import SchedulingGate
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.api.volcano.annotations import GROUP_NAME, QUEUE_ALLOCATION_GATE
from quorate.controllers.volcano.job.job_pods import ENDED, prune_metadata
from quorate.kube.resources import Resource

_KEPT: Final = frozenset({GROUP_NAME, QUEUE_ALLOCATION_GATE})
_GATES_FIELD: Final = b'"schedulingGates"'


class Phase(Struct):
    phase: str = "Pending"


class _Gates(Struct):
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class GroupPod(Struct):
    """A pod; ``spec`` is kept as bytes: whole while it names no group, then what it says of gates."""

    metadata: ObjectMeta
    spec: msgspec.Raw = EMPTY_OBJECT
    status: Phase = Phase()

    def __post_init__(self) -> None:
        if not self.group:
            msgspec.structs.force_setattr(self, "spec", self.spec.copy())
            return
        # Most pods are told their group when they are made: of those only that is worth its memory.
        kept = EMPTY_OBJECT
        if _GATES_FIELD in bytes(self.spec):
            kept = msgspec.Raw(codec.encode(codec.decode(_Gates, self.spec)))
        msgspec.structs.force_setattr(self, "spec", kept)
        msgspec.structs.force_setattr(self, "metadata", prune_metadata(self.metadata, _KEPT))

    @property
    def group(self) -> str:
        return self.metadata.annotations.get(GROUP_NAME, "")

    @property
    def group_key(self) -> Key:
        return Key(self.metadata.namespace, self.group)

    @property
    def gates(self) -> tuple[SchedulingGate, ...]:
        """In the order in which they stand there."""
        if _GATES_FIELD not in bytes(self.spec):
            return ()
        return codec.decode(_Gates, self.spec).scheduling_gates

    @property
    def needs_pod_group(self) -> bool:
        gone = self.metadata.deletion_timestamp is not None or self.status.phase in ENDED
        return not self.group and not gone


GROUP_PODS: Final = Resource("", "v1", "pods", "Pod", True, GroupPod)
