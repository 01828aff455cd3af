"""Gangs go by their dominant share: who holds the smaller part of the scarcest thing it has goes first.

Source: the plugin drf of Volcano; Ghodsi et al., Dominant Resource Fairness (NSDI 2011).
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.deserved import dominant_share
from quorate.gang.gang import Gang
from quorate.gang.policy import Policy, Rank
from quorate.gang.queue_account import add
from quorate.gang.session import Session
from quorate.gang.task import Task

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

    return Policy(gang_rank=gang_rank, preemptable=preemptable)
