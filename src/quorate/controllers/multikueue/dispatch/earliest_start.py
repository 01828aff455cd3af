"""The EarliestStart dispatcher: one copy, in the worker cluster in which the workload starts first.

Each cluster is asked when it would start the workload.  The cluster with the earliest P50 is nominated, and
the first one of the configured order among equals.  Clusters without an answer rank after those with a P50,
and clusters in which the workload never starts are left out.  Estimates can be wrong: while the workload
waits, the clusters are asked again, and the copy moves if another cluster is earlier by a margin.

The nominated cluster, and the numbers of all clusters that led to it, are in the status of the workload.  A
new process asks again, and keeps the nomination until it has answers.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from quorate.controllers.multikueue.dispatch.cluster_starts import (
    ClusterStart,
    NeverStarts,
    StartsBy,
    StartsLater,
    UnknownStart,
    starts_text,
)
from quorate.controllers.multikueue.dispatch.dispatchers import Nomination, NominationInput

ASK_SOON_S: Final = 30.0  # after the last answers, at least: most workloads that start now have started
ASK_AGAIN_S: Final = 300.0  # if it is not known when the workload starts: a round of Incremental
ASK_AGAIN_AT_MOST_S: Final = 3600.0
PART_OF_WAIT: Final = 0.25  # of the estimated wait, after which the clusters are asked again
MARGIN_S: Final = 60.0  # a copy moves if another cluster is earlier by more than this,
MARGIN_OF_WAIT: Final = 0.1  # and by more than this part of the wait in its own cluster
TIE_S: Final = 1.0  # starts within one such interval are equal


def earliest_start(info: NominationInput) -> Nomination:
    """Nominate the connected cluster that starts the workload first.

    Without any answer the nomination is kept.  No cluster is nominated if the workload starts in none.
    """
    starts = {name: info.estimates[name] for name in info.clusters if name in info.estimates}
    if not starts:
        return Nomination(clusters=tuple(name for name in info.nominated if name in info.clusters))
    ranks = {
        name: _rank(start, info.now)
        for name, start in starts.items()
        if name in info.connected and not isinstance(start, NeverStarts)
    }
    chosen = min(ranks, key=ranks.__getitem__, default=None)  # the first of equals, in the configured order
    for held in info.nominated:
        if chosen is not None and held in ranks and not _is_earlier(ranks[chosen], ranks[held]):
            chosen = held
    nominated = () if chosen is None else (chosen,)
    return Nomination(
        clusters=nominated,
        wake_at=info.now + ask_again_s(starts, nominated, info.now),
        explanation=starts_text(info.clusters, starts, info.now),
    )


def ask_again_s(starts: Mapping[str, ClusterStart], nominated: tuple[str, ...], now: float) -> float:
    """Return how long the answers count, in seconds: a part of the wait in the nominated cluster."""
    waits = [
        PART_OF_WAIT * (start.p50 - now)
        for name in nominated
        if isinstance(start := starts.get(name), StartsBy)
    ]
    return min(max(ASK_SOON_S, *waits), ASK_AGAIN_AT_MOST_S) if waits else ASK_AGAIN_S


def _rank(start: ClusterStart, now: float) -> tuple[int, float]:
    """Return what orders clusters, the best first: how much is known, and the wait in seconds."""
    match start:
        case StartsBy(p50=p50):
            return 0, max(0.0, p50 - now) // TIE_S * TIE_S
        case UnknownStart():
            return 1, 0.0
        case StartsLater():
            return 2, 0.0
        case NeverStarts():
            return 3, 0.0
        case _:
            assert_never(start)


def _is_earlier(rank: tuple[int, float], held: tuple[int, float]) -> bool:
    """Return True if a copy moves from a cluster with the rank ``held`` to one with ``rank``."""
    if rank[0] != held[0]:
        return rank[0] < held[0]
    return rank[1] + max(MARGIN_S, MARGIN_OF_WAIT * held[1]) < held[1]
