"""The search for nodes for the tasks of one gang, with no more evictions than needed.

The nodes are all nodes, or those of one HyperNode after the other for a gang that must be within one.

A task that fits without evictions gets the best node.  For any other task, tasks on one node are evicted in
victim order until it fits there, or, if only the share of its queue is too small, tasks on any node.  Tasks
without a resource that is short are no candidates.  In the end every victim is spared without which all tasks
of the gang still find nodes.

All moves are made in the caller's statement; the caller decides whether to commit them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from quorate.gang.actions.gang_placement import allocate_minimum
from quorate.gang.actions.hyper_node_rooms import finders_after_evictions, is_pipelined
from quorate.gang.actions.ordering import needed_first, tasks_to_place
from quorate.gang.actions.repeated_search import computed_once
from quorate.gang.actions.room_without_victims import amounts_of, may_be_pipelined
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.deserved import dominant_share
from quorate.gang.outcome import EvictionAction
from quorate.gang.session.session import Session
from quorate.gang.session.statement import Move, Statement
from quorate.gang.session.victims import choose_victims, has_possible_victims, in_victim_order
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.hyper_nodes.part_finder import LimitedNodeFinder
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Matrix

MAX_PLACEMENTS: Final = 1000  # of tasks placed again to find out which victims of one plan it does not need


class VictimSearch:
    """The search for ``gang``; victims are tasks of ``victim_gangs`` with one of ``statuses``."""

    def __init__(
        self,
        session: Session,
        action: EvictionAction,
        gang: Gang,
        victim_gangs: Iterable[Gang],
        statuses: Sequence[TaskStatus],
    ) -> None:
        self._session = session
        self._action = action
        self._queue = session.queue_of(gang)
        self._finder: NodeFinder | LimitedNodeFinder = session.node_finder
        self._victim_gangs = {victim.key: victim for victim in victim_gangs}
        self._statuses = statuses
        # Evictions never add to these nodes.  All tasks of victim gangs there are candidates, also those that
        # a plugin protects: another may allow a number out of all.
        victims = _possible_victims(session, action, gang, self._victim_gangs.values(), statuses)
        self.victim_nodes = {task.node for task in victims}
        self._failed: set[tuple[Shape, int]] = set()  # of tasks for which no node was found, with priority
        # Volcano's preempt leaves a task that fits its nominated node to the action allocate, although it
        # evicts nothing for the rest of the gang then.
        self._leaves_nominated = action == "preempt" and not session.rules.preempts_beside_nominated

    def limit_to(self, finder: NodeFinder | LimitedNodeFinder) -> None:
        """Search the nodes of ``finder`` from now on."""
        self._finder = finder
        self._failed.clear()

    def pipeline(self, task: Task, statement: Statement) -> bool:
        """Pipeline ``task`` to a node, after evictions if needed; return True on success."""
        if not task.may_preempt:
            return False
        if self._fits_nominated_node(task):
            if self._leaves_nominated:
                return False
            statement.pipeline(task, task.nominated_node)
            return True
        kind = (task.shape, task.priority)  # all that distinguishes the members of one gang here
        if kind in self._failed or awaits_evictions(self._session, task):
            return False
        if self._pipeline_now(task, statement) or self._evict_for(task, statement):
            return True
        self._failed.add(kind)
        return False

    def spare_unneeded(self, statement: Statement) -> None:
        """Take back the evictions without which all tasks that ``statement`` pipelines still find nodes.

        The last victim, the most important one, is tried first.  All tasks are placed again for each victim,
        or of a large gang those on the node of a victim: in their order, and if that fails the largest first.
        """
        moves = list(statement.moves)
        evictions = [move for move in moves if move.to_status is TaskStatus.RELEASING]
        tasks = [move.task for move in moves if move.to_status is TaskStatus.PIPELINED]
        left = MAX_PLACEMENTS
        is_small = len(evictions) * len(tasks) <= left
        by_node: dict[str, list[Task]] = {}
        for task in tasks:
            by_node.setdefault(task.node, []).append(task)
        spared: set[Task] = set()
        for victim in (move.task for move in reversed(evictions)):
            to_place = tasks if is_small else by_node.get(victim.node, [])
            if not is_small and (len(to_place) > left or not self._may_fit_without(victim, to_place)):
                continue
            left -= len(to_place)
            if self._spare(victim, to_place, statement):
                spared.add(victim)
        if spared:
            moves = _in_order([move for move in evictions if move.task not in spared], tasks)
        statement.undo_after(0)
        for move in moves:
            statement.redo(move)

    def _spare(self, victim: Task, tasks: Sequence[Task], statement: Statement) -> bool:
        nodes = [task.node for task in tasks]
        for task in (victim, *tasks):
            statement.undo(task)
        self._session.search_turns.work += len(tasks)
        before = len(statement.moves)
        for order in self._orders(tasks):
            if all(self._pipeline_now(task, statement) for task in order):
                return True
            statement.undo_after(before)
        statement.evict(victim)
        for task, node in zip(tasks, nodes, strict=True):
            statement.pipeline(task, node)
        return False

    def _orders(self, tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
        yield tasks
        if len({task.shape for task in tasks}) > 1:
            total = self._session.cluster.total
            yield sorted(tasks, key=lambda task: dominant_share(task.request, total), reverse=True)

    def _may_fit_without(self, victim: Task, tasks: Iterable[Task]) -> bool:
        """Return True if ``victim`` fits its node beside ``tasks``, or any of these another node."""
        return self._session.node_finder.fits(victim.shape, victim.node) or any(
            isinstance(self._finder.best(shape), Choice)
            for shape in {self._session.shape_of(task) for task in tasks}
        )

    def _fits_nominated_node(self, task: Task) -> bool:
        node = task.nominated_node
        return bool(node) and self._fits(node, task)

    def _pipeline_now(self, task: Task, statement: Statement) -> bool:
        """Pipeline ``task`` to the best node if it fits one without further evictions."""
        best = self._finder.best(self._session.shape_of(task))
        if not isinstance(best, Choice) or not self._has_share(task):
            return False
        statement.pipeline(task, best.node)
        return True

    def _evict_for(self, task: Task, statement: Statement) -> bool:
        """Evict tasks on one node and pipeline ``task`` there, or evict for its queue's share alone.

        The nodes are tried in this order: ``preempt`` sorts by score, ``reclaim`` by name.
        """
        if not self.victim_nodes:
            return False
        shape = self._session.shape_of(task)
        best = self._finder.best(shape)
        if isinstance(best, Diagnosis) and best.never_fits:
            return False
        nodes = filter(self.victim_nodes.__contains__, self._finder.nodes_by_score(shape))
        for node in sorted(nodes) if self._action == "reclaim" else nodes:
            if self._evict_on([node], node, task, statement):
                return True
        return isinstance(best, Choice) and self._evict_on(self.victim_nodes, best.node, task, statement)

    def _evict_on(self, nodes: Iterable[str], node: str, task: Task, statement: Statement) -> bool:
        """Evict tasks on ``nodes`` until ``task`` fits ``node``, and pipeline it; else undo them."""
        self._session.search_turns.work += 1
        victims = self._victims(nodes, task)
        freed: Counter[str] = Counter()
        for victim in victims:
            if victim.node == node:
                freed.update(victim.request)
        if not victims or not self._finder.fits(task.shape, node, freed):
            return False
        before = len(statement.moves)
        for victim in victims:
            statement.evict(victim)
            if self._fits(node, task):
                statement.pipeline(task, node)
                return True
        statement.undo_after(before)
        return False

    def _victims(self, nodes: Iterable[str], task: Task) -> Sequence[Task]:
        candidates = [other for node in nodes for other in self._candidates(node, task)]
        if not candidates:
            return ()
        in_order = in_victim_order(self._session, candidates, self._queue)
        return choose_victims(self._session, self._action, task, in_order)

    def _candidates(self, node: str, task: Task) -> Sequence[Task]:
        """Return the tasks on ``node`` that may be evicted and have anything of what ``task`` lacks there."""
        candidates = [
            other
            for other in self._session.model.tasks_on(node)
            if other.gang in self._victim_gangs and other.status in self._statuses and other.preemptable
        ]
        if not candidates:
            return ()
        if task.best_effort and self._action == "preempt":
            candidates = [other for other in candidates if other.best_effort]
        short = self._finder.short_resources(self._session.shape_of(task), node)
        if short is None or not self._has_share(task):
            return candidates
        return [other for other in candidates if any(other.request.get(resource, 0) for resource in short)]

    def _fits(self, node: str, task: Task) -> bool:
        """Return True if ``task`` fits ``node`` once all releasing pods are gone, and its queue's share."""
        return (
            self._has_share(task) and self._finder.capacity_on(self._session.shape_of(task), node) is not None
        )

    def _has_share(self, task: Task) -> bool:
        """Return True if the queue may allocate ``task``.

        Evictions from the same queue make its share available to the task; ``reclaim`` checks the share of
        the task's queue beforehand.
        """
        if self._action == "preempt":
            return self._session.allocatable(self._queue, task)
        return self._session.gang_of(task).has_quota_for(task)


