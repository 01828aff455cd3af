"""Gangs: pod groups with their tasks, and what is counted of them.

Counts and sums are kept as tasks come, go and change their standing; nothing is recounted.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.api.meta import Key, Uid
from quorate.api.volcano import PodGroupCondition, PodGroupSpec
from quorate.gang.outcome import GangStatus
from quorate.gang.task import FINISHED, HOLDING, Standing, Task
from quorate.gang.verdicts import Verdict
from quorate.placement.shapes import Shape

UNSEEN: Final = Uid("")


# Every sum that is empty, of any gang: most gangs need few of theirs at a time.  Nobody adds to it.
_NOTHING: Final[Counter[str]] = Counter()


def _nothing() -> Counter[str]:
    return _NOTHING


def _added(sum_: Counter[str], amounts: Mapping[str, int], factor: int) -> Counter[str]:
    """``sum_``, which is another one from now on, with so many times ``amounts``."""
    if sum_ is _NOTHING:
        sum_ = Counter()
    for resource, amount in amounts.items():
        sum_[resource] += amount * factor
    return sum_ if factor > 0 or any(sum_.values()) else _NOTHING


@dataclass(slots=True)
class Tally:
    """Tasks by standing, of a gang or of one role in it."""

    of: Counter[Standing] = field(default_factory=Counter)
    best_effort: int = 0  # pending ones that ask for nothing, gated ones included

    def add(self, task: Task, amount: int) -> None:
        self.of[task.standing] += amount
        if task.standing is Standing.PENDING and task.best_effort:
            self.best_effort += amount

    @property
    def ready(self) -> int:
        """Members that hold a node, or needed one no longer because they succeeded."""
        of = self.of.get  # not by a loop: it is asked for several times for each task that is placed
        return (
            of(Standing.RUNNING, 0)
            + of(Standing.BOUND, 0)
            + of(Standing.BINDING, 0)
            + of(Standing.ALLOCATED, 0)
            + of(Standing.SUCCEEDED, 0)
        )

    @property
    def promised(self) -> int:
        return self.of.get(Standing.PIPELINED, 0)

    @property
    def scheduled(self) -> int:
        """Members whose node the API knows, finished ones included."""
        return self.of[Standing.RUNNING] + self.of[Standing.BOUND] + self.finished

    @property
    def finished(self) -> int:
        return sum(self.of[standing] for standing in FINISHED)

    @property
    def valid(self) -> int:
        """Members that are, or may still become, part of the gang: neither failed nor on their way out."""
        return self.ready + self.promised + self.of[Standing.PENDING]


@dataclass(slots=True, eq=False)
class Gang:
    """One pod group, and the pods that name it.

    The fields down to ``attempted`` are what the API says of the pod group, or what a session decided and
    the API is being told; those after it follow from the tasks.
    """

    key: Key
    uid: Uid = UNSEEN
    exists: bool = False  # whether the pod group itself has been seen; without it its pods wait
    is_leaving: bool = False  # whether it is being deleted: nothing is reserved for it any more
    spec: PodGroupSpec | None = None  # as it stands in the object; what is read of it follows
    queue: str = "default"
    min_member: int = 0
    min_task_member: Mapping[str, int] = field(default_factory=dict)
    min_resources: Mapping[str, int] | None = None  # in base units; None: no reservation is made
    quota_minimum: Mapping[str, int] = field(
        default_factory=dict
    )  # all that minResources names, as quotas do
    priority_class: str = ""
    priority: int = 0
    preemptable: bool = True  # whether it may be evicted whole
    created: float = 0.0
    annotations: Mapping[str, str] = field(default_factory=dict)
    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    inqueue_since: float | None = None  # when it was admitted, until it first runs
    not_before: float | None = None  # not admitted again earlier, after it was rolled back
    attempts: int = 0  # how often it was rolled back, as it stands in its object, since it last ran
    attempted: str = ""  # the digest of the spec that these were attempts with; "" if that is not known
    partial_since: float | None = None  # since when some members, but too few, hold nodes; not stored
    told: GangStatus | None = None  # what the API says of the above, or is being told
    # Why it waits, and the conditions that say so, once this process has compared them.
    reported: tuple[Verdict, tuple[PodGroupCondition, ...]] | None = None
    # When the last event was told, by its reason and what it was about.
    noticed: Mapping[tuple[str, str], float] = field(default_factory=dict)

    tasks: dict[Key, Task] = field(default_factory=dict)
    is_settled: bool = False  # all is said that is to be said of it, and nothing has changed since
    settled_with: Verdict | None = None  # why it waited then
    placeable: dict[Key, Task] = field(default_factory=dict)  # those that are pending and not gated
    shapes: Counter[Shape] = field(default_factory=Counter)  # of the placeable ones, no zeros
    tally: Tally = field(default_factory=Tally)
    roles: dict[str, Tally] = field(default_factory=dict)
    held: Counter[str] = field(default_factory=_nothing)  # what tasks that hold a node request
    wanted: Counter[str] = field(default_factory=_nothing)  # what pending tasks request
    gated: Counter[str] = field(default_factory=_nothing)  # what those request that others have gated
    promised: Counter[str] = field(default_factory=_nothing)  # what tasks request that are promised a node
    consumed: Counter[str] = field(default_factory=_nothing)  # what tasks that are done requested
    quota_used: Counter[str] = field(default_factory=_nothing)  # what all tasks use of quotas, by every name
    changes: int = 0  # how often a task came, left or came to stand elsewhere

    def take(self, status: GangStatus) -> None:
        """Let ``status`` be what the API says."""
        self.is_settled = False
        self.told = status
        self.phase, self.conditions = status.phase, status.conditions
        self.inqueue_since, self.not_before = status.inqueue_since, status.not_before
        self.attempts, self.attempted = status.attempts, status.attempted

    def add(self, task: Task) -> None:
        assert task.key not in self.tasks, f"{task.key} is in {self.key} already"
        self.tasks[task.key] = task
        self._count(task, 1)
        self.quota_used = _added(self.quota_used, task.quota_usage, 1)

    def remove(self, task: Task) -> None:
        del self.tasks[task.key]
        self._count(task, -1)
        self.quota_used = _added(self.quota_used, task.quota_usage, -1)

    def shift(self, task: Task, standing: Standing, node: str) -> None:
        """``task``, of this gang, stands elsewhere now."""
        self._count(task, -1)
        task.standing, task.node = standing, node
        self._count(task, 1)

    def _count(self, task: Task, amount: int) -> None:
        self.is_settled = False
        self.changes += 1
        self.tally.add(task, amount)
        if task.role not in self.roles:
            self.roles[task.role] = Tally()
        self.roles[task.role].add(task, amount)
        if task.standing in HOLDING:
            self.held = _added(self.held, task.request, amount)
        elif task.standing is Standing.PENDING:
            self.wanted = _added(self.wanted, task.request, amount)
            if task.gated_by_others:
                self.gated = _added(self.gated, task.request, amount)
            if not task.gated:
                self._count_placeable(task, amount)
        elif task.standing is Standing.PIPELINED:
            self.promised = _added(self.promised, task.request, amount)
        elif task.standing in FINISHED:
            self.consumed = _added(self.consumed, task.request, amount)

    def _count_placeable(self, task: Task, amount: int) -> None:
        self.shapes[task.shape] += amount
        if not self.shapes[task.shape]:
            del self.shapes[task.shape]
        if amount > 0:
            self.placeable[task.key] = task
        else:
            del self.placeable[task.key]
            if not self.placeable:
                self.placeable = {}  # an emptied dict keeps the memory of all it ever held

    @property
    def taken(self) -> Counter[str]:
        """What it holds and is promised: what plugins were told it took."""
        return self.held + self.promised

    @property
    def is_waiting(self) -> bool:
        """Not admitted: no pod of it should exist, and none is placed."""
        return self.phase in ("", "Pending")

    @property
    def is_active(self) -> bool:
        return self.phase in ("Inqueue", "Running", "Unknown")

    @property
    def has_started(self) -> bool:
        """Whether a member got a node or is done, so that the group is not rolled back any more."""
        if self.phase in ("Running", "Unknown"):
            return True
        tally = self.tally
        return (
            tally.scheduled + tally.of[Standing.BINDING] > 0
            or tally.of[Standing.UNKNOWN] > 0
            or any(task.node for task in self.with_standing(Standing.RELEASING))
        )

    def role(self, name: str) -> Tally:
        return self.roles.get(name, _NONE)

    def with_standing(self, *standings: Standing) -> Sequence[Task]:
        """In no order that means anything."""
        if not any(self.tally.of[standing] for standing in standings):
            return ()
        return [task for task in self.tasks.values() if task.standing in standings]

    @property
    def role_minima(self) -> Mapping[str, int]:
        """The minimum of each role; none count where together they exceed the minimum of the whole.

        Source: Volcano, whose gang plugin then looks at the whole alone.
        """
        return self.min_task_member if self.min_member >= sum(self.min_task_member.values()) else {}

    def is_ready(self, *, with_best_effort: bool) -> bool:
        """Whether enough members, and of each role enough, hold a node.

        ``with_best_effort`` counts pending members that ask for nothing (profile ``compat``).
        """
        return self._reaches(lambda tally: tally.ready + (tally.best_effort if with_best_effort else 0))

    def is_promised(self, *, with_best_effort: bool) -> bool:
        """The same of members that hold a node or are promised one."""
        return self._reaches(
            lambda tally: tally.ready + tally.promised + (tally.best_effort if with_best_effort else 0)
        )

    def short_by(self, *, with_best_effort: bool) -> int:
        """How many more members than now have to hold a node, whatever their roles."""
        counted = self.tally.ready + (self.tally.best_effort if with_best_effort else 0)
        return max(0, self.min_member - counted)

    @property
    def is_valid(self) -> bool:
        """Whether as many members as it needs exist and may still be part of it."""
        return self._reaches(lambda tally: tally.valid)

    @property
    def is_starving(self) -> bool:
        """Whether fewer members than it needs hold a node or are promised one, whatever their roles."""
        return self.tally.ready + self.tally.promised < self.min_member

    def _reaches(self, count: Callable[[Tally], int]) -> bool:
        return count(self.tally) >= self.min_member and all(
            count(self.role(role)) >= minimum for role, minimum in self.role_minima.items()
        )


_NONE = Tally()
