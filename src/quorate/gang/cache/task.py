"""Tasks: the pods of gangs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import msgspec

from quorate.api.core.pod import Pod
from quorate.api.meta import Key, Uid
from quorate.placement.cluster.occupants import AllocationState
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
# Between ``on_allocate`` and ``on_deallocate``: what plugins count as allocated.
CHARGED_STATUSES: Final = ALLOCATED_STATUSES | {TaskStatus.PIPELINED}
FINISHED_STATUSES: Final = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
# With a node, or in need of none any more.
READY_STATUSES: Final = ALLOCATED_STATUSES | {TaskStatus.SUCCEEDED}
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
    cut_short: bool = False  # it ended because it was deleted

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


@dataclass(slots=True)
class TaskCounts:
    """The numbers of tasks by status, of a gang or of one role in it."""

    by_status: Counter[TaskStatus] = field(default_factory=Counter)
    best_effort: int = 0  # pending best-effort tasks, gated ones included
    # Sums that are read all the time. ``ready``: members that have a node, or have succeeded and need none.
    ready: int = field(init=False)
    pipelined: int = field(init=False)

    def __post_init__(self) -> None:
        self.ready = sum(self.by_status[status] for status in READY_STATUSES)
        self.pipelined = self.by_status[TaskStatus.PIPELINED]

    def add(self, task: Task, amount: int) -> None:
        self.by_status[task.status] += amount
        if task.status in READY_STATUSES:
            self.ready += amount
        elif task.status is TaskStatus.PENDING and task.best_effort:
            self.best_effort += amount
        elif task.status is TaskStatus.PIPELINED:
            self.pipelined += amount

    def move(self, task: Task, status: TaskStatus) -> None:
        """Count ``task``, which has a node before and after, with ``status``."""
        self.by_status[task.status] -= 1
        self.by_status[status] += 1

    @property
    def scheduled(self) -> int:
        """Members with a node in the API, finished ones included."""
        return self.by_status[TaskStatus.RUNNING] + self.by_status[TaskStatus.BOUND] + self.finished

    @property
    def finished(self) -> int:
        return sum(self.by_status[status] for status in FINISHED_STATUSES)

    @property
    def unfinished(self) -> int:
        """Members that may still need a node or hold one."""
        return self.by_status.total() - self.finished

    @property
    def valid(self) -> int:
        """Members that count or may still count for the minimum: neither failed nor releasing."""
        return self.ready + self.pipelined + self.by_status[TaskStatus.PENDING]


def hold_for_status(status: TaskStatus) -> AllocationState | None:
    """Return how a task with ``status`` counts on its node; ``None``: not at all."""
    return _HOLDS[status]


_HOLDS: Final[Mapping[TaskStatus, AllocationState | None]] = {
    **dict.fromkeys(TaskStatus, AllocationState.USED),
    **dict.fromkeys((*FINISHED_STATUSES, TaskStatus.PENDING), None),
    TaskStatus.PIPELINED: AllocationState.PIPELINED,
    TaskStatus.RELEASING: AllocationState.RELEASING,
}
