"""The second-pass queue: workloads with quota that wait for places of their pods in topologies.

They are workloads with failed hosts, and workloads for which an admission check brings the nodes: the places
of the latter are chosen once all checks are Ready.  The first attempt for failed hosts is after a second, in
which a host may recover.  The first attempt for first places, and for a host on which other pods took the
place, is at once.  Each failed attempt is repeated after 1, 2, 4, ...  30 seconds (Kueue's delays).  While a
workload waits for preemption targets it is tried in each cycle, so that no other workload gets the places
that they leave.
"""

import math
from collections.abc import Iterable, KeysView
from typing import NamedTuple

from quorate.api.kueue import Admission, Workload
from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.limits import FIRST_DELAY_S, MAX_DELAY_S


class SecondPassNeed(NamedTuple):
    """What a workload lacks: other hosts for the failed ones, or its first places."""

    failed: tuple[str, ...] = ()
    is_delayed: bool = False


def second_pass_need(
    workload: Workload, admission: Admission, *, gives_places: bool, replaces_hosts: bool
) -> SecondPassNeed | None:
    """Return what a workload with quota lacks; None if it lacks nothing, or its checks are not Ready yet.

    ``gives_places``: pods get places in topologies; ``replaces_hosts``: failed hosts are replaced.
    """
    if c.is_evicted(workload):
        return None
    failed = tuple(node.name for node in workload.status.unhealthy_nodes) if replaces_hosts else ()
    is_delayed = (
        gives_places
        and c.awaits_places(admission)
        and not c.is_admitted(workload)
        and all(check.state == "Ready" for check in workload.status.admission_checks)
    )
    return SecondPassNeed(failed, is_delayed) if failed or is_delayed else None


class _Waiting:
    __slots__ = ("due_at", "failures", "is_recent", "need", "targets")

    def __init__(self, need: SecondPassNeed, *, may_recover: bool) -> None:
        self.need = need
        self.failures = 0
        self.due_at: float = -math.inf  # epoch seconds
        self.is_recent = may_recover and bool(need.failed)  # its first delay has not begun
        self.targets: set[Key] = set()  # preempted for it and not gone yet


class SecondPassQueue:
    """The workloads with quota that wait for places of their pods, and when each is tried next."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Waiting] = {}

    def put(self, key: Key, need: SecondPassNeed | None, *, may_recover: bool = False) -> None:
        """Add or update a workload; one that lacks something else than before begins anew.

        ``may_recover``: its failed hosts may be healthy again within a second.
        """
        waiting = self._waiting.get(key)
        if need is None:
            self.remove(key)
        elif waiting is None or waiting.need != need:
            self._waiting[key] = _Waiting(need, may_recover=may_recover)

    def remove(self, key: Key) -> None:
        self._waiting.pop(key, None)

    def take_over(self, old: "SecondPassQueue") -> None:
        """Keep the delays of workloads that lack the same as in ``old``, which is not used any more."""
        for key, waiting in old._waiting.items():
            own = self._waiting.get(key)
            if own is not None and own.need == waiting.need:
                self._waiting[key] = waiting

    def begin_delays(self, now: float) -> None:
        """Delay the first attempts for hosts that failed since the last call."""
        for waiting in self._waiting.values():
            if waiting.is_recent:
                waiting.is_recent, waiting.due_at = False, now + FIRST_DELAY_S

    @property
    def waiting(self) -> KeysView[Key]:
        return self._waiting.keys()

    def due(self, now: float) -> list[Key]:
        """Return the workloads to be tried now."""
        return [key for key, one in self._waiting.items() if one.targets or one.due_at <= now]

    def need(self, key: Key) -> SecondPassNeed:
        return self._waiting[key].need

    def fail(self, key: Key, now: float, targets: Iterable[Key] = ()) -> bool:
        """Record that a workload got no places; return True unless it was tried only for its targets.

        ``targets`` are preempted for it.
        """
        waiting = self._waiting[key]
        waiting.targets = set(targets)
        if waiting.due_at > now:
            return False
        waiting.due_at = now + min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(waiting.failures, 10))
        waiting.failures += 1
        return True

    def released(self, key: Key) -> None:
        """Let workloads for which ``key`` was preempted be tried at once: it holds no quota any more."""
        for waiting in self._waiting.values():
            if key in waiting.targets:
                waiting.targets.discard(key)
                waiting.due_at = -math.inf

    def next_at(self) -> float | None:
        """Return when a workload is due next, epoch seconds; None if none is waiting."""
        return min((waiting.due_at for waiting in self._waiting.values()), default=None)
