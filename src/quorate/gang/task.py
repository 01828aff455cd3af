"""Tasks: the pods of gangs as the core sees them."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from quorate.api.core.scheduling import Pod
from quorate.api.meta import Key, Uid
from quorate.placement.shapes import Shape


class Standing(Enum):
    """How far a task has come."""

    PENDING = "Pending"  # without a node
    ALLOCATED = "Allocated"  # given a node in this session, undone unless the gang is kept
    PIPELINED = "Pipelined"  # promised what others are about to give back; nothing is told to the API
    BINDING = "Binding"  # kept: the API is being told
    BOUND = "Bound"  # the API knows its node, its containers do not run yet
    RUNNING = "Running"
    RELEASING = "Releasing"  # on its way out: its room is promised, not free
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    __hash__ = object.__hash__  # there is one object of each, and counting by standing hashes a lot


HOLDING: Final = frozenset({Standing.ALLOCATED, Standing.BINDING, Standing.BOUND, Standing.RUNNING})
FINISHED: Final = frozenset({Standing.SUCCEEDED, Standing.FAILED})
EVICTABLE: Final = frozenset({Standing.BOUND, Standing.RUNNING})


class Task(msgspec.Struct, eq=False, gc=False):
    """One pod of a gang, compared by identity.

    What follows ``standing`` changes, and so does what the pod says beside what is read here; the rest is
    replaced with the pod.  The collector need not walk it: nothing it refers to leads back to it.
    """

    pod: Pod  # the newest version
    key: Key
    uid: Uid
    gang: Key
    role: str  # its task-spec name, "" without one
    shape: Shape
    priority: int
    created: float  # seconds since the epoch
    preemptable: bool  # whether others may have it evicted
    preempts: bool  # whether others may be evicted for it: preemptionPolicy is not Never
    critical: bool  # of a system priority class or in kube-system
    gated: bool  # has scheduling gates: counted, never placed
    gated_by_others: bool  # has some that stay when its gang is admitted
    nominated: str  # the node promised to it after an eviction, "" without one
    quota_usage: Mapping[str, int]  # in base units, by every name a quota may limit it under; shared
    standing: Standing = Standing.PENDING
    node: str = ""  # "" while it has none

    @property
    def request(self) -> Mapping[str, int]:
        return self.shape.amounts

    @property
    def best_effort(self) -> bool:
        """Whether it asks for nothing but its place among the pods of a node."""
        return self.shape.best_effort

    @property
    def number(self) -> int | None:
        """The one its name ends in."""
        index = self.key.name.rpartition("-")[2]
        return int(index) if index.isdecimal() and index.isascii() else None

    @property
    def age_rank(self) -> tuple[float, Key]:
        return (self.created, self.key)
