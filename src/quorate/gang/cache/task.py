"""Tasks: the pods of gangs."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from quorate.api.core.scheduling import Pod
from quorate.api.meta import Key, Uid
from quorate.placement.cluster import AllocationState
from quorate.placement.shapes import Shape


class TaskStatus(Enum):
    """Volcano's statuses of a task."""

    PENDING = "Pending"  # without a node
    ALLOCATED = "Allocated"  # has a node in this session; undone unless the gang becomes ready
    PIPELINED = "Pipelined"  # waits for resources that leaving pods release; only known to the session
    BINDING = "Binding"  # the bind is being written to the API
    BOUND = "Bound"  # the API has its node, its containers do not run yet
    RUNNING = "Running"
    RELEASING = "Releasing"  # being evicted or deleted: its resources are about to be free
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    __hash__ = object.__hash__  # members are singletons, and counting by status hashes a lot


ALLOCATED_STATUSES: Final = frozenset(
    {TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING}
)
FINISHED_STATUSES: Final = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
EVICTABLE_STATUSES: Final = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})


class Task(msgspec.Struct, eq=False, gc=False):
    """One pod of a gang, compared by identity.

    ``status``, ``node`` and ``nominated_node`` change, and ``pod`` is replaced by a version that differs only
    in fields that are not read here; any other change replaces the task.  The garbage collector need not
    traverse it: nothing that it refers to leads back to it.
    """

    pod: Pod  # the newest version
    key: Key
    uid: Uid
    gang: Key
    role: str  # its task-spec name, "" without one
    shape: Shape
    priority: int
    created: float  # seconds since the epoch
    preemptable: bool  # whether it may be evicted for other tasks
    may_preempt: bool  # whether other tasks may be evicted for it: preemptionPolicy is not Never
    critical: bool  # has a system priority class or is in kube-system
    gated: bool  # has scheduling gates: counted, never placed
    gated_after_admission: bool  # has gates that stay when its gang is admitted
    nominated_node: str  # nominated after an eviction, "" without one
    quota_usage: Mapping[str, int]  # in base units, by every name a quota may limit it under; shared
    status: TaskStatus = TaskStatus.PENDING
    node: str = ""  # "" while it has none

    @property
    def request(self) -> Mapping[str, int]:
        return self.shape.amounts

    @property
    def best_effort(self) -> bool:
        """Whether it requests nothing but a place among the pods of a node."""
        return self.shape.best_effort

    @property
    def index(self) -> int | None:
        """The number at the end of its name."""
        index = self.key.name.rpartition("-")[2]
        return int(index) if index.isdecimal() and index.isascii() else None

    @property
    def creation_order(self) -> tuple[float, Key]:
        return (self.created, self.key)


def hold_for_status(status: TaskStatus) -> AllocationState | None:
    """Return how a task with ``status`` counts on its node; ``None``: not at all."""
    if status in FINISHED_STATUSES or status is TaskStatus.PENDING:
        return None
    if status is TaskStatus.PIPELINED:
        return AllocationState.PIPELINED
    return AllocationState.RELEASING if status is TaskStatus.RELEASING else AllocationState.USED
