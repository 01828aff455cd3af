"""Evictions for native pod groups, by the rules of kube-scheduler's workload-aware preemption.

Everything in the queue with a lower priority than the group may be evicted: a gang as a whole, or single pods
of a native group that is disrupted by pod.  The least important are evicted until enough members of the group
have room; then each victim is spared, the most important first, without which they still have.

Nothing is evicted for a group that must be within one topology domain.

Source: Kubernetes 1.36, KEP-5710.  There all possible victims are evicted first; the result is the same,
because a group that has room without some pods has room without more of them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.api.meta import Key
from quorate.gang.actions.hyper_node_rooms import hard_limit
from quorate.gang.actions.ordering import tasks_to_place
from quorate.gang.actions.room_without_victims import amounts_of, free_beside, has_room, room_by_node
from quorate.gang.actions.victim_search import awaits_evictions, carry_out
from quorate.gang.actions.whole_gang_eviction import is_evictable
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import EVICTABLE_STATUSES, Task, TaskStatus
from quorate.gang.pending_reasons import GangUnschedulable
from quorate.gang.session.session import Session
from quorate.gang.session.statement import Statement
from quorate.placement.node_finder import Choice
from quorate.placement.vectors import Matrix, np

MAX_PLACEMENTS: Final = 5_000  # of tasks placed again to find out which victims a group does not need
MAX_VICTIMS: Final = 1_000  # considered for one group, the least important
VICTIMS_PER_MEMBER: Final = 8  # considered for a group that needs many members, if that is more
MAX_NODES_RATIO: Final = (
    8  # nodes of which all victims are tried: as many as may take so many times the members
)


@dataclass(frozen=True, slots=True)
class VictimUnit:
    """Tasks that are evicted together, or not at all.

    The priority of a pod is that of its group, as in kube-scheduler 1.37.  Of equal priority gangs are more
    important than pods, larger gangs than smaller ones, and older than newer ones.  Most groups that wait for
    pods which cannot be evicted are recognized by amounts alone: without all possible victims too few members
    fit the nodes.
    """

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
    """The pods that native groups may preempt in one action, found once for each queue and priority."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[tuple[str, int], _Victims] = {}

    def selections(self, gang: Gang, tasks: Sequence[Task], needed: int) -> Iterator[Sequence[VictimUnit]]:
        """Yield victims of lower priority in the queue of ``gang``, one selection to try after the other.

        Of many victims the least important may be on nodes that are of no use. Then all victims of some nodes
        are tried: of those that have room for ``needed`` of ``tasks`` without victims, then of more nodes.
        """
        victims, limit = self._victims_of(gang), max(MAX_VICTIMS, VICTIMS_PER_MEMBER * needed)
        selection, members = victims.units[:limit], needed
        yield selection
        while len(selection) < len(victims.units) and members < needed * MAX_NODES_RATIO:
            selection = self._on_nodes(victims, tasks, members)
            yield selection
            members *= 2

    def _on_nodes(self, victims: "_Victims", tasks: Sequence[Task], members: int) -> Sequence[VictimUnit]:
        """Return the units on the nodes with the least important victims that may take ``members`` tasks."""
        cluster = self._session.cluster
        last = np.full(cluster.size, -1, np.int64)  # the position of the most important victim on each node
        for position, unit in enumerate(victims.units):
            for task in unit.tasks:
                if (index := cluster.index(task.node)) is not None:
                    last[index] = position
        rooms = np.zeros(cluster.size, np.int64)
        for shape, count in Counter(task.shape for task in tasks).items():
            rooms += np.minimum(room_by_node(self._session, victims.free, shape), count)
        rooms[~cluster.ready] = 0
        order = np.argsort(last, kind="stable")
        enough = int(np.searchsorted(np.cumsum(rooms[order]), members)) + 1
        chosen = {cluster.name(index) for index in order[:enough].tolist() if rooms[index]}
        return [unit for unit in victims.units if any(task.node in chosen for task in unit.tasks)]

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


