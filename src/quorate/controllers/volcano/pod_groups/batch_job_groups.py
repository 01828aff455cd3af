"""Pod groups for batch/v1 Jobs: when a Job gets a group and when it is started.

A Job is included if its pods name one of our schedulers and no pod group of another controller.  Suspension
keeps its pods from being created.  A Job that Kueue-style queueing suspends is admitted by its queue first:
its pod group is created once the workload is admitted, and the Job is started, with the group's name on its
pods, once the group is admitted as well.  A Job that is not queued, is created suspended and describes its
group in annotations is started by this controller; one that is created running is treated like plain pods.

Not supported: elastic Jobs, which change their size while they run.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.batch import Job, decode_template
from quorate.api.codec import decode
from quorate.api.core import PodSchedulingGroup, PodTemplateMeta
from quorate.api.core.pod_resources import quota_usage
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, OwnerReference, Struct, is_true
from quorate.api.names.kueue import ELASTIC_JOB
from quorate.api.names.volcano import GROUP_MIN_MEMBER, GROUP_NAME, QUEUE_NAME
from quorate.api.volcano import DEFAULT_QUEUE, PENDING, PodGroup, PodGroupSpec
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobs.batch import BatchJob, parallel_pods
from quorate.controllers.volcano.job.job_pod_group import awaits_admission, multiply
from quorate.controllers.volcano.pod_defaults import NO_POD_DEFAULTS, PodDefaults
from quorate.controllers.volcano.pod_groups.pod_group_builder import (
    POD_GROUP_PREFIX,
    annotated_min_member,
    annotated_min_resources,
    annotated_topology,
    volcano_annotations,
)
from quorate.kube.resources import JOBS
from quorate.kube.writes import Patch
from quorate.queueing.conditions import is_admitted, is_evicted, is_finished

# An annotation on a Job that was started because its group was admitted.  If the Job is suspended in spite of
# it, a user has suspended it.
STARTED: Final = "quorate.dev/started-with-pod-group"

_KIND: Final = BatchJob()


class _SchedulerName(Struct):
    scheduler_name: str = ""
    scheduling_group: PodSchedulingGroup | None = None


class _Template(Struct):
    """The fields that include a Job: the event loop decodes them after each change of any Job."""

    metadata: PodTemplateMeta = PodTemplateMeta()
    spec: _SchedulerName = _SchedulerName()


@dataclass(frozen=True, slots=True)
class BatchJobInfo:
    """One included Job and everything the decision about its group depends on."""

    job: Job
    group: PodGroup | None
    queued: bool  # admission to a queue manages its suspension
    admitted_pods: int | None  # of a queued Job; None: it is not admitted
    namespace_annotations: Mapping[str, str]
    keep_pending: bool = False  # do not suspend the Job again when its group becomes pending again
    defaults: PodDefaults = NO_POD_DEFAULTS  # of the pods of its namespace


@dataclass(frozen=True, slots=True)
class BatchGroupPlan:
    group: PodGroup | None = None  # the desired pod group; None: it is not written
    group_to_delete: PodGroup | None = None
    patches: tuple[Patch, ...] = ()  # of the Job


def group_name(job: Job) -> str:
    """Return the name of the group of the Job's pods, whichever controller creates it."""
    return f"{POD_GROUP_PREFIX}{job.metadata.uid}"


def is_gang_scheduled(job: Job, scheduler_names: Collection[str]) -> bool:
    """Return True if the Job gets a pod group of its own."""
    written = bytes(job.spec.template)
    if not any(name.encode() in written for name in scheduler_names):
        return False  # most Jobs: this is faster than decoding the template
    template = decode(_Template, job.spec.template)
    named = template.metadata.annotations.get(GROUP_NAME, "")
    return (
        template.spec.scheduler_name in scheduler_names
        and template.spec.scheduling_group is None
        and named in ("", group_name(job))
        and job.metadata.annotations.get(ELASTIC_JOB) != "true"
        and not job.spec.managed_by
    )


def admitted_pods(workloads: Collection[Workload]) -> int | None:
    """Return the number of admitted pods of a queued Job; None while it is not admitted."""
    for workload in workloads:
        if is_admitted(workload) and not is_evicted(workload) and not is_finished(workload):
            admission = workload.status.admission
            assigned = () if admission is None else admission.pod_set_assignments
            counts = [assignment.count for assignment in assigned]
            sizes = [pod_set.count for pod_set in workload.spec.pod_sets]
            return sum(size if count is None else count for size, count in zip(sizes, counts, strict=False))
    return None


