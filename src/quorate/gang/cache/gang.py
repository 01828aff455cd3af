"""Gangs: pod groups with their tasks, and the counts and sums of these.

Counts and sums are updated when a task is added, removed or changes its status; nothing is recounted.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.api.meta import Key, Uid
from quorate.api.native_groups import PodGroupSpec as NativeGroupSpec
from quorate.api.volcano import PodGroupCondition, PodGroupSpec
from quorate.gang.admission_record import NO_ADMISSION, AdmissionRecord
from quorate.gang.cache.group_owner import NO_OWNER, UNSEEN, GroupOwner
from quorate.gang.cache.quota_admission import QuotaAdmission
from quorate.gang.cache.reported_status import ReportedStatus
from quorate.gang.cache.sub_groups import GangTopology, SubGroups
from quorate.gang.cache.task import ALLOCATED_STATUSES, FINISHED_STATUSES, Task, TaskCounts, TaskStatus
from quorate.gang.outcome import GangStatus
from quorate.placement.cluster.occupants import NO_ROOM, HeldRoom
from quorate.placement.shapes import NodeGroupRule, Shape
from quorate.quota.amount import PODS

# Shared by all sums that are empty: most gangs use few of theirs at a time.  Never changed.
_EMPTY: Final[Counter[str]] = Counter()


def _empty() -> Counter[str]:
    return _EMPTY


def _plus(sums: Counter[str], amounts: Mapping[str, int], factor: int) -> Counter[str]:
    """Add ``factor`` times ``amounts`` to ``sums``, or to a new counter for the shared one."""
    if sums is _EMPTY:
        sums = Counter()
    for resource, amount in amounts.items():
        sums[resource] += amount * factor
    return sums if factor > 0 or any(sums.values()) else _EMPTY


@dataclass(slots=True, eq=False)
class RequestSums:
    """The sums of the requests of a gang's tasks in base units, by what the tasks have."""

    allocated: Counter[str] = field(default_factory=_empty)  # of tasks with a node
    pending: Counter[str] = field(default_factory=_empty)
    gated: Counter[str] = field(default_factory=_empty)  # of pending tasks with gates that admission leaves
    pipelined: Counter[str] = field(default_factory=_empty)
    finished: Counter[str] = field(default_factory=_empty)
    quota_used: Counter[str] = field(default_factory=_empty)  # of all tasks, by every name of quotas

    def count(self, task: Task, factor: int) -> None:
        """Count ``task`` with its status, or no longer if ``factor`` is -1."""
        request = task.request
        if task.status in ALLOCATED_STATUSES:
            self.allocated = _plus(self.allocated, request, factor)
        elif task.status is TaskStatus.PENDING:
            self.pending = _plus(self.pending, request, factor)
            if task.gated_after_admission:
                self.gated = _plus(self.gated, request, factor)
        elif task.status is TaskStatus.PIPELINED:
            self.pipelined = _plus(self.pipelined, request, factor)
        elif task.status in FINISHED_STATUSES:
            self.finished = _plus(self.finished, request, factor)

    def count_quota(self, task: Task, factor: int) -> None:
        self.quota_used = _plus(self.quota_used, task.quota_usage, factor)

    @property
    def charged(self) -> Counter[str]:
        """The requests of allocated and pipelined tasks: the sum that plugins keep by events."""
        return self.allocated + self.pipelined


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The labels and annotations of a pod group that sessions read."""

    maximum_s: int | None = None  # the declared run time, see ``bounds``
    local_queue: str = ""  # which its pods are expected to have, too
    preemptable: bool = True  # whether it may be evicted as a whole
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_suspended: bool = False  # whether the annotations say that it has no quota of a cluster queue


NO_METADATA: Final = GroupMetadata()


@dataclass(slots=True, eq=False)
class GangRooms:
    """The room that nodes hold for a gang beside that of its tasks."""

    held: HeldRoom = NO_ROOM  # for members that have no node yet, as the admission of its workload has them
    lost: HeldRoom = NO_ROOM  # for the replacements of members that it lost
    unreadable: HeldRoom = NO_ROOM  # of its pods that cannot be read: no tasks, but usage of its queue

    def for_members(self, resource: str) -> int:
        """Return what is held of ``resource`` for members that have no node."""
        return self.held.amounts.get(resource, 0) + self.lost.amounts.get(resource, 0)


@dataclass(slots=True, eq=False)
class Gang:
    """One pod group, and the pods that name it (Volcano: JobInfo).

    The fields down to ``reported`` are fields of the pod group in the API, or are decided by a session and
    being written. The fields from ``tasks`` on follow from the tasks.
    """

    key: Key
    uid: Uid = UNSEEN
    owner: GroupOwner = NO_OWNER
    rooms: GangRooms = field(default_factory=GangRooms)
    quota_admission: QuotaAdmission | None = None  # by a cluster queue; None: it names none
    is_terminating: bool = False  # whether it is being deleted: nothing is reserved for it any more
    # Of the object; the fields that are read from it follow.  None: it was not seen, and its pods wait.
    spec: PodGroupSpec | None = None
    queue: str = "default"
    min_member: int = 0
    min_resources: Mapping[str, int] | None = None  # in base units; None: no reservation is made
    quota_minimum: Mapping[str, int] = field(default_factory=dict)  # minResources, by the names of quotas
    native: NativeGroupSpec | None = None  # of a pod group of Kubernetes; None: it is Volcano's
    topology: GangTopology | None = None  # None: its members may be anywhere, and it has no sub groups
    sub_groups: SubGroups | None = None  # of its tasks; None without policies
    metadata: GroupMetadata = NO_METADATA
    priority: int = 0
    created: float = 0.0
    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    admission: AdmissionRecord = NO_ADMISSION
    reported: ReportedStatus = field(default_factory=ReportedStatus)

    node_groups: NodeGroupRule | None = None  # of its queue, in the shapes of all tasks
    tasks: dict[Key, Task] = field(default_factory=dict)
    schedulable: dict[Key, Task] = field(default_factory=dict)  # the pending tasks without gates
    shapes: Counter[Shape] = field(default_factory=Counter)  # of the schedulable tasks, no zeros
    task_counts: TaskCounts = field(default_factory=TaskCounts)
    ended: int = 0  # see ``deleted_after_end``
    roles: dict[str, TaskCounts] = field(default_factory=dict)
    requests: RequestSums = field(default_factory=RequestSums)
    generation: int = 0  # incremented when a task, the pod group or ``rooms.unreadable`` changes

    def set_status(self, status: GangStatus) -> None:
        """Set the status that the API has."""
        self.reported.written = status
        self.phase, self.conditions, self.admission = status.phase, status.conditions, status.admission

    def add(self, task: Task) -> None:
        assert task.key not in self.tasks, f"{task.key} is in {self.key} already"
        self.tasks[task.key] = task
        if self.sub_groups is not None:
            self.sub_groups.add(task)
        self._count(task, 1)
        self.requests.count_quota(task, 1)

    def remove(self, task: Task) -> None:
        del self.tasks[task.key]
        self._count(task, -1)
        if self.sub_groups is not None:
            self.sub_groups.remove(task)
        self.requests.count_quota(task, -1)

    def set_task_status(self, task: Task, status: TaskStatus, node: str) -> None:
        if task.status in ALLOCATED_STATUSES and status in ALLOCATED_STATUSES:
            self._move(task, status)  # one of the two changes of each task that is placed: no sum changes
            task.status, task.node = status, node
            return
        self._count(task, -1)
        task.status, task.node = status, node
        self._count(task, 1)

    def _move(self, task: Task, status: TaskStatus) -> None:
        """Count ``task``, which has a node, with ``status``."""
        self.generation += 1
        self.task_counts.move(task, status)
        self.roles[task.role].move(task, status)
        if self.sub_groups is not None:
            self.sub_groups.move(task, status)

    def _count(self, task: Task, amount: int) -> None:
        self.generation += 1
        self.task_counts.add(task, amount)
        if task.role not in self.roles:
            self.roles[task.role] = TaskCounts()
        self.roles[task.role].add(task, amount)
        if self.sub_groups is not None:
            self.sub_groups.count(task, amount)
        self.requests.count(task, amount)
        if task.status is TaskStatus.PENDING and not task.gated:
            self._count_schedulable(task, amount)

    def _count_schedulable(self, task: Task, amount: int) -> None:
        self.shapes[task.shape] += amount
        if not self.shapes[task.shape]:
            del self.shapes[task.shape]
        if amount > 0:
            self.schedulable[task.key] = task
        else:
            del self.schedulable[task.key]
            if not self.schedulable:
                self.schedulable = {}  # an emptied dict keeps the memory of its largest size

    @property
    def occupied(self) -> Counter[str]:
        """The requests of its pods that have or await a node, also of unreadable ones; its own copy."""
        return self.requests.charged + Counter(self.rooms.unreadable.amounts)

    def has_quota_for(self, task: Task) -> bool:
        """Return True if the cluster queue that admitted the gang counted a place for ``task``, too.

        Without a cluster queue any number may have a node.  Otherwise as many members as were admitted, and
        no more of any resource than ``minResources``, which was counted.
        """
        admission = self.quota_admission
        if admission is None:
            return not self.is_suspended
        counts, limits = self.task_counts, self.min_resources or {}
        if counts.ready - counts.by_status[TaskStatus.SUCCEEDED] + counts.pipelined >= admission.count:
            return False
        allocated, pipelined = self.requests.allocated, self.requests.pipelined
        return all(
            resource == PODS or allocated[resource] + pipelined[resource] + amount <= limits.get(resource, 0)
            for resource, amount in task.request.items()
        )

    @property
    def exists(self) -> bool:
        """Whether its pod group has been seen."""
        return self.spec is not None

    @property
    def is_suspended(self) -> bool:
        """Whether it waits for quota of a cluster queue, or was evicted."""
        return self.metadata.is_suspended

    @property
    def min_task_member(self) -> Mapping[str, int]:
        return {} if self.spec is None else self.spec.min_task_member

    @property
    def is_pending(self) -> bool:
        """Whether it is not admitted: its pods should not exist, and none is placed.

        A completed group with new members, but too few that are left of those before, waits like a new one.
        A native group needs no admission.
        """
        if self.native is not None:
            return False
        if self.phase != "Completed":
            return self.phase in ("", "Pending")
        counts = self.task_counts
        return counts.by_status[TaskStatus.PENDING] > 0 and counts.scheduled < self.min_member

    @property
    def has_lost_all(self) -> bool:
        """Whether it ran, and has no members with a node left but too few finished ones.

        Members that are being deleted do not count.  New members wait until the group is admitted anew.
        """
        if self.phase not in ("Running", "Unknown") or self.native is not None:
            return False
        counts = self.task_counts
        has_nodes = any(counts.by_status[status] for status in ALLOCATED_STATUSES)
        return not has_nodes and counts.finished - self.cut_short + self.ended_before < self.min_member

    @property
    def cut_short(self) -> int:
        """The number of members that ended because they were deleted: they have not done their work."""
        return sum(task.cut_short for task in self.with_status(*FINISHED_STATUSES))

    @property
    def deleted_after_end(self) -> int:
        """The number of members that finished and were deleted, since a member waited for a node last.

        Of those that were deleted since the last session, a new process knows only those that had finished in
        it, by the written status.
        """
        written = self.reported.written
        if written is None:
            return self.ended
        in_status = written.counts.succeeded + written.counts.failed
        since_session = max(self.ended, in_status - (self.task_counts.finished - self.cut_short))
        return written.admission.ended + since_session

    @property
    def ended_before(self) -> int:
        """``deleted_after_end`` if the last member to go has ended; 0 if it was lost."""
        deleted, written = self.deleted_after_end, self.reported.written
        recorded = 0 if written is None else written.admission.ended
        return deleted if deleted > recorded or self.task_counts.finished > self.cut_short else 0

    @property
    def failed_to_replace(self) -> Sequence[Task]:
        """The failed members that are to be replaced because the gang is short of them; else none."""
        is_replaced = self.task_counts.ready < self.min_member and self.owner.replaces_failed
        return self.with_status(TaskStatus.FAILED) if is_replaced else ()

    @property
    def is_short(self) -> bool:
        """Whether members hold nodes, but too few for ``min_member`` have one or need none any more."""
        return bool(self.requests.allocated) and self.task_counts.ready < self.min_member

    @property
    def is_active(self) -> bool:
        return self.phase in ("Inqueue", "Running", "Unknown")

    @property
    def has_started(self) -> bool:
        """Whether a member has a node or has finished: the group is not rolled back any more.

        Members that are being evicted do not count: the group may be admitted anew before they are gone.
        """
        if self.phase in ("Running", "Unknown"):
            return True
        counts = self.task_counts
        return (
            counts.scheduled + counts.by_status[TaskStatus.BINDING] > 0
            or counts.by_status[TaskStatus.UNKNOWN] > 0
        )

    def role(self, name: str) -> TaskCounts:
        return self.roles.get(name, _NO_TASKS)

    def with_status(self, *statuses: TaskStatus) -> Sequence[Task]:
        """Return the tasks that have one of ``statuses``, in arbitrary order."""
        if not any(self.task_counts.by_status[status] for status in statuses):
            return ()
        return [task for task in self.tasks.values() if task.status in statuses]

    @property
    def role_minima(self) -> Mapping[str, int]:
        """The minimum of each role; empty if their sum exceeds ``min_member``.

        Source: Volcano; its gang plugin checks only ``minMember`` in that case.
        """
        minima = self.min_task_member
        return minima if self.min_member >= sum(minima.values()) else {}

    def is_ready(self, *, with_best_effort: bool) -> bool:
        """Return True if enough members, and enough of each role, have a node.

        ``with_best_effort`` counts pending best-effort members too (profile ``compat``).
        """
        return self._meets_minima(
            lambda counts: counts.ready + (counts.best_effort if with_best_effort else 0)
        )

    def is_pipelined(self, *, with_best_effort: bool) -> bool:
        """Return True if enough members have a node or are pipelined; see ``is_ready``."""
        return self._meets_minima(
            lambda counts: counts.ready + counts.pipelined + (counts.best_effort if with_best_effort else 0)
        )

    def missing_members(self, *, with_best_effort: bool) -> int:
        """Return how many more members need a node for ``min_member``, whatever their roles."""
        counted = self.task_counts.ready + (self.task_counts.best_effort if with_best_effort else 0)
        return max(0, self.min_member - counted)

    @property
    def short_of_parts(self) -> int:
        """How many more members with a node, or pipelined, the minima of its roles and sub groups need."""
        of_roles = sum(
            max(0, minimum - self.role(role).ready - self.role(role).pipelined)
            for role, minimum in self.role_minima.items()
        )
        return max(of_roles, 0 if self.sub_groups is None else self.sub_groups.missing_members())

    @property
    def shortage(self) -> int:
        """How many more members the gang and its parts need with a node, or pipelined, for their minima."""
        counts = self.task_counts
        return max(self.min_member - counts.ready - counts.pipelined, self.short_of_parts)

    @property
    def is_starving(self) -> bool:
        """Whether fewer than ``min_member`` members of any role have a node or are pipelined."""
        return self.task_counts.ready + self.task_counts.pipelined < self.min_member

    def _meets_minima(self, count: Callable[[TaskCounts], int]) -> bool:
        return (
            count(self.task_counts) >= self.min_member
            and all(count(self.role(role)) >= minimum for role, minimum in self.role_minima.items())
            and (self.sub_groups is None or self.sub_groups.first_short(count) is None)
        )

    def set_topology(self, topology: GangTopology | None) -> None:
        """Set what the pod group requires, and divide the tasks into its sub groups."""
        self.topology = topology
        self.sub_groups = SubGroups(topology.policies) if topology is not None and topology.policies else None
        if self.sub_groups is not None:
            for task in self.tasks.values():
                self.sub_groups.add(task)
                self.sub_groups.count(task, 1)


_NO_TASKS = TaskCounts()
