"""The search for nodes for the tasks of one gang, with no more evictions than needed.

All moves are made in the caller's statement; the caller decides whether to commit them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.outcome import EvictionAction
from quorate.gang.session.session import Session
from quorate.gang.session.statement import Statement
from quorate.placement.cluster import AllocationState
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.shapes import Shape


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
        self._victim_gangs = {victim.key: victim for victim in victim_gangs}
        self._statuses = statuses
        # The nodes of possible victims; evictions never add to them.  All tasks of victim gangs there are
        # candidates, also those that a plugin protects: another may allow a number out of all.
        self._victim_nodes = self._nodes_of(
            victim
            for victim in self._victim_gangs.values()
            if session.has_possible_victims(action, gang, victim)
        )
        self._failed: set[tuple[Shape, int]] = (
            set()
        )  # shape and priority of tasks for which no node was found
        # Volcano's preempt leaves a task that fits its nominated node to the action allocate, although it
        # evicts nothing for the rest of the gang then.
        self._leaves_nominated = action == "preempt" and session.settings.profile == "compat"

    def _nodes_of(self, gangs: Iterable[Gang]) -> set[str]:
        return {task.node for gang in gangs for task in gang.with_status(*self._statuses) if task.preemptable}

    def pipeline(self, task: Task, statement: Statement) -> bool:
        """Pipeline ``task`` to a node, after evictions there if needed; return True on success."""
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
        if any(self._pipeline_to(node, task, statement) for node in self._nodes(task)):
            return True
        self._failed.add(kind)
        return False

    def _fits_nominated_node(self, task: Task) -> bool:
        node = task.nominated_node
        return bool(node) and self._fits(node, task)

    def _nodes(self, task: Task) -> Iterable[str]:
        """Return the nodes to try, in order: ``preempt`` sorts by score, ``reclaim`` by name.

        If the task fits without evictions, ``preempt`` tries all nodes, and ``reclaim`` those of candidates.
        """
        node_finder = self._session.node_finder
        best = node_finder.best(task.shape)
        if isinstance(best, Diagnosis) and (best.never_fits or not self._victim_nodes):
            return ()
        nodes = node_finder.nodes_by_score(task.shape)
        if self._action == "reclaim":
            to_try = (
                self._victim_nodes
                if isinstance(best, Diagnosis)
                else self._nodes_of(self._victim_gangs.values())
            )
            return sorted(to_try.intersection(nodes))
        return filter(self._victim_nodes.__contains__, nodes) if isinstance(best, Diagnosis) else nodes

    def _pipeline_to(self, node: str, task: Task, statement: Statement) -> bool:
        victims = self._victims(node, task) if node in self._victim_nodes else ()
        freed: Counter[str] = Counter()
        for victim in victims:
            freed.update(victim.request)
        if not self._session.node_finder.fits(task.shape, node, freed):
            return False
        before = len(statement.moves)
        remaining = iter(victims)
        while not self._fits(node, task):
            to_evict = next(remaining, None)
            if to_evict is None:
                statement.undo_after(before)
                return False
            statement.evict(to_evict)
        statement.pipeline(task, node)
        return True

    def _victims(self, node: str, task: Task) -> Sequence[Task]:
        candidates = [
            other
            for other in self._session.model.tasks_on(node)
            if other.gang in self._victim_gangs
            and other.status in self._statuses
            and other.preemptable
            and (other.best_effort or not task.best_effort or self._action == "reclaim")
        ]
        if not candidates:
            return ()
        in_order = self._session.in_victim_order(candidates, self._queue)
        return self._session.victims(self._action, task, in_order)

    def _fits(self, node: str, task: Task) -> bool:
        """Return True if ``task`` fits ``node`` once all releasing pods are gone.

        Evictions from the same queue make its share available to the task; ``reclaim`` checks the share of
        the task's queue beforehand.
        """
        if not self._session.gang_of(task).has_quota_for(task):
            return False
        if self._action == "preempt" and not self._session.allocatable(self._queue, task):
            return False
        return self._session.node_finder.capacity_on(task.shape, node) is not None


def awaits_evictions(session: Session, task: Task) -> bool:
    """Return True if pods are still leaving the nominated node of ``task``.

    No more evictions are needed then.
    """
    index = session.cluster.index(task.nominated_node) if task.nominated_node else None
    if index is None or task.nominated_node not in session.node_finder.nodes_by_score(task.shape):
        return False
    return any(hold is AllocationState.RELEASING for _, hold in session.cluster.pod_counts(index))