def _possible_victims(
    session: Session,
    action: EvictionAction,
    gang: Gang,
    victim_gangs: Iterable[Gang],
    statuses: Sequence[TaskStatus],
) -> Iterator[Task]:
    for victim in victim_gangs:
        if has_possible_victims(session, action, gang, victim):
            for task in victim.with_status(*statuses):
                if task.preemptable:
                    yield task


def _freed(
    session: Session,
    action: EvictionAction,
    gang: Gang,
    victim_gangs: Callable[[], Iterable[Gang]],
    statuses: Sequence[TaskStatus],
) -> Matrix | None:
    """Return what all possible victims of ``gang`` have, by row and node.

    Gangs of one queue and priority have the same victims, except that none is a victim of its own.
    """
    own = gang.key if gang.with_status(*statuses) else None

    def compute() -> Matrix | None:
        victims = _possible_victims(session, action, gang, victim_gangs(), statuses)
        return amounts_of(session.cluster, victims)

    return computed_once(session, (evict_tasks, action, gang.queue, gang.priority, own), compute)


def evict_tasks(
    session: Session,
    action: EvictionAction,
    gang: Gang,
    victim_gangs: Callable[[], Iterable[Gang]],
    statuses: Sequence[TaskStatus],
    may_pipeline: Callable[[Task], bool],
) -> bool:
    """Evict single tasks until all of ``gang`` can be pipelined.

    Return False, without evictions, if nothing suffices.
    ``victim_gangs``: the same ones for all gangs of one queue and priority, but for the gang itself.
    ``may_pipeline``: whether a task may have others evicted, as its queue is at the time of the call.
    """
    tasks = needed_first(gang, tasks_to_place(session, gang, best_effort=True))
    freed = _freed(session, action, gang, victim_gangs, statuses)
    if not may_be_pipelined(session, gang, tasks, freed):
        return False
    search = VictimSearch(session, action, gang, victim_gangs(), statuses)
    for finder in finders_after_evictions(session, gang, search.victim_nodes, freed):
        search.limit_to(finder)
        with session.statement() as statement:
            for task in tasks:
                if not session.is_starving(gang) and session.is_pipelined(gang):
                    break
                if may_pipeline(task):
                    search.pipeline(task, statement)
            if is_pipelined(session, gang):
                search.spare_unneeded(statement)
                carry_out(session, statement, gang, action)
                return True
    return False


