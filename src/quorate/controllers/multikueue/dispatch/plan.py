"""The copies of a workload in worker clusters, and what ``rules.decide`` does with them."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from quorate.api.kueue import GROUP, AdmissionCheckState, PreemptionGate, Workload, WorkloadStatus
from quorate.api.meta import ObjectMeta, true_condition
from quorate.api.names.kueue import JOB_UID
from quorate.api.names.multikueue import ORIGIN, PREEMPTION_GATE
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.multikueue.dispatch.dispatchers import ClusterStart, Dispatcher
from quorate.controllers.multikueue.workload_copy import SpecSummary, WorkloadCopy, summary_of
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.transition import Event

JobSync = Literal["due", "done", "deferred"]


class RemoteState(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of a workload and its job in one connected cluster, and whether a write to them is open."""

    copy: WorkloadCopy | None = None  # with our origin label
    has_job: bool | None = None  # whether a job of ours exists there; None: not known
    is_ending: bool = False  # the job was deleted and exists until its pods are gone
    job_seen: bool = False  # the cache shows the whole job, so it was created
    is_busy: bool = False  # our last write is in flight, not seen in the cache yet, or to be retried later
    job: JobSync = "due"  # whether the job was synced since something changed
    sync_at: float | None = None  # when a deferred job is synced again, epoch seconds
    # How the job ended; "due": it may have ended, and that was not read since something changed.
    end: Outcome | Literal["due"] | None = None

    @property
    def may_run(self) -> bool:
        """Return True if a job of ours may run there."""
        if self.has_job is not None:
            return self.has_job
        return self.copy is not None and any(
            condition.type == "Admitted" for condition in self.copy.conditions
        )


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """The other workloads of a job with several, which all run in one cluster."""

    are_complete: bool  # as many as the job will have
    is_primary: bool  # no other one has a lower index: it chooses the cluster
    clusters: tuple[str, ...] = ()  # of those that have one


class DispatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    worker_lost_timeout_s: float
    dispatcher_name: str
    dispatcher: Dispatcher | None  # None: another program nominates
    orchestrates_preemption: bool = True
    gives_places: bool = True  # pods get places in topologies
    elastic_jobs: bool = False


class DispatchInput(msgspec.Struct, frozen=True, kw_only=True):
    """A local workload and everything its dispatch depends on.  Times are epoch seconds of our clock."""

    workload: Workload
    check: AdmissionCheckState | None  # its state of the MultiKueue check; None: it has none
    clusters: tuple[str, ...] | None  # of the check's configuration, the most preferred first; None: no such
    remotes: Mapping[str, RemoteState]  # of every connected cluster that is configured or has a copy
    lost: Mapping[str, float]  # since when a cluster is not connected
    settings: DispatchSettings
    now: float
    rejection: str = ""  # why its job can never run in another cluster
    is_deleted: bool = False
    components: Components | None = None
    estimates: Mapping[str, ClusterStart] = {}


class CreateCopy(msgspec.Struct, frozen=True):
    cluster: str
    is_gated: bool  # it may not preempt before the gate is opened


class UpdateCopy(msgspec.Struct, frozen=True):
    """Change the spec of a copy in place."""

    cluster: str
    changes: Mapping[str, Any]  # the patch of the spec


class RemoveCopy(msgspec.Struct, frozen=True):
    """Delete the remote job if it is ours, then the copy."""

    cluster: str
    keeps_job: bool = False  # it is that of another workload too
    waits_for_pods: bool = True  # the job exists until they are gone, as it may run in another cluster next


class DeactivateCopy(msgspec.Struct, frozen=True):
    """Ask a worker cluster to stop the workload."""

    cluster: str
    message: str


class OpenGate(msgspec.Struct, frozen=True):
    """Let the copy preempt other workloads of its cluster."""

    cluster: str


class SyncJob(msgspec.Struct, frozen=True):
    """Create the remote job, or copy its status to the local job."""

    cluster: str


