"""What gangs have beyond their minimum, and so can lose to preemption.

Two rules decide whether a task is surplus.  Both subtract the tasks taken, in the order of the calls:

* The gang keeps its ``minMember`` without the task (``MinMemberSurplus``).
* The gang is *overused*: it has more than its ``minResources`` of a resource that the task requests, so that
  even gangs of the same priority may preempt the task (``MinResourcesSurplus``).

Source: the design note "Delay Pod Creation" (operators may create more pods than ``minResources`` covers, and
preempt must be able to evict these).
"""

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task


class MinMemberSurplus:
    """The tasks that a gang can lose and be ready.  ``by_role``: role minima count too."""

    __slots__ = ("_members", "_roles")

    def __init__(self, gang: Gang, *, by_role: bool) -> None:
        # Which members of a gang with sub groups are beyond its minimum is not known: none are lost.
        self._members = gang.task_counts.ready - gang.min_member if gang.sub_groups is None else 0
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
        self._surplus = {name: gang.requests.allocated[name] - amount for name, amount in minimum.items()}

    def __bool__(self) -> bool:
        return any(amount > 0 for amount in self._surplus.values())

    def take(self, task: Task) -> bool:
        """Take ``task`` and return True if there is a surplus of any resource that it requests."""
        if not any(amount > 0 and task.request.get(name, 0) > 0 for name, amount in self._surplus.items()):
            return False
        for name in self._surplus:
            self._surplus[name] -= task.request.get(name, 0)
        return True
