"""Dispatchers: which worker clusters may get a copy of a workload now.

A dispatcher is a pure function. Its memory is in the workload: the nominated clusters, and since when they
are nominated (``round_started``).  What it knows of starts are answers of the clusters, or of models of them,
in epoch seconds of this cluster's clock: a worker cluster answers in seconds from its own now.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import msgspec

from quorate.api.explanation import StartAnswer
from quorate.api.human_duration import spelled_duration
from quorate.api.kueue import Workload

MAX_REASON: Final = 200  # characters of what a worker cluster says: a status holds the reasons of 20 clusters


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
    """Nominate every connected cluster; the first that admits the workload gets it.

    One that is lost stays nominated: otherwise each loss, and each start of a manager, would be written.
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
    explanation = f"{_names(added)} added, {left} of {len(info.clusters)} clusters left" if added else ""
    wake_at = info.now + ROUND_S + 1.0 if added and left else None
    return Nomination(clusters=(*kept, *added), wake_at=wake_at, explanation=explanation)


def incremental_with(step: int, *, in_configured_order: bool) -> Dispatcher:
    return partial(incremental, step=step, in_configured_order=in_configured_order)


def _connected(info: NominationInput) -> list[str]:
    return [name for name in info.clusters if name in info.connected]


def _names(clusters: tuple[str, ...]) -> str:
    return ", ".join(clusters)
