"""Pods that a gang scheduler places, as the controllers of pod groups read them: hardly at all."""

from typing import Final

import msgspec

from quorate.api.batch import EMPTY_OBJECT
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.api.volcano_keys import GROUP_NAME
from quorate.controllers.volcano.members import ENDED, pruned
from quorate.kube.resources import Resource

_GROUP_ONLY: Final = frozenset({GROUP_NAME})


class Phase(Struct):
    phase: str = "Pending"


class GroupPod(Struct):
    """A pod; ``spec`` is kept as bytes, and only while it names no group."""

    metadata: ObjectMeta
    spec: msgspec.Raw = EMPTY_OBJECT
    status: Phase = Phase()

    def __post_init__(self) -> None:
        if not self.group:
            msgspec.structs.force_setattr(self, "spec", self.spec.copy())
            return
        # Most pods are told their group when they are made: of those only that is worth its memory.
        msgspec.structs.force_setattr(self, "spec", EMPTY_OBJECT)
        msgspec.structs.force_setattr(self, "metadata", pruned(self.metadata, _GROUP_ONLY))

    @property
    def group(self) -> str:
        return self.metadata.annotations.get(GROUP_NAME, "")

    @property
    def group_key(self) -> Key:
        return Key(self.metadata.namespace, self.group)

    @property
    def wants_group(self) -> bool:
        gone = self.metadata.deletion_timestamp is not None or self.status.phase in ENDED
        return not self.group and not gone


GROUP_PODS: Final = Resource("", "v1", "pods", "Pod", True, GroupPod)