class ReadEnd(msgspec.Struct, frozen=True):
    """Copy the end of the remote job to the local job, if it has ended."""

    cluster: str


RemoteAction = CreateCopy | UpdateCopy | RemoveCopy | DeactivateCopy | OpenGate | SyncJob | ReadEnd


class DispatchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now: first the status of the local workload, then at most one action for each cluster.

    An action of one cluster does not wait for those of others; none starts if the status is refused.
    """

    status: WorkloadStatus | None = None  # of the local workload; None: unchanged
    events: tuple[Event, ...] = ()
    actions: tuple[RemoteAction, ...] = ()
    wake_at: float | None = None
    ends_job: bool = False  # no cluster runs the job any more: tell that to the local job
    admitted_in: str = ""  # the cluster that admitted it with this plan
    evicted_in: str = ""  # the cluster that loses it with this plan
    eviction: str = ""  # a word for why it does


SINGLE_CLUSTER_S: Final = 300.0  # for the preemptions of one cluster, before another one may preempt


class NextGate(msgspec.Struct, frozen=True):
    cluster: str = ""  # where to open the gate now; empty: nowhere
    wake_at: float | None = None  # when another gate may be opened, epoch seconds


def next_gate(remotes: Mapping[str, RemoteState], now: float) -> NextGate:
    """Return which copy may preempt next: the first that asked, five minutes after the last opened gate.

    A job waits in several clusters, and must evict others in one cluster only (KEP-8303).  The times of the
    requests are measured by the worker clusters. ``remotes`` are in the configured order,
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
    _, first = min(asking, key=lambda pair: pair[0])
    return NextGate(first, now + SINGLE_CLUSTER_S)


def workload_copy(workload: Workload, origin: str, *, is_gated: bool) -> Workload:
    """Return the object to create in a worker cluster; if gated, it may preempt once we open its gate."""
    metadata = workload.metadata
    labels = {name: value for name, value in metadata.labels.items() if name != JOB_UID}
    spec = workload.spec
    if is_gated:
        spec = replace(spec, preemption_gates=(PreemptionGate(name=PREEMPTION_GATE),))
    return Workload(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            labels={**labels, ORIGIN: origin},
            annotations=metadata.annotations,
        ),
        spec=spec,
    )


def is_out_of_sync(workload: Workload, copy: WorkloadCopy) -> bool:
    """Return True if the specs differ in anything but the preemption gates, which each cluster has itself."""
    return summary_of(workload.spec) != copy.summary


def copy_update(workload: Workload, copy: WorkloadCopy, *, is_elastic: bool) -> dict[str, Any]:
    """Return the patch of the spec that brings a copy up to date in place; empty if it must be removed.

    The pods of an elastic workload may become fewer, and any workload may get another priority.
    """
    mine, theirs = summary_of(workload.spec), copy.summary
    changes: dict[str, Any] = {}
    if is_elastic and _has_shrunk(dict(theirs.counts), dict(mine.counts)):
        changes["podSets"] = workload.spec.pod_sets
    if _has_other_priority(mine, theirs):
        changes |= {"priorityClassRef": mine.priority_class_ref, "priority": mine.priority}
    return changes


def _has_shrunk(before: dict[str, int], now: dict[str, int]) -> bool:
    """Return True if some pod sets have fewer pods and none has more."""
    if before.keys() != now.keys():
        return False
    changes = [count - before[name] for name, count in now.items()]
    return min(changes, default=0) < 0 and max(changes, default=0) <= 0


def _has_other_priority(mine: SpecSummary, theirs: SpecSummary) -> bool:
    """Return True if the priority differs and follows from a WorkloadPriorityClass."""
    refs = [spec.priority_class_ref for spec in (mine, theirs)]
    if any(ref is not None and ref.group != GROUP for ref in refs) or refs[1] is None:
        return False
    return refs[0] is None or refs[0].name != refs[1].name or mine.priority != theirs.priority
