"""Gangs go by their dominant share: who holds the smaller part of the scarcest thing it has goes first.

With a hierarchy queues go by theirs, in a tree of weights (``gang.weighted_tree``).  Source: the plugin drf
of Volcano; Ghodsi et al., Dominant Resource Fairness (NSDI 2011).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.deserved import dominant_share
from quorate.gang.gang import Gang
from quorate.gang.policy import Policy, Rank
from quorate.gang.queue import Queue, weights_of
from quorate.gang.queue_account import add
from quorate.gang.session import Session
from quorate.gang.task import Task
from quorate.gang.weighted_tree import Holding, Path, Served, served

# Shares that differ by no more are equal to those who look for victims.
EQUAL: Final = Fraction(1, 10**6)


def drf(session: Session, entry: PluginEntry) -> Policy:
    total = session.cluster.total

    def gang_rank(gang: Gang) -> Rank:
        return (dominant_share(gang.taken, total),)

    def preemptable(claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Those whose gangs are left with no smaller share than the claimant's gang will have."""
        claimed = Counter(session.gang_of(claimant).taken)
        add(claimed, claimant.request)
        share = dominant_share(claimed, total)
        left: dict[Key, Counter[str]] = {}
        victims = []
        for task in candidates:
            gang = session.gang_of(task)
            after = Counter(left.get(gang.key, gang.taken))
            add(after, task.request, -1)
            if share <= dominant_share(after, total) + EQUAL:
                left[gang.key] = after
                victims.append(task)
        return victims

    if not entry.hierarchy:
        return Policy(gang_rank=gang_rank, preemptable=preemptable)
    tree = _Tree(session)
    return Policy(
        gang_rank=gang_rank,
        queue_rank=tree.queue_rank,
        preemptable=preemptable,
        reclaimable=tree.reclaimable,
        took=tree.forget,
        gave_back=tree.forget,
    )


class _Tree:
    """The queues in their tree of weights, as well served as their gangs are now."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._paths: dict[str, Path] = {}
        self._weights: dict[
            Path, Fraction
        ] = {}  # of two that name a node, the first queue by name says its weight
        for name in sorted(session.queues):
            steps = weights_of(name, session.queues)
            self._paths[name] = tuple(step for step, _ in steps)
            for depth, (_, weight) in enumerate(steps, start=1):
                self._weights.setdefault(self._paths[name][:depth], weight)
        self._served: Mapping[Path, Served] | None = None  # as it is now, if somebody asked since it changed

    def forget(self, task: Task) -> None:
        self._served = None

    def queue_rank(self, queue: Queue) -> Rank:
        if self._served is None:
            self._served = served(self._session.cluster.total, list(self._holdings().values()))
        return self._rank(queue.name, self._served)

    def _rank(self, queue: str, served: Mapping[Path, Served]) -> Rank:
        """Queues compare where their paths part, and further down where they are equal there."""
        path = self._paths[queue]
        above = (path[:depth] for depth in range(1, len(path) + 1))
        return tuple(served.get(each, _NOT_SERVED).rank(self._weights[each]) for each in above)

    def _holdings(self) -> dict[Key, Holding]:
        return {
            gang.key: Holding(self._paths[gang.queue], gang.taken, gang.taken + gang.wanted)
            for gang in self._session.gangs
        }

    def reclaimable(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Those without whom their queue still goes after the claimant's, once that has its task."""
        total, holdings = self._session.cluster.total, self._holdings()
        holdings[claimant.gang] = _with(holdings[claimant.gang], claimant, 1)
        home = self._session.gang_of(claimant).queue
        victims = []
        for task in candidates:
            before = holdings[task.gang]
            holdings[task.gang] = _with(before, task, -1)
            after = served(total, list(holdings.values()))
            if self._rank(home, after) < self._rank(self._session.gang_of(task).queue, after):
                victims.append(task)
            else:
                holdings[task.gang] = before
        return victims


_NOT_SERVED: Final = Served(saturated=False, share=Fraction(0))


def _with(holding: Holding, task: Task, factor: int) -> Holding:
    taken = Counter(holding.taken)
    add(taken, task.request, factor)
    return replace(holding, taken=taken)
