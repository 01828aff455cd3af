"""Which copy may preempt next: a job waits in several clusters, and must evict others in one (KEP-8303)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.api.meta import true_condition
from quorate.controllers.multikueue.dispatch.plan import RemoteState
from quorate.queueing import conditions as c

SINGLE_CLUSTER_S: Final = 300.0  # for the preemptions of one cluster, before another one may preempt


class NextGate(msgspec.Struct, frozen=True):
    cluster: str = ""  # where to open the gate now; empty: nowhere
    wake_at: float | None = None  # when another gate may be opened, epoch seconds


def next_gate(remotes: Mapping[str, RemoteState], now: float) -> NextGate:
    """Return which copy may preempt next: the first that asked, five minutes after the last opened gate.

    The times of the requests are measured by the worker clusters. ``remotes`` are in the configured order,
    which decides between equal times. A write that is in flight may be the opening of a gate.
    """
    opened: list[float] = []
    asking: list[tuple[float, str]] = []
    for name, remote in remotes.items():
        if remote.is_busy:
            return NextGate()
        if remote.copy is None:
            continue
        since = remote.copy.gate_opened
        blocked = true_condition(remote.copy.conditions, c.BLOCKED_ON_PREEMPTION_GATES)
        if since is not None:
            opened.append(since)
        elif blocked is not None:
            asking.append((c.transition_time(blocked), name))
    if not asking:
        return NextGate()
    free_at = max(opened, default=now - SINGLE_CLUSTER_S) + SINGLE_CLUSTER_S
    if free_at > now:
        return NextGate(wake_at=free_at)
    _, first = min(asking, key=lambda each: each[0])
    return NextGate(first, now + SINGLE_CLUSTER_S)
