"""Making room for the members of one gang: for each on one node, evicting no more others than needed.

All is done in a trial of whoever asks: whether it was worth it is decided there.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from quorate.gang.gang import Gang
from quorate.gang.outcome import Evictor
from quorate.gang.session import Session
from quorate.gang.task import Standing, Task
from quorate.gang.trial import Trial, evict, promise
from quorate.placement.cluster import AllocationState
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.shapes import Shape


class Room:
    """What ``gang`` can have of ``givers``: of their tasks that stand as ``standings`` say."""

    def __init__(
        self,
        session: Session,
        evictor: Evictor,
        gang: Gang,
        givers: Iterable[Gang],
        standings: Sequence[Standing],
    ) -> None:
        self._session = session
        self._evictor = evictor
        self._queue = session.queue_of(gang)
        self._givers = {giver.key: giver for giver in givers}
        self._standings = standings
        # The nodes of those who may be evicted: evictions leave nobody with more to give.  All tasks beside
        # them are candidates, also those that a plugin protects: another may choose only so many of all.
        self._hosts = self._nodes_of(
            giver for giver in self._givers.values() if session.may_give(evictor, gang, giver)
        )
        self._misfits: set[tuple[Shape, int]] = set()  # for whose like there was none
        # Volcano's preempt leaves who can be where others were evicted for it to the action allocate, though
        # nobody is evicted then for the rest of its gang.
        self._waits_for_allocate = evictor == "preempt" and session.settings.profile == "compat"

    def _nodes_of(self, givers: Iterable[Gang]) -> set[str]:
        return {
            task.node
            for giver in givers
            for task in giver.with_standing(*self._standings)
            if task.preemptable
        }

    def make(self, task: Task, trial: Trial) -> bool:
        """Promise ``task`` a node, if need be after evicting others there."""
        if not task.preempts:
            return False
        if self._keeps_nomination(task):
            if self._waits_for_allocate:
                return False
            trial.do(promise(task, task.nominated))
            return True
        like = (task.shape, task.priority)  # all that tells the members of one gang apart here
        if like in self._misfits or is_awaited(self._session, task):
            return False
        if any(self._make_on(node, task, trial) for node in self._nodes(task)):
            return True
        self._misfits.add(like)
        return False

    def _keeps_nomination(self, task: Task) -> bool:
        """Whether the task can be where others were evicted for it before."""
        node = task.nominated
        return bool(node) and self._may_be_on(node, task)

    def _nodes(self, task: Task) -> Iterable[str]:
        """Where it may be worth while, in order: ``preempt`` goes by scores, ``reclaim`` by names.

        Where nobody has to go for it, ``preempt`` looks at all nodes, and ``reclaim`` at those of candidates.
        """
        node_finder = self._session.node_finder
        best = node_finder.best(task.shape)
        if isinstance(best, Diagnosis) and (best.never_fits or not self._hosts):
            return ()
        nodes = node_finder.nodes_by_score(task.shape)
        if self._evictor == "reclaim":
            hosts = self._hosts if isinstance(best, Diagnosis) else self._nodes_of(self._givers.values())
            return sorted(hosts.intersection(nodes))
        return filter(self._hosts.__contains__, nodes) if isinstance(best, Diagnosis) else nodes

    def _make_on(self, node: str, task: Task, trial: Trial) -> bool:
        victims = self._victims(node, task) if node in self._hosts else ()
        freed: Counter[str] = Counter()
        for victim in victims:
            freed.update(victim.request)
        if not self._session.node_finder.fits(task.shape, node, freed):
            return False
        before = len(trial.moves)
        to_go = iter(victims)
        while not self._may_be_on(node, task):
            next_to_go = next(to_go, None)
            if next_to_go is None:
                trial.back_to(before)
                return False
            trial.do(evict(next_to_go))
        trial.do(promise(task, node))
        return True

    def _victims(self, node: str, task: Task) -> Sequence[Task]:
        candidates = [
            other
            for other in self._session.model.tasks_on(node)
            if other.gang in self._givers
            and other.standing in self._standings
            and other.preemptable
            and (other.best_effort or not task.best_effort or self._evictor == "reclaim")
        ]
        if not candidates:
            return ()
        in_order = self._session.in_victim_order(candidates, self._queue)
        return self._session.victims(self._evictor, task, in_order)

    def _may_be_on(self, node: str, task: Task) -> bool:
        """Whether the task can be there once all who are leaving have left.

        Evicting others of its own queue gives the queue room for it; ``reclaim`` judges before what the queue
        may claim from other queues.
        """
        if self._evictor == "preempt" and not self._session.may_allocate(self._queue, task):
            return False
        return self._session.node_finder.capacity_on(task.shape, node) is not None


def is_awaited(session: Session, task: Task) -> bool:
    """Whether pods are still leaving the node that ``task`` was promised: then nobody else need go for it."""
    index = session.cluster.index(task.nominated) if task.nominated else None
    if index is None or task.nominated not in session.node_finder.nodes_by_score(task.shape):
        return False
    return any(hold is AllocationState.RELEASING for _, hold in session.cluster.pod_counts(index))