def decide(info: BatchJobInfo) -> BatchGroupPlan:
    """Return the next step for a Job; applied to its own result, it changes nothing."""
    job = info.job
    if job.metadata.deletion_timestamp is not None:
        return BatchGroupPlan()  # its group is garbage-collected
    if any(is_true(job.status.conditions, finished) for finished in ("Complete", "Failed")):
        return _without_group(info) if _is_pending(info.group) else BatchGroupPlan()
    return _plan_queued(info) if info.queued else _plan_unqueued(info)


def _is_pending(group: PodGroup | None) -> bool:
    """Return True if the group of a finished Job does not become Completed, and might reserve room again.

    Another group stays as long as the Job, as with Volcano: the scheduler completes a group with members that
    ended, and returns one that lost its members to Pending.
    """
    return group is not None and group.status.phase in ("", PENDING)


def _plan_queued(info: BatchJobInfo) -> BatchGroupPlan:
    """Plan for a Job that the job reconciler starts, which waits for the group as well."""
    if info.admitted_pods is None:
        return _without_group(info)
    wanted = _build_group(info, info.admitted_pods)
    return BatchGroupPlan(group=wanted, patches=_suspend_if_pending(info, {"spec": {"suspend": True}}))


def _plan_unqueued(info: BatchJobInfo) -> BatchGroupPlan:
    """Plan for a Job that no other controller suspends or starts."""
    job = info.job
    annotations = job.metadata.annotations
    started = annotations.get(STARTED) == "true"
    if GROUP_MIN_MEMBER not in annotations and QUEUE_NAME not in annotations:
        return BatchGroupPlan()
    if job.spec.suspend and started:
        return _without_group(info)  # a user has suspended it
    if not job.spec.suspend and not started:
        return BatchGroupPlan()  # it was created running: its pods get a group as plain pods do
    wanted = _build_group(info, parallel_pods(job))
    if not job.spec.suspend:
        suspend = {"metadata": {"annotations": {STARTED: None}}, "spec": {"suspend": True}}
        return BatchGroupPlan(group=wanted, patches=_suspend_if_pending(info, suspend))
    return BatchGroupPlan(group=wanted, patches=() if awaits_admission(info.group) else _start(job))


def _start(job: Job) -> tuple[Patch, ...]:
    info = PodSetInfo(name="main", count=parallel_pods(job), annotations={GROUP_NAME: group_name(job)})
    patches = _KIND.start(job, [info])
    assert not isinstance(patches, InjectionConflict), "it has no other group: see is_gang_scheduled"
    *first, last = patches
    body: dict[str, Any] = {**last.body, "metadata": {"annotations": {STARTED: "true"}}}
    return (*first, Patch(last.resource, last.key, last.resource_version, body))


def _suspend_if_pending(info: BatchJobInfo, body: Mapping[str, Any]) -> tuple[Patch, ...]:
    """Suspend the Job again if its group is pending again and no pod is ready."""
    job, group = info.job, info.group
    if job.spec.suspend or group is None or group.status.phase != PENDING:
        return ()
    if info.keep_pending or job.status.ready or job.status.succeeded:
        return ()
    return (Patch(JOBS, job.metadata.key, job.metadata.resource_version, body),)


def _without_group(info: BatchJobInfo) -> BatchGroupPlan:
    group = info.group
    if group is None or group.metadata.deletion_timestamp:
        return BatchGroupPlan()
    return BatchGroupPlan(group_to_delete=group)


def _build_group(info: BatchJobInfo, pods: int) -> PodGroup:
    metadata = info.job.metadata
    annotations, template = metadata.annotations, decode_template(info.job.spec.template)
    annotated = annotated_min_member(annotations)
    minimum = pods if annotated is None else annotated
    inherited = volcano_annotations(annotations)
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(info.job),
            namespace=metadata.namespace,
            annotations=inherited,
            owner_references=(
                OwnerReference(
                    api_version="batch/v1", kind="Job", name=metadata.name, uid=metadata.uid, controller=True
                ),
            ),
        ),
        spec=PodGroupSpec(
            min_member=minimum,
            queue=annotations.get(QUEUE_NAME) or info.namespace_annotations.get(QUEUE_NAME) or DEFAULT_QUEUE,
            priority_class_name=template.spec.priority_class_name,
            min_resources=annotated_min_resources(annotations)
            or multiply(quota_usage(info.defaults.stored(template.spec)), minimum),
            network_topology=annotated_topology(inherited),
        ),
    )
