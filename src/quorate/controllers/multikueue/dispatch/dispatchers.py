"""Dispatchers: which worker clusters may get a copy of a workload now.

A dispatcher is a pure function. Its memory is in the workload: the nominated clusters, and since when they
are nominated (``round_started``).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from quorate.api.kueue import Workload
from quorate.controllers.multikueue.dispatch.cluster_starts import ClusterStart

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
