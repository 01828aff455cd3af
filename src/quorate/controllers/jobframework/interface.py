"""The interface between the job framework and the kinds of job: Kueue's ``GenericJob``.

A kind answers questions about one job and composes writes; it reads nothing else and sends nothing.  The
framework is written once for all kinds.  Most jobs are one object that is suspended until its workload is
admitted.  A kind overrides the methods that return plans if its jobs consist of several objects or cannot be
suspended again.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from quorate.api.configuration.feature_gates import Gates, TopologyGates
from quorate.api.events import ObjectReference
from quorate.api.field_path import Path
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import Condition, ObjectMeta, OwnerReference
from quorate.api.names.kueue import ELASTIC_JOB
from quorate.api.names.multikueue import ORIGIN
from quorate.api.native_groups import PodGroupSpec
from quorate.controllers.executor import ObjectEvent, normal_event
from quorate.controllers.jobframework.construct_workload import (
    DEFAULT_CLASS,
    MissingPriorityClass,
    NotComposed,
    construct_workload,
    maximum_execution_s,
    owner_of,
    prebuilt_name_of,
    queue_name_of,
    resolve_priority,
)
from quorate.controllers.jobframework.job_plan import IDLE, JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.native_terms import (
    NO_TERMS,
    NativeTerms,
    native_terms,
    with_declared_group,
    with_least_counts,
)
from quorate.controllers.jobframework.pod_counts import PodCounts
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobframework.topology import (
    TopologySource,
    topology_findings,
    with_topology_requests,
)
from quorate.kube.resources import Resource, versioned_reference_to
from quorate.kube.writes import Delete, Patch, Write
from quorate.queueing.lifecycle.transition import Event


class JobObject(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


J = TypeVar("J", bound=JobObject)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended, with the message of its own controller."""

    success: bool
    message: str


@dataclass(frozen=True, slots=True)
class EndStatus:
    """How the status of a job shows its end."""

    conditions: tuple[str, ...] = ()  # types that are true
    fields: Mapping[str, Any] = field(default_factory=dict)  # merge patch of the other fields


@dataclass(frozen=True, slots=True)
class Stop:
    """The patches that are left to stop a job, in order; none if it is stopped."""

    patches: tuple[Patch, ...] = ()
    begins: bool = False  # False also when an earlier, interrupted stop is resumed
    waits_for_pods: bool = False  # the rest must wait until the last pod is gone


@dataclass(frozen=True, slots=True)
class ManagedBy:
    """The field of a job that names the controller which runs it (KEP-4368)."""

    field: Path
    own: str  # the controller of the kind, which runs jobs that name none


@dataclass(frozen=True, slots=True)
class ValidationScope:
    """What the validation of a job depends on besides the job."""

    queued: bool  # it names a queue, or jobs without a queue name are managed as well
    elastic: bool  # it may change its size while it runs
    upgrade_strategy: bool = True  # the gate RayServiceValidateUpgradeStrategy


@dataclass(frozen=True, slots=True)
class JobState(Generic[J]):
    """One job as all rules see it."""

    kind: "JobKind[J]"
    job: J
    pod_sets: tuple[PodSet, ...]
    suspended: bool
    outcome: Outcome | None
    context: ReconcileContext
    options: JobOptions
    now: float
    native: NativeTerms | None = NO_TERMS  # None: not known yet

    @classmethod
    def of(
        cls, kind: "JobKind[J]", job: J, context: ReconcileContext, options: JobOptions, now: float
    ) -> "JobState[J]":
        pod_sets = kind.pod_sets(job)
        context = replace(
            context, native_groups=with_declared_group(context.native_groups, kind.declared_group(job))
        )
        terms = native_terms(job.metadata.namespace, pod_sets, context.native_groups)
        if terms is not None:
            pod_sets = with_least_counts(pod_sets, terms, may_shrink=kind.may_shrink_gangs)
        return cls(
            kind, job, pod_sets, kind.is_suspended(job), kind.finished(job), context, options, now, terms
        )

    @property
    def maximum_execution_s(self) -> int | None:
        """Return how long the job may be admitted, from its label; None: it has no limit."""
        return maximum_execution_s(self.job.metadata)

    @property
    def owner(self) -> OwnerReference:
        """Return the controller reference of a workload to the job."""
        return owner_of(self.kind.resource, self.job.metadata)

    @property
    def is_elastic(self) -> bool:
        """Return True if the job may change its size while it runs, with a workload for each size."""
        annotated = self.job.metadata.annotations.get(ELASTIC_JOB) == "true"
        return annotated and self.kind.has_slices and self.options.elastic_jobs

    @property
    def names_workload(self) -> bool:
        """Return True if the job names a prebuilt workload, and its kind lets it."""
        by_annotation = self.options.gates.workload_identifier_annotations
        return bool(self.kind.prebuilt_name(self.job, by_annotation=by_annotation))

    @property
    def counted_at(self) -> float | None:
        """Return when a suspended job will have counted its pods (epoch seconds); None: it has."""
        late_until = self.kind.active_count_is_late_until(self.job)
        return None if late_until is None or self.now >= late_until else late_until

    def event(self, reason: str, message: str) -> ObjectEvent:
        return ObjectEvent(self.kind.reference(self.job), Event("Normal", reason, message))

    def warning(self, reason: str, message: str) -> ObjectEvent:
        return ObjectEvent(self.kind.reference(self.job), Event("Warning", reason, message))


