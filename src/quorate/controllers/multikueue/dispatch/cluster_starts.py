"""When worker clusters would start a workload, as answers of the clusters or of models of them.

Times are epoch seconds of this cluster's clock: a worker cluster answers in seconds from its own now.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from quorate.api.explanation import StartAnswer
from quorate.api.human_duration import spelled_duration

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
