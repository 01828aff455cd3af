"""Input and output of the workload lifecycle: the facts that decide a step, and its writes."""

from collections.abc import Callable
from typing import Literal

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.configuration.planned_starts import PlannedStartRules
from quorate.api.kueue import StopPolicy, Workload, WorkloadStatus
from quorate.queueing.inadmissible_reasons import Misconfiguration
from quorate.queueing.lifecycle.statuses import evict_status
from quorate.queueing.pods_ready import TimeoutOverrides


class LocalQueueView(msgspec.Struct, frozen=True):
    name: str
    found: bool
    terminating: bool = False
    stop_policy: StopPolicy = "None"


class ClusterQueueView(msgspec.Struct, frozen=True):
    name: str
    found: bool
    terminating: bool = False
    active: bool = False
    stop_policy: StopPolicy = "None"
    checks: tuple[str, ...] = ()  # that apply to the workload as it is, sorted
    overrides: TimeoutOverrides = TimeoutOverrides()
    planned_start_rules: PlannedStartRules = PlannedStartRules()


class QueueView(msgspec.Struct, frozen=True):
    """The queues of one workload.

    ``cluster_queue`` is the cluster queue in which the workload holds quota, otherwise the cluster queue of
    its local queue; None if neither exists.  ``misconfiguration``: why that queue never admits it, if no
    admission cycle says so.
    """

    local_queue: LocalQueueView
    cluster_queue: ClusterQueueView | None
    misconfiguration: Misconfiguration | None = None


class WorkloadContext(msgspec.Struct, frozen=True):
    """The input of every lifecycle rule."""

    workload: Workload
    queues: QueueView
    configuration: Configuration
    now: float  # epoch seconds
    jitter: float  # in [0, 1): spreads the backoffs of many workloads
    unplaced_since: float | None  # creation of the oldest of its pods without a node, epoch seconds
    replaced_by: Workload | None  # the admitted slice that replaces it


class Event(msgspec.Struct, frozen=True):
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Transition(msgspec.Struct, frozen=True):
    """What to write now, and when to decide again if nothing changes before."""

    status: WorkloadStatus | None = None  # the whole new status; None: unchanged
    deactivate: bool = False  # write spec.active=false
    release: bool = False  # remove the finalizer: no object of Quorate depends on the workload
    delete: bool = False  # delete the workload
    events: tuple[Event, ...] = ()
    wake_at: float | None = None  # epoch seconds


LifecycleRule = Callable[[WorkloadContext], Transition | None]  # None: the rule does not apply


def evict(workload: Workload, reason: str, message: str, now: float, cause: str = "") -> Transition:
    """Return the transition that evicts ``workload``; ``cause`` is the underlying cause it is counted by."""
    return Transition(
        evict_status(workload, reason, message, now, counted_as=(reason, cause)),
        events=eviction_events(workload, reason, message),
    )


def eviction_events(workload: Workload, reason: str, message: str) -> tuple[Event, ...]:
    """Return the event of an eviction; none if the workload has no admission to lose."""
    if workload.status.admission is None:
        return ()
    return (Event("Normal", f"EvictedDueTo{reason}", message),)