def carry_out(
    session: Session, statement: Statement, gang: Gang, action: EvictionAction, *, whole: bool = False
) -> None:
    """Have the moves of ``statement``, a plan for ``gang``, written to the API.

    A plan without evictions leaves ``gang`` to ``allocate`` if that action runs later: the gang gets nodes by
    it at once, so that nothing is evicted for want of nodes that remain idle in the end.
    """
    is_pipelined = all(move.to_status is TaskStatus.PIPELINED for move in statement.moves)
    if "allocate" in session.later_actions and is_pipelined:
        statement.undo_after(0)
        allocate_minimum(session, gang)
    else:
        session.dispatch(statement.commit(), gang, action, whole=whole)


def _in_order(evictions: Iterable[Move], tasks: Sequence[Task]) -> list[Move]:
    """Return the moves of a plan: each task is pipelined after the evictions on its node."""
    by_node: dict[str, list[Move]] = {task.node: [] for task in tasks}
    for move in evictions:
        by_node.get(move.to_node, by_node[tasks[0].node]).append(move)
    moves = []
    for task in tasks:
        moves += by_node.pop(task.node, [])
        moves.append(Move(task, TaskStatus.PENDING, "", TaskStatus.PIPELINED, task.node))
    return moves


def awaits_evictions(session: Session, task: Task) -> bool:
    """Return True if pods are still leaving the nominated node of ``task``.

    No more evictions are needed then.
    """
    node = task.nominated_node
    return session.cluster.has_leaving_pods(node) and node in session.node_finder.nodes_by_score(task.shape)
