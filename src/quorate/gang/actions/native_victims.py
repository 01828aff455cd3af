"""What may be evicted for native pod groups, and a bound of what that frees.

The priority of a pod is that of its group, as in kube-scheduler 1.37.  Of equal priority gangs are more
important than pods, larger gangs than smaller ones, and older than newer ones.  Most groups that wait for
pods which cannot be evicted are recognized by amounts alone: without all possible victims too few members
fit the nodes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quorate.api.meta import Key
from quorate.gang.actions.room_without_victims import amounts_of, free_beside, has_room
from quorate.gang.actions.whole_gang_eviction import is_evictable
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import EVICTABLE_STATUSES, Task
from quorate.gang.session.session import Session
from quorate.placement.vectors import Matrix


@dataclass(frozen=True, slots=True)
class VictimUnit:
    """Tasks that are evicted together, or not at all."""

    tasks: Sequence[Task]
    priority: int
    is_gang: bool

    @property
    def importance(self) -> tuple[int, bool, int]:
        """What decides which of two units is more important; of equal ones the older unit is."""
        return (self.priority, self.is_gang, len(self.tasks) * self.is_gang)

    @property
    def creation_order(self) -> tuple[float, Key]:
        return min(task.creation_order for task in self.tasks)


class _Victims(NamedTuple):
    position: int  # in the log of changes of the nodes
    units: Sequence[VictimUnit]  # the least important first
    free: Matrix | None  # amounts by row and node without all of them; None: they exceed 64 bits


class NativeVictims:
    """The possible victims of native groups in one action; groups of one queue and priority share them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[tuple[str, int], _Victims] = {}

    def units(self, gang: Gang) -> Sequence[VictimUnit]:
        """Return the victims of lower priority in the queue of ``gang``, the least important first."""
        return self._victims_of(gang).units

    def may_suffice(self, gang: Gang, tasks: Sequence[Task], needed: int) -> bool:
        """Return False if fewer than ``needed`` of ``tasks`` fit the nodes by amounts without any victim."""
        victims = self._victims_of(gang)
        if not victims.units:
            return False
        return has_room(self._session, victims.free, tasks, needed)

    def _victims_of(self, gang: Gang) -> _Victims:
        key, position = (gang.queue, gang.priority), self._session.cluster.usage_changes.end
        victims = self._found.get(key)
        if victims is None or victims.position != position:
            newest_first = sorted(
                self._possible_victims(*key), key=lambda unit: unit.creation_order, reverse=True
            )
            units = sorted(newest_first, key=lambda unit: unit.importance)
            evicted = (task for unit in units for task in unit.tasks)
            cluster = self._session.cluster
            free = free_beside(cluster, amounts_of(cluster, evicted))
            victims = self._found[key] = _Victims(position, units, free)
        return victims

    def _possible_victims(self, queue: str, priority: int) -> Iterator[VictimUnit]:
        session = self._session
        protections = session.callbacks.protected
        for gang in session.gangs:
            if gang.queue != queue or gang.priority >= priority:
                continue
            if gang.native is None or gang.native.is_disrupted_as_a_whole:
                if is_evictable(session, gang):
                    yield VictimUnit(gang.with_status(*EVICTABLE_STATUSES), gang.priority, is_gang=True)
                continue
            for task in gang.with_status(*EVICTABLE_STATUSES):
                is_protected = task.critical or any(protects(task) for protects in protections)
                if task.preemptable and not is_protected:
                    yield VictimUnit((task,), gang.priority, is_gang=False)
