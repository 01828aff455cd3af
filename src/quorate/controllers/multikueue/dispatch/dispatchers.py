"""Dispatchers: which worker clusters may get a copy of a workload now.

A dispatcher is a pure function. Its memory is in the workload: the nominated clusters, and since when they
are nominated (``round_started``).  What it knows of starts are answers of the clusters, or of models of them,
in epoch seconds of this cluster's clock: a worker cluster answers in seconds from its own now.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, assert_never

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import MultiKueue
from quorate.api.explanation import StartAnswer
from quorate.api.human_duration import spelled_duration
from quorate.api.kueue import Workload
from quorate.api.names.multikueue import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL

MAX_REASON: Final = 200  # characters of what a worker cluster says: a status holds the reasons of 20 clusters

ASK_SOON_S: Final = 30.0  # after the last answers, at least: most workloads that start now have started
ASK_AGAIN_S: Final = 300.0  # if it is not known when the workload starts: a round of Incremental
ASK_AGAIN_AT_MOST_S: Final = 3600.0
PART_OF_WAIT: Final = 0.25  # of the estimated wait, after which the clusters are asked again
MARGIN_S: Final = 60.0  # a copy moves if another cluster is earlier by more than this,
MARGIN_OF_WAIT: Final = 0.1  # and by more than this part of the wait in its own cluster
TIE_S: Final = 1.0  # starts within one such interval are equal


class StartsBy(msgspec.Struct, frozen=True):
    """By ``p50`` half of the simulated runs start the workload, by ``p90`` nine of ten (None: fewer do)."""

    p50: float
    p90: float | None = None
    spare: float | None = None  # how many more such workloads the quota holds then; None: not known
    is_bound: bool = False  # it is the start of an equal workload, which this one does not overtake

    def text(self, now: float) -> str:
        if self.p50 > now:
            return f"{'at least ' if self.is_bound else ''}{spelled_duration(self.p50 - now)}"
        return "now" if self.spare is None else f"now (room for {self.spare:.1f} more)"


class StartsLater(msgspec.Struct, frozen=True):
    """The workload starts in fewer than half of the runs within the time that is simulated."""

    def text(self, now: float) -> str:
        return "later than is simulated"


class NeverStarts(msgspec.Struct, frozen=True):
    """The workload starts only after a change of its spec, of the queues or of the nodes."""

    reason: str

    def text(self, now: float) -> str:
        return f"never, {self.reason}"


class UnknownStart(msgspec.Struct, frozen=True):
    """The cluster gave no answer, or none in time."""

    reason: str

    def text(self, now: float) -> str:
        return f"unknown, {self.reason}"


ClusterStart = StartsBy | StartsLater | NeverStarts | UnknownStart


def cluster_start(answer: StartAnswer, now: float) -> ClusterStart:
    """Return an answer that arrived at ``now``."""
    if answer.starts == "Within" and answer.p50_seconds is not None:
        p90 = None if answer.p90_seconds is None else now + answer.p90_seconds
        return StartsBy(now + answer.p50_seconds, p90, answer.spare)
    if answer.starts == "Later":
        return StartsLater()
    reason = answer.reason[:MAX_REASON]
    return NeverStarts(reason) if answer.starts == "Never" else UnknownStart(reason)


def starts_text(clusters: Iterable[str], starts: Mapping[str, ClusterStart], now: float) -> str:
    """Return the start in each cluster, such as ``a: 12m, b: 3m, c: never, no such flavor``."""
    return ", ".join(f"{name}: {starts[name].text(now)}" for name in clusters if name in starts)


ROUND_S: Final = 300.0  # of the Incremental dispatcher, as in Kueue
MAX_NOMINATED: Final = 20  # of ``status.nominatedClusterNames``


class NominationInput(msgspec.Struct, frozen=True, kw_only=True):
    """A workload with quota that waits for a worker cluster."""

    workload: Workload
    clusters: tuple[str, ...]  # configured, the most preferred first
    connected: frozenset[str]
    nominated: tuple[str, ...]
    round_started: float | None  # when ``nominated`` last changed, epoch seconds; None: not known
    now: float
    estimates: Mapping[str, ClusterStart] = {}


class Nomination(msgspec.Struct, frozen=True, kw_only=True):
    clusters: tuple[str, ...]
    wake_at: float | None = None  # when to nominate again if nothing happens before, epoch seconds
    explanation: str = ""  # with the numbers of each cluster; stored when ``clusters`` change


Dispatcher = Callable[[NominationInput], Nomination]


def all_at_once(info: NominationInput) -> Nomination:
    """Nominate every connected cluster; the first cluster that admits the workload gets it.

    A lost cluster stays nominated: otherwise each loss, and each start of a manager, would cause a write.
    """
    names = {*_connected(info), *(name for name in info.nominated if name in info.clusters)}
    return Nomination(clusters=tuple(sorted(names))[:MAX_NOMINATED])


def incremental(info: NominationInput, *, step: int, in_configured_order: bool) -> Nomination:
    """Nominate ``step`` more clusters every five minutes, until one of them admits the workload.

    A round in which no nominated cluster is connected ends at once.
    """
    reachable = _connected(info)
    kept = tuple(name for name in info.nominated if name in info.clusters)
    started = info.round_started
    if started is not None and any(name in reachable for name in kept) and info.now <= started + ROUND_S:
        return Nomination(clusters=kept, wake_at=started + ROUND_S + 1.0)
    rest = [name for name in reachable if name not in kept]
    added = tuple(rest if in_configured_order else sorted(rest))[: min(step, MAX_NOMINATED - len(kept))]
    left = len(rest) - len(added)
    explanation = f"{', '.join(added)} added, {left} of {len(info.clusters)} clusters left" if added else ""
    wake_at = info.now + ROUND_S + 1.0 if added and left else None
    return Nomination(clusters=(*kept, *added), wake_at=wake_at, explanation=explanation)


def incremental_with(step: int, *, in_configured_order: bool) -> Dispatcher:
    return partial(incremental, step=step, in_configured_order=in_configured_order)


def _connected(info: NominationInput) -> list[str]:
    return [name for name in info.clusters if name in info.connected]


class Rank(NamedTuple):
    """What orders clusters, the best first."""

    known: int  # how much is known of the start: 0 is a P50
    wait_s: float = 0.0
    spare: float = math.inf  # quota left once it starts, in workloads of its kind


def earliest_start(info: NominationInput) -> Nomination:
    """Nominate the connected cluster that starts the workload first.

    Each cluster is asked when it would start the workload.  The cluster with the earliest P50 is nominated.
    If several clusters would start the workload now, the cluster with the least quota left for equal
    workloads is nominated (best fit), so that room for large workloads is kept together.  Equal clusters are
    nominated in the configured order.  Clusters without an answer rank after those with a P50, and clusters
    in which the workload never starts are left out.  Estimates can be wrong: while the workload waits, the
    clusters are asked again, and the copy moves if another cluster is earlier by a margin.

    The nominated cluster, and the numbers of all clusters that led to it, are in the status of the workload.
    A new process asks again, and keeps the nomination until it has answers.

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
