"""The input of ``rules.decide``, and its result: a status to write here, and actions in worker clusters."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from quorate.api.kueue import AdmissionCheckState, Workload, WorkloadStatus
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.multikueue.dispatch.cluster_starts import ClusterStart
from quorate.controllers.multikueue.dispatch.dispatchers import Dispatcher
from quorate.controllers.multikueue.workload_copy import WorkloadCopy
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
