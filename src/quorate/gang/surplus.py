"""What gangs have beyond what they need: who can lose members, and how many.

Two things make a member spare, and both are counted down as members are taken, in the order they are asked:

* The gang keeps its minimum without it (``Spare``).
* The gang is *overused*: it holds more than its ``minResources`` of something the member requests, so that
  even gangs of the same priority may have that (``Excess``).

``preempt`` takes by these rules, and ``enqueue`` lends by them (``Surplus``): a group is admitted on the
strength of what preempt can take for it, neither more nor less.

Source: the design note "Delay Pod Creation" (operators may create more pods than ``minResources`` cover, and
preempt must be able to take that surplus back).
"""

from collections import Counter
from collections.abc import Mapping

from quorate.gang.gang import Gang
from quorate.gang.session import Session
from quorate.gang.task import Standing, Task


class Spare:
    """Whom one gang can lose and still be ready.  ``by_role``: the minimum of each role counts too."""

    __slots__ = ("_members", "_roles")

    def __init__(self, gang: Gang, *, by_role: bool) -> None:
        self._members = gang.tally.ready - gang.min_member
        minima = gang.role_minima if by_role else {}
        self._roles = {role: gang.role(role).ready - minimum for role, minimum in minima.items()}

    def may_lose(self, task: Task) -> bool:
        """Whether the gang is ready without ``task`` and those lost before."""
        return self._members > 0 and self._roles.get(task.role, 1) > 0

    def lose(self, task: Task) -> None:
        self._members -= 1
        if task.role in self._roles:
            self._roles[task.role] -= 1


class Excess:
    """What one gang holds beyond its ``minResources``, of the resources they name."""

    __slots__ = ("_over",)

    def __init__(self, gang: Gang) -> None:
        least = gang.min_resources or {}
        self._over = {name: gang.held[name] - amount for name, amount in least.items()}

    def __bool__(self) -> bool:
        return any(amount > 0 for amount in self._over.values())

    def take(self, task: Task) -> bool:
        """Take ``task`` if there is an excess of something it requests; whether it is taken."""
        if not any(amount > 0 and task.request.get(name, 0) > 0 for name, amount in self._over.items()):
            return False
        for name in self._over:
            self._over[name] -= task.request.get(name, 0)
        return True


class Surplus:
    """What preempt can take for gangs that wait, on what the cluster is at this moment of a session."""

    def __init__(self, session: Session) -> None:
        self._by_queue: dict[str, list[tuple[Gang, Counter[str]]]] = {}
        if "preempt" not in session.settings.actions or not session.settings.preempt.evict_overused:
            return
        for gang in session.gangs:
            spare = _spare_of(session, gang)
            if spare:
                self._by_queue.setdefault(gang.queue, []).append((gang, spare))

    def for_gang(self, gang: Gang) -> Mapping[str, int]:
        """The sum over the other gangs of its queue that are not more important."""
        credit: Counter[str] = Counter()
        for other, spare in self._by_queue.get(gang.queue, ()):
            if other is not gang and other.priority <= gang.priority:
                credit.update(spare)
        return credit


def surplus(session: Session, gang: Gang) -> Mapping[str, int]:
    """What preempt can take for ``gang`` alone: to ask for many, keep a ``Surplus``."""
    return Surplus(session).for_gang(gang)


def _spare_of(session: Session, gang: Gang) -> Counter[str]:
    """What the members of ``gang`` request that the rule of overused groups lets others have."""
    spare: Counter[str] = Counter()
    if not gang.held:
        return spare
    excess = Excess(gang)
    if not excess or gang.tally.ready <= gang.min_member:
        return spare
    members = Spare(gang, by_role=True)
    running = session.in_task_order(gang.with_standing(Standing.RUNNING))[::-1]
    for task in running:
        if task.preemptable and not task.critical and members.may_lose(task) and excess.take(task):
            members.lose(task)
            spare.update(task.request)
    return spare