class JobKind(ABC, Generic[J]):
    """A kind of job.  A kind derives from this class and inherits the usual answers.

    Methods that read a job may raise ``InvalidTemplate``: a field that jobs of the kind must have is missing
    or malformed.
    """

    supports_elastic: bool = False  # jobs may declare that they change their size while they run
    has_slices: bool = False  # such jobs get one workload for each size and keep running meanwhile
    supports_prebuilt: bool = True  # jobs may name a workload that another controller made
    updates_in_place: bool = True  # a workload without quota is updated when it no longer fits
    releases_quota_with_stop: bool = False  # the quota of an evicted job is released with its stop
    reports_workload: bool = True  # checks, ignored annotations and the end are reported on the job, too
    requires_queue_name: bool = False  # not managed without one, also where other jobs are
    awaits_pod_groups: bool = False  # jobs may need the admission of a pod group besides their quota
    joins_native_groups: bool = True  # its pods are made from the templates once it starts
    may_shrink_gangs: bool = True  # a job in a native group may start with fewer pods than it declares
    groups_pod_sets: bool = False  # a leader and workers may share a group name for their topology
    managed_by: ManagedBy | None = None  # None: the controller of the kind runs all jobs

    @property
    @abstractmethod
    def resource(self) -> Resource[Any]:
        """The kind of the job's object, or of its objects."""

    def reference(self, job: J) -> ObjectReference:
        """Return the object that events are about."""
        return versioned_reference_to(self.resource, job.metadata)

    def findings(self, old: J | None, new: J, scope: ValidationScope) -> Iterable[Finding]:
        """Validate a new job or an update, beyond the rules for jobs of all kinds."""
        return ()

    # State of a job.

    def is_skipped(self, job: J) -> bool:
        """Return True if the job is not managed although it names a queue."""
        return False

    def is_managed(self, job: J, options: JobOptions) -> bool:
        manage_all = options.manage_jobs_without_queue_name and not self.requires_queue_name
        return bool(queue_name_of(job.metadata)) or manage_all

    def declared_group(self, job: J) -> PodGroupSpec | None:
        """Return the native group that the kind's controller makes for the pods; None if it makes none."""
        return None

    def manager_of(self, job: J) -> str:
        """Return the controller that the job names to run it; empty if it names none."""
        return ""

    def prebuilt_name(self, job: J, *, by_annotation: bool) -> str:
        """Return the workload that the job names; empty if it names none, or may not.

        The copy of a job in a worker cluster always names the copy of its workload.
        """
        may_name = self.supports_prebuilt or ORIGIN in job.metadata.labels
        return prebuilt_name_of(job.metadata, by_annotation=by_annotation) if may_name else ""

    def is_deleted(self, job: J) -> bool:
        return job.metadata.deletion_timestamp is not None

    def is_on_hold(self, state: JobState[J]) -> bool:
        """Return True if the job keeps its workload for now, but needs no quota."""
        return False

    def is_serving(self, job: J) -> bool:
        """Return True if another reconciler composes the workload, and deleted pods are made again."""
        return False

    @abstractmethod
    def is_suspended(self, job: J) -> bool:
        """Return True if no pod of the job will start, and a stop that was begun is complete."""

    def is_stopped(self, job: J) -> bool:
        """Return True if a stop would change nothing."""
        return self.is_suspended(job)

    @abstractmethod
    def is_active(self, job: J) -> bool:
        """Return True while pods of the job still hold capacity."""

    def active_count_is_late_until(self, job: J) -> float | None:
        """Return until when a suspended job may have uncounted pods; None: its status counts all."""
        return None

    @abstractmethod
    def pod_sets(self, job: J) -> tuple[PodSet, ...]:
        """Return the groups of equal pods that the job asks for, always in the same order."""

    @abstractmethod
    def topology_sources(self, job: J) -> tuple[TopologySource, ...]:
        """Return where the topology annotations of each pod set are, in the order of the pod sets."""

    def topology_findings(self, job: J, gates: TopologyGates) -> tuple[Finding, ...]:
        """Validate the topology annotations of the job."""
        sources = self.topology_sources(job)
        return topology_findings(self.pod_sets(job), sources, gates, grouped=self.groups_pod_sets)

    def priority_class(self, job: J) -> str | None:
        """Return the PriorityClass that the job names; None if the kind has no such field."""
        return None

    @abstractmethod
    def finished(self, job: J) -> Outcome | None:
        """Return how the job ended; None if it has not."""

    def end_status(self, job: J, outcome: Outcome) -> EndStatus | None:
        """Return the status for which ``finished`` returns ``outcome``; None: no status shows that end."""
        return None

    @abstractmethod
    def pod_counts(self, job: J) -> PodCounts:
        """Return the pods of each pod set as the controller of the job reports them."""

    def conditions(self, state: JobState[J], workload: Workload) -> tuple[Condition, ...]:
        """Return conditions of the kind's own for the workload (Kueue: CustomWorkloadConditions)."""
        return ()

    # Elastic jobs; for kinds with slices.

    def is_gated(self, job: J) -> bool:
        """Return True if new pods of an elastic job wait for the removal of a scheduling gate."""
        return False

    def gated_pod_sets(self, job: J) -> Collection[str]:
        """Return the names of the pod sets with the pods of which an elastic job grows."""
        return ()

    def gate(self, job: J) -> tuple[Patch, ...]:
        """Add the scheduling gate to the pod templates of a suspended job."""
        return ()

    def pods_label(self, job: J) -> tuple[str, str] | None:
        """Return the label of the job's pods and its value; None if no pod has to be ungated.

        An empty value: the label is not known yet, and only the annotation of the slices identifies the pods.
        """
        return None

    def size_version(self, job: J) -> str:
        """Return a text that differs for each size of an elastic job; it is part of the slice's name."""
        return str(job.metadata.generation)

    # Start and stop.

    def start(self, job: J, infos: Sequence[PodSetInfo]) -> tuple[Patch, ...] | InjectionConflict:
        """Unsuspend the job with what admission injects: one info for each pod set, in their order."""
        raise NotImplementedError

    def stop(self, job: J, originals: Sequence[PodSet] | None) -> Stop:
        """Suspend the job and restore its pod sets; ``originals`` are None if they are unknown."""
        raise NotImplementedError

    # Plans, for jobs that are one object with a suspend field.

    def defaults_priority_class(self, gates: Gates) -> bool:
        """Return True if jobs without a class get the WorkloadPriorityClass named ``default``."""
        return gates.workload_priority_class_defaulting

    def owns(self, state: JobState[J], workload: Workload) -> bool:
        """Return True if the job controls ``workload``, and not an earlier job of the same name.

        Without the gate ``FinishOrphanedWorkloads`` the workload of an earlier job may be reused.
        """
        owner = workload.metadata.controller
        if owner is None:
            return False
        return owner.uid == state.job.metadata.uid or not state.options.gates.finish_orphaned_workloads

    def may_run_with(self, state: JobState[J], workload: Workload) -> bool:
        """Return True if a running job that is not equivalent to ``workload`` may go on with its quota."""
        return False

    def metadata_update(self, constructed: Workload) -> dict[str, object]:
        """Return the metadata that an update in place takes from a newly constructed workload."""
        return {}

    def construct(self, state: JobState[J], extra: str = "") -> Workload | NotComposed:
        """Construct the workload of the job; ``extra`` makes the names of several workloads differ."""
        gates, metadata = state.options.gates, state.job.metadata
        pod_sets, terms = state.pod_sets, state.native or NO_TERMS
        if terms.missing:
            text = f"pod group {terms.missing} of scheduling.k8s.io does not exist (create it)"
            return NotComposed(text, awaits_object=True)
        if state.options.topology is not None:
            findings = self.topology_findings(state.job, state.options.topology)
            if findings:
                return NotComposed("; ".join(map(str, findings)))
            sources = self.topology_sources(state.job)
            pod_sets = with_topology_requests(pod_sets, sources, state.options.topology, terms.topology)
        priority = resolve_priority(
            metadata.labels,
            self.priority_class(state.job),
            state.pod_sets,
            state.context.workload_classes,
            state.context.pod_classes,
            default_class=DEFAULT_CLASS if self.defaults_priority_class(gates) else "",
        )
        if isinstance(priority, MissingPriorityClass):
            return NotComposed(priority)
        return construct_workload(
            self.resource,
            metadata,
            pod_sets,
            priority,
            state.options.label_keys_to_copy,
            state.options.annotation_keys_to_copy,
            short_name=gates.short_workload_names,
            gated=gates.admission_gated_by,
            extra=extra,
        )

    def has_pods_to_start(self, job: J) -> bool:
        return True

    def start_plan(
        self, state: JobState[J], workload: Workload, infos: Sequence[PodSetInfo]
    ) -> JobPlan | InjectionConflict:
        """Plan the start of an admitted, suspended job (Kueue: RunWithPodSetsInfo)."""
        patches = self.start(state.job, infos)
        if isinstance(patches, InjectionConflict):
            return patches
        return JobPlan(writes=patches, events=(state.event("Started", started_message(workload)),))

    def stop_plan(self, state: JobState[J], workload: Workload | None, reason: str, message: str) -> JobPlan:
        """Plan the stop of a job and the restoration of its pod sets from ``workload``."""
        stop = self.stop(state.job, None if workload is None else workload.spec.pod_sets)
        events = (state.event("Stopped", message),) if stop.begins else ()
        return JobPlan(writes=stop.patches, events=events, stopping=stop.waits_for_pods)

    def child_plan(self, job: J, *, ancestor_admitted: bool) -> JobPlan:
        """Stop a child unless its ancestor is admitted; it has no workload of its own."""
        if ancestor_admitted or self.is_suspended(job) or self.finished(job) is not None:
            return IDLE
        event = normal_event(self.reference(job), "Suspended", "Kueue managed child job suspended")
        return JobPlan(writes=self.stop(job, None).patches, events=(event,))

    def finalize(self, job: J) -> tuple[tuple[Write, ...], ...]:
        """Return concurrent writes that release the objects of an ended or deleted job."""
        return ()

    def release_ended(self, job: J) -> JobPlan:
        """Release the objects of a job that is not managed (any more) if they have ended."""
        return IDLE

    def delete_plan(self, state: JobState[J], message: str) -> JobPlan:
        metadata = state.job.metadata
        delete = Delete(self.resource, metadata.key, metadata.uid)
        return JobPlan(writes=(delete,), events=(state.event("Deleted", message),))


class ComposableJobKind(JobKind[J]):
    """A kind of job that consists of several objects; its workload has the name of the job."""

    joins_native_groups = False

    @abstractmethod
    def ensure_one_workload(
        self, state: JobState[J], workload: Workload | None
    ) -> JobPlan | tuple[JobState[J], Workload]:
        """Return the workload and the objects that it counts, or what must be done first."""

    @abstractmethod
    def orphan_plan(self, workload: Workload, options: JobOptions, now: float) -> JobPlan:
        """Return the plan for a workload without any object of its job."""


# Why jobs are stopped; a kind that reports it on pods uses these as reasons.
NO_MATCHING_WORKLOAD = "NoMatchingWorkload"
NOT_ADMITTED = "NotAdmitted"
WORKLOAD_DELETED = "WorkloadDeleted"
WORKLOAD_EVICTED_DUE_TO = "WorkloadEvictedDueTo"  # followed by the reason of the eviction


def started_message(workload: Workload) -> str:
    admission = workload.status.admission
    assert admission is not None, f"{workload.metadata.key} starts without an admission"
    return f"Admitted by clusterQueue {admission.cluster_queue}"
