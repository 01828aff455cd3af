"""The EarliestStart dispatcher: one copy, in the worker cluster in which the workload starts first.

Each cluster is asked when it would start the workload.  The cluster with the earliest P50 is nominated.  If
several clusters would start the workload now, the cluster with the least quota left for equal workloads is
nominated (best fit), so that room for large workloads is kept together.  Equal clusters are nominated in the
configured order.  Clusters without an answer rank after those with a P50, and clusters in which the workload
never starts are left out.  Estimates can be wrong: while the workload waits, the clusters are asked again,
and the copy moves if another cluster is earlier by a margin.

The nominated cluster, and the numbers of all clusters that led to it, are in the status of the workload.  A
new process asks again, and keeps the nomination until it has answers.
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple, assert_never

from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import MultiKueue
from quorate.api.names.multikueue import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL
from quorate.controllers.multikueue.dispatch.dispatchers import (
    ClusterStart,
    Dispatcher,
    NeverStarts,
    Nomination,
    NominationInput,
    StartsBy,
    StartsLater,
    UnknownStart,
    all_at_once,
    incremental_with,
    starts_text,
)

ASK_SOON_S: Final = 30.0  # after the last answers, at least: most workloads that start now have started
ASK_AGAIN_S: Final = 300.0  # if it is not known when the workload starts: a round of Incremental
ASK_AGAIN_AT_MOST_S: Final = 3600.0
PART_OF_WAIT: Final = 0.25  # of the estimated wait, after which the clusters are asked again
MARGIN_S: Final = 60.0  # a copy moves if another cluster is earlier by more than this,
MARGIN_OF_WAIT: Final = 0.1  # and by more than this part of the wait in its own cluster
TIE_S: Final = 1.0  # starts within one such interval are equal


class Rank(NamedTuple):
    """What orders clusters, the best first."""

    known: int  # how much is known of the start: 0 is a P50
    wait_s: float = 0.0
    spare: float = math.inf  # quota left once it starts, in workloads of its kind


def earliest_start(info: NominationInput) -> Nomination:
    """Nominate the connected cluster that starts the workload first.

    Without any answer the nomination is kept.  No cluster is nominated if the workload starts in none.
    """
    starts = {name: info.estimates[name] for name in info.clusters if name in info.estimates}
    if not starts:
        return Nomination(clusters=tuple(name for name in info.nominated if name in info.clusters))
    ranks = {
        name: rank_of(start, info.now)
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
    """Return after how many seconds the nominated cluster is asked again."""
    return min((counts_s(starts[name], now) for name in nominated if name in starts), default=ASK_AGAIN_S)


def counts_s(start: ClusterStart, now: float) -> float:
    """Return how long an answer of ``now`` counts, in seconds: a part of the wait that it states."""
    if not isinstance(start, StartsBy):
        return ASK_AGAIN_S
    return min(max(ASK_SOON_S, PART_OF_WAIT * (start.p50 - now)), ASK_AGAIN_AT_MOST_S)


Position = tuple[Rank, int]  # with the place in the configured order


def can_be_chosen(bound: Position, best: Position | None, held: Position | None) -> bool:
    """Return True if a cluster at position ``bound``, or at a later position, can be nominated.

    ``best`` is the first position among the clusters that were asked, ``held`` the position of the nominated
    cluster. Either is None without such a cluster.
    """
    is_early = held is None or _is_earlier(bound[0], held[0])
    return is_early and (best is None or bound < best)


def rank_of(start: ClusterStart, now: float) -> Rank:
    match start:
        case StartsBy(p50=p50, spare=spare):
            wait_s = max(0.0, p50 - now) // TIE_S * TIE_S
            return Rank(0, wait_s, math.inf if spare is None else spare)
        case UnknownStart():
            return Rank(1)
        case StartsLater():
            return Rank(2)
        case NeverStarts():
            return Rank(3)
        case _:
            assert_never(start)


def _is_earlier(rank: Rank, held: Rank) -> bool:
    """Return True if a copy moves from a cluster with the rank ``held`` to one with ``rank``."""
    if rank.known != held.known:
        return rank.known < held.known
    return rank.wait_s + max(MARGIN_S, MARGIN_OF_WAIT * held.wait_s) < held.wait_s


def configured_dispatchers(configuration: Configuration) -> dict[str, Dispatcher]:
    """Return the dispatchers by their names, as ``configuration`` sets them."""
    gates, rules = configuration.multikueue_gates, configuration.multikueue
    step = rules.step_size if gates.incremental_dispatcher_config else MultiKueue().step_size
    in_order = gates.incremental_in_configured_order
    return {
        ALL_AT_ONCE: all_at_once,
        INCREMENTAL: incremental_with(step, in_configured_order=in_order),
        EARLIEST_START: earliest_start,
    }