def preempt_for_native_group(session: Session, gang: Gang, victims_of: NativeVictims) -> bool:
    """Evict what members of ``gang`` need; return False, without evictions, if nothing suffices."""
    tasks = tasks_to_place(session, gang, best_effort=True)
    if hard_limit(gang) is not None or not tasks or not all(task.may_preempt for task in tasks):
        return False
    reason = session.pending_reasons.get(gang.key)
    if isinstance(reason, GangUnschedulable) and reason.never_fits:
        return False
    if any(awaits_evictions(session, task) for task in tasks) or gang.task_counts.pipelined:
        return False
    needed = max(1, gang.min_member - gang.task_counts.ready)
    if not victims_of.may_suffice(gang, tasks, needed):
        return False
    with session.statement() as statement:
        victims: Sequence[VictimUnit] = ()
        for units in victims_of.selections(gang, tasks, needed):
            if victims := _first_sufficient(session, statement, tasks, needed, units):
                break
        else:
            return False
        _evict(statement, victims)
        _place(session, statement, tasks)
        victims = _without_unneeded(session, statement, tasks, needed, victims)
        nodes = [(task, task.node) for task in tasks if task.status is TaskStatus.PIPELINED]
        statement.undo_after(0)
        _evict(statement, victims)
        for task, node in nodes:
            statement.pipeline(task, node)
        carry_out(session, statement, gang, "preempt")
    return True


def _first_sufficient(
    session: Session, statement: Statement, tasks: Sequence[Task], needed: int, units: Sequence[VictimUnit]
) -> Sequence[VictimUnit]:
    """Return the shortest beginning of ``units`` without which ``needed`` tasks have room; () if none.

    Its length is doubled until it suffices: most often few units do, and there may be thousands.
    """
    low, high = 0, 1
    while units and not _suffice(session, statement, tasks, needed, units[:high]):
        if high >= len(units):
            return ()
        low, high = high, high * 2
    high = min(high, len(units))
    while high - low > 1:
        middle = (low + high) // 2
        if _suffice(session, statement, tasks, needed, units[:middle]):
            high = middle
        else:
            low = middle
    return units[:high]


def _without_unneeded(
    session: Session, statement: Statement, tasks: Sequence[Task], needed: int, victims: Sequence[VictimUnit]
) -> Sequence[VictimUnit]:
    """Take back the evictions without which ``needed`` tasks still have room; return the other victims.

    For each victim all tasks of a small group are placed again; of a large group, only the tasks on the nodes
    of the victim.
    """
    kept: list[VictimUnit] = []
    is_small = len(victims) * len(tasks) <= MAX_PLACEMENTS
    by_node: dict[str, set[Task]] = {}
    for task in tasks:
        by_node.setdefault(task.node, set()).add(task)
    for victim in reversed(victims):
        on_nodes = {task for evicted in victim.tasks for task in by_node.get(evicted.node, ())}
        moved = [
            task for task in tasks if task.status is TaskStatus.PIPELINED and (is_small or task in on_nodes)
        ]
        nodes = [task.node for task in moved]
        for task in (*moved, *victim.tasks):
            statement.undo(task)
        before = len(statement.moves)
        placed = _place(session, statement, tasks if is_small else moved)
        if placed >= (needed if is_small else len(moved)):
            for task, node in zip(moved, nodes, strict=True):
                by_node[node].discard(task)
                by_node.setdefault(task.node, set()).add(task)
            continue
        statement.undo_after(before)
        _evict(statement, (victim,))
        for task, node in zip(moved, nodes, strict=True):
            statement.pipeline(task, node)
        kept.append(victim)
    return kept


def _suffice(
    session: Session, statement: Statement, tasks: Sequence[Task], needed: int, units: Sequence[VictimUnit]
) -> bool:
    """Return True if ``needed`` of ``tasks`` have room without ``units``; nothing is evicted afterwards."""
    _evict(statement, units)
    placed = _place(session, statement, tasks)
    statement.undo_after(0)
    return placed >= needed


def _evict(statement: Statement, units: Sequence[VictimUnit]) -> None:
    for unit in units:
        for task in unit.tasks:
            statement.evict(task)


def _place(session: Session, statement: Statement, tasks: Sequence[Task]) -> int:
    """Pipeline the tasks that have room; return how many."""
    placed = 0
    for task in tasks:
        queue = session.queue_of(session.gang_of(task))
        if not session.allocatable(queue, task):
            continue
        session.search_turns.work += 1
        match session.node_finder.best(session.shape_of(task), task.nominated_node):
            case Choice(node, _):
                statement.pipeline(task, node)
                placed += 1
    return placed
