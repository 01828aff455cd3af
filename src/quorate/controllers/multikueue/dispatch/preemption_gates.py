"""Which copy may preempt next: a job waits in several clusters, and must evict others in one (KEP-8303)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import epoch, true_condition
from quorate.api.names.multikueue import PREEMPTION_GATE
from quorate.controllers.multikueue.dispatch.plan import RemoteState
from quorate.queueing import conditions as c

SINGLE_CLUSTER_S: Final = 300.0  # for the preemptions of one cluster, before another one may preempt


class NextGate(msgspec.Struct, frozen=True):
    cluster: str = ""  # where to open the gate now; empty: nowhere
    wake_at: float | None = None  # when another gate may be opened, epoch seconds


def next_gate(remotes: Mapping[str, RemoteState], now: float) -> NextGate:
    """Return which copy may preempt: the first that asked for it, five minutes after the one before.

    The times of the requests are those of the worker clusters; ``remotes`` are in the configured order, which
    decides between equal times.  A write that is in flight may be the opening of a gate.
    """
    opened: list[float] = []
    asking: list[tuple[float, str]] = []
    for name, remote in remotes.items():
        if remote.is_busy:
            return NextGate()
        if remote.copy is None:
            continue
        since = _open_since(remote.copy)
        blocked = true_condition(remote.copy.status.conditions, c.BLOCKED_ON_PREEMPTION_GATES)
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


def _open_since(copy: Workload) -> float | None:
    """Return since when the gate of a copy is open, by our clock; None: it is closed."""
    for gate in copy.status.preemption_gates:
        if gate.name == PREEMPTION_GATE and gate.position == "Open":
            return 0.0 if gate.last_transition_time is None else epoch(gate.last_transition_time)
    return None
