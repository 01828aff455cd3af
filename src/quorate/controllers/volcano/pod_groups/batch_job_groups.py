"""Pod groups for Jobs of batch/v1: each is placed whole, and its pods are made when that can be.

A Job takes part when its pods name one of our schedulers and no group of somebody else's.  Its pods are held
back by suspension.  Where Kueue-style queueing suspends it, that comes first: the pod group is made once the
workload is admitted, and the Job is started, with the group's name on its pods, once the group is admitted
as well.  Where nobody else manages ``suspend``, a Job that is created suspended and says what its group is
to be (by annotation) is started by us; one that is created running is no different from plain pods.

Knowingly missing: elastic Jobs, which change their size while they run, have no group of this kind.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.batch import Job, decode_template
from quorate.api.core.pod_resources import quota_usage
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, OwnerReference, is_true
from quorate.api.volcano import DEFAULT_QUEUE, PENDING, PodGroup, PodGroupSpec
from quorate.api.volcano.annotations import GROUP_MIN_MEMBER, GROUP_NAME, QUEUE_NAME
from quorate.controllers.jobframework.construct_workload import ELASTIC_JOB
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.batch_validation import pods_of
from quorate.controllers.volcano.job.job_pod_group import is_waiting
from quorate.controllers.volcano.job.min_resources import multiply
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

# On a Job: it was started as its group was admitted.  If it is suspended all the same, somebody wants so.
STARTED: Final = "quorate.dev/started-with-pod-group"

_KIND: Final = BatchJob()


@dataclass(frozen=True, slots=True)
class BatchJobInfo:
    """One Job that takes part, with all that concerns its group."""

    job: Job
    group: PodGroup | None
    queued: bool  # its suspension is managed by admission to a queue
    admitted_pods: int | None  # of a queued one: how many; None: it is not admitted
    namespace_annotations: Mapping[str, str]  # annotations
    keep_pending: bool = False  # it is not suspended again when its group is sent back


@dataclass(frozen=True, slots=True)
class GroupPlan:
    group: PodGroup | None = None  # what the group is to be; None: nothing is to be done about it
    group_to_delete: PodGroup | None = None  # to delete
    patches: tuple[Patch, ...] = ()  # of the Job


IDLE: Final = GroupPlan()


def group_name(job: Job) -> str:
    """The name that the group of its pods has in any case."""
    return f"{POD_GROUP_PREFIX}{job.metadata.uid}"


def is_gang_scheduled(job: Job, scheduler_names: Collection[str]) -> bool:
    written = bytes(job.spec.template)
    if not any(name.encode() in written for name in scheduler_names):
        return False  # most Jobs: not even worth decoding
    template = decode_template(job.spec.template)
    named = template.metadata.annotations.get(GROUP_NAME, "")
    return (
        template.spec.scheduler_name in scheduler_names
        and named in ("", group_name(job))
        and job.metadata.annotations.get(ELASTIC_JOB) != "true"
        and not job.spec.managed_by
    )


def admitted_pods(workloads: Collection[Workload]) -> int | None:
    """With how many pods a queued Job is admitted; None while it is not."""
    for workload in workloads:
        if is_admitted(workload) and not is_evicted(workload) and not is_finished(workload):
            admission = workload.status.admission
            counts = [] if admission is None else [each.count for each in admission.pod_set_assignments]
            sizes = [pod_set.count for pod_set in workload.spec.pod_sets]
            return sum(size if count is None else count for size, count in zip(sizes, counts, strict=False))
    return None


def decide(case: BatchJobInfo) -> GroupPlan:
    """The one step to take now; taken twice, the second changes nothing."""
    job = case.job
    if job.metadata.deletion_timestamp is not None:
        return IDLE  # its group is garbage, and collected
    if any(is_true(job.status.conditions, ended) for ended in ("Complete", "Failed")):
        return _without(case)
    return _queued(case) if case.queued else _free(case)


def _queued(case: BatchJobInfo) -> GroupPlan:
    """Of a Job that its workload starts and stops; who starts it waits for the group."""
    if case.admitted_pods is None:
        return _without(case)
    wanted = _group(case, case.admitted_pods)
    back = _sent_back(case, {"spec": {"suspend": True}})
    return GroupPlan(group=wanted, patches=back)


def _free(case: BatchJobInfo) -> GroupPlan:
    """Of a Job that nobody else suspends or starts."""
    job = case.job
    said = job.metadata.annotations
    started = said.get(STARTED) == "true"
    if GROUP_MIN_MEMBER not in said and QUEUE_NAME not in said:
        return IDLE
    if job.spec.suspend and started:
        return _without(case)  # paused by hand
    if not job.spec.suspend and not started:
        return IDLE  # it never waited: its pods are grouped as plain pods are
    wanted = _group(case, pods_of(job))
    if not job.spec.suspend:
        again = {"metadata": {"annotations": {STARTED: None}}, "spec": {"suspend": True}}
        return GroupPlan(group=wanted, patches=_sent_back(case, again))
    return GroupPlan(group=wanted, patches=() if is_waiting(case.group) else _start(job))


def _start(job: Job) -> tuple[Patch, ...]:
    info = PodSetInfo(name="main", count=pods_of(job), annotations={GROUP_NAME: group_name(job)})
    patches = _KIND.start(job, [info])
    assert not isinstance(patches, InjectionConflict), "it has no other group: see takes_part"
    *first, last = patches
    body: dict[str, Any] = {**last.body, "metadata": {"annotations": {STARTED: "true"}}}
    return (*first, Patch(last.resource, last.key, last.resource_version, body))


def _sent_back(case: BatchJobInfo, body: Mapping[str, Any]) -> tuple[Patch, ...]:
    """The Job is held back again when the scheduler sent its group back before any pod was ready."""
    job, group = case.job, case.group
    if job.spec.suspend or group is None or group.status.phase != PENDING:
        return ()
    if case.keep_pending or job.status.ready or job.status.succeeded:
        return ()
    return (Patch(JOBS, job.metadata.key, job.metadata.resource_version, body),)


def _without(case: BatchJobInfo) -> GroupPlan:
    group = case.group
    return GroupPlan(group_to_delete=None if group is None or group.metadata.deletion_timestamp else group)


def _group(case: BatchJobInfo, pods: int) -> PodGroup:
    metadata = case.job.metadata
    said, template = metadata.annotations, decode_template(case.job.spec.template)
    stated = annotated_min_member(said)
    minimum = pods if stated is None else stated
    taken = volcano_annotations(said)
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(case.job),
            namespace=metadata.namespace,
            annotations=taken,
            owner_references=(
                OwnerReference(
                    api_version="batch/v1", kind="Job", name=metadata.name, uid=metadata.uid, controller=True
                ),
            ),
        ),
        spec=PodGroupSpec(
            min_member=minimum,
            queue=said.get(QUEUE_NAME) or case.namespace_annotations.get(QUEUE_NAME) or DEFAULT_QUEUE,
            priority_class_name=template.spec.priority_class_name,
            min_resources=annotated_min_resources(said) or multiply(quota_usage(template.spec), minimum),
            network_topology=annotated_topology(taken),
        ),
    )
