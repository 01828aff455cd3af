"""What the life of a workload is decided from, and what is decided."""

from collections.abc import Callable
from typing import Literal

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.kueue import StopPolicy, Workload, WorkloadStatus
from quorate.queueing.lifecycle.statuses import evict_status
from quorate.queueing.pods_ready import TimeoutOverrides


class LocalQueueView(msgspec.Struct, frozen=True):
    name: str
    found: bool
    stop_policy: StopPolicy = "None"


class ClusterQueueView(msgspec.Struct, frozen=True):
    name: str
    found: bool
    terminating: bool = False
    active: bool = False
    stop_policy: StopPolicy = "None"
    checks: tuple[str, ...] = ()  # that apply to the workload as it is, sorted
    overrides: TimeoutOverrides = TimeoutOverrides()  # of the readiness clocks


class QueueView(msgspec.Struct, frozen=True):
    """What one workload needs to know of its queues.

    ``cluster_queue`` is the one it holds quota in, else the one its local queue points to; None when it
    has neither.
    """

    local_queue: LocalQueueView
    cluster_queue: ClusterQueueView | None


class WorkloadContext(msgspec.Struct, frozen=True):
    """One workload as every row of the table sees it."""

    workload: Workload
    queues: QueueView
    configuration: Configuration
    now: float  # epoch seconds
    jitter: float  # in [0, 1): spreads the backoffs of many
    unplaced_since: float | None  # when the oldest of its pods without a node was created, epoch seconds


class Event(msgspec.Struct, frozen=True):
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Transition(msgspec.Struct, frozen=True):
    """What to write now, and when to look again if nothing changes before."""

    status: WorkloadStatus | None = None  # the whole new status; None: it stays
    deactivate: bool = False  # write spec.active=false
    release: bool = False  # take our finalizer off: nothing of ours depends on the workload any more
    delete: bool = False  # and delete it
    events: tuple[Event, ...] = ()
    wake_at: float | None = None  # epoch seconds


LifecycleRule = Callable[[WorkloadContext], Transition | None]  # None: the row does not apply


def evict(workload: Workload, reason: str, message: str, now: float, cause: str = "") -> Transition:
    """Evicted, which is told as an event if it costs the workload anything."""
    return Transition(
        evict_status(workload, reason, message, now, counted_as=(reason, cause)),
        events=eviction_events(workload, reason, message),
    )


def eviction_events(workload: Workload, reason: str, message: str) -> tuple[Event, ...]:
    if workload.status.admission is None:
        return ()
    return (Event("Normal", f"EvictedDueTo{reason}", message),)
