"""What gangs have beyond their minimum, and so can lose to preemption.

Two rules decide whether a task is surplus.  Both subtract the tasks taken, in the order of the calls:

* The gang keeps its ``minMember`` without the task (``MinMemberSurplus``).
* The gang is *overused*: it has more than its ``minResources`` of a resource that the task requests, so that
  even gangs of the same priority may preempt the task (``MinResourcesSurplus``).

``preempt`` evicts by these rules, and ``enqueue`` counts on them (``PreemptableSurplus``): it admits a group
for the amounts that preempt can take for it, neither more nor less.

Source: the design note "Delay Pod Creation" (operators may create more pods than ``minResources`` covers, and
preempt must be able to evict these).
"""

from collections import Counter
from collections.abc import Mapping

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.session.session import Session


class MinMemberSurplus:
    """The tasks that a gang can lose and be ready.  ``by_role``: role minima count too."""

    __slots__ = ("_members", "_roles")

    def __init__(self, gang: Gang, *, by_role: bool) -> None:
        self._members = gang.task_counts.ready - gang.min_member
        minima = gang.role_minima if by_role else {}
        self._roles = {role: gang.role(role).ready - minimum for role, minimum in minima.items()}

    def allows(self, task: Task) -> bool:
        """Return True if the gang is ready without ``task`` and those taken before."""
        return self._members > 0 and self._roles.get(task.role, 1) > 0

    def take(self, task: Task) -> None:
        self._members -= 1
        if task.role in self._roles:
            self._roles[task.role] -= 1


class MinResourcesSurplus:
    """What a gang has beyond its ``minResources``, of the resources that these name."""

    __slots__ = ("_surplus",)

    def __init__(self, gang: Gang) -> None:
        minimum = gang.min_resources or {}
        self._surplus = {name: gang.allocated[name] - amount for name, amount in minimum.items()}

    def __bool__(self) -> bool:
        return any(amount > 0 for amount in self._surplus.values())

    def take(self, task: Task) -> bool:
        """Take ``task`` and return True if there is a surplus of any resource that it requests."""
        if not any(amount > 0 and task.request.get(name, 0) > 0 for name, amount in self._surplus.items()):
            return False
        for name in self._surplus:
            self._surplus[name] -= task.request.get(name, 0)
        return True


class PreemptableSurplus:
    """What preempt can take for waiting gangs in the present state of a session."""

    def __init__(self, session: Session) -> None:
        self._by_queue: dict[str, list[tuple[Gang, Counter[str]]]] = {}
        if "preempt" not in session.settings.actions or not session.settings.preempt.evict_overused:
            return
        for gang in session.gangs:
            amounts = _surplus_of(session, gang)
            if amounts:
                self._by_queue.setdefault(gang.queue, []).append((gang, amounts))

    def for_gang(self, gang: Gang) -> Mapping[str, int]:
        """Return the sum over the other gangs of its queue with no higher priority."""
        total: Counter[str] = Counter()
        for other, amounts in self._by_queue.get(gang.queue, ()):
            if other is not gang and other.priority <= gang.priority:
                total.update(amounts)
        return total


def _surplus_of(session: Session, gang: Gang) -> Counter[str]:
    """Return the requests of the tasks that ``gang``, if overused, can lose to preempt."""
    amounts: Counter[str] = Counter()
    if not gang.allocated:
        return amounts
    min_resources = MinResourcesSurplus(gang)
    if not min_resources or gang.task_counts.ready <= gang.min_member:
        return amounts
    min_member = MinMemberSurplus(gang, by_role=True)
    running = session.in_task_order(gang.with_status(TaskStatus.RUNNING))[::-1]
    for task in running:
        if task.preemptable and not task.critical and min_member.allows(task) and min_resources.take(task):
            min_member.take(task)
            amounts.update(task.request)
    return amounts
