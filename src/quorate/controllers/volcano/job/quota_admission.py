"""The admission of a Volcano Job or a pod group by a cluster queue, as it is recorded on the object.

A Volcano Job has no field that suspends it.  A job that is queued is suspended as long as it does not record
an admission of its own: it gets no pod group and no pods.  The record has what admission adds to the pod
templates.  They stay as they are, because the webhooks of Volcano accept no changes of tasks.  A stop removes
the record and leaves a mark, which the job controller removes when the last pod is gone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.meta import Struct, Uid
from quorate.api.names.kueue import STOPPING
from quorate.api.names.volcano import ADMITTED_POD_SETS
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job, TaskSpec
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject, read_template
from quorate.kube.patches import merged
from quorate.kube.resources import POD_GROUPS, VOLCANO_JOBS, Resource
from quorate.kube.writes import Patch


class _Record(Struct):
    job_uid: Uid  # a copy of the object under another name is not admitted
    pod_sets: tuple[PodSetInfo, ...]  # of a job: one for each task


def admitted_pod_sets(job: Job) -> Mapping[str, PodSetInfo] | None:
    """Return the pod sets of the recorded admission by task; None if there is none that can be read."""
    text = job.metadata.annotations.get(ADMITTED_POD_SETS)
    if text is None:
        return None
    try:
        record = codec.decode(_Record, text)
    except msgspec.DecodeError:
        return None
    if record.job_uid != job.metadata.uid:
        return None
    return {info.name: info for info in record.pod_sets}


def is_suspended(job: Job) -> bool:
    """Return True if a queued job has no admission, so that it gets no pods."""
    return admitted_pod_sets(job) is None


def is_stopping(job: Job | PodGroup) -> bool:
    """Return True while pods of a stopped job or pod group may still exist, or have nodes."""
    return job.metadata.annotations.get(STOPPING) == "true"


def as_admitted(job: Job, pod_sets: Mapping[str, PodSetInfo]) -> Job | InjectionConflict:
    """Return a defaulted job with the counts and the templates of its admission.

    A task without a pod set in the admission gets no pods: it was added later.
    """
    tasks: list[TaskSpec] = []
    for task in job.spec.tasks:
        info = pod_sets.get(task.name)
        if info is None:
            tasks.append(replace(task, replicas=0, min_available=0))
            continue
        patch = inject(task.template, info)
        if isinstance(patch, InjectionConflict):
            return patch
        template = task.template
        if patch:
            body: dict[str, Any] = merged(read_template(template), patch)
            template = msgspec.Raw(msgspec.json.encode(body))
        minimum = task.replicas if task.min_available is None else task.min_available
        tasks.append(
            replace(task, replicas=info.count, min_available=min(minimum, info.count), template=template)
        )
    return replace(job, spec=replace(job.spec, tasks=tuple(tasks)))


def record_admission(job: Job, infos: Sequence[PodSetInfo]) -> Patch:
    """Return the patch that records the admission of a job: it starts."""
    return annotate(job, {ADMITTED_POD_SETS: admission_record(job.metadata.uid, infos)})


def admission_record(uid: Uid, infos: Sequence[PodSetInfo]) -> str:
    """Return the record of the admission of the object with ``uid``."""
    return codec.encode(_Record(job_uid=uid, pod_sets=tuple(infos))).decode()


def forget_admission(job: Job) -> Patch:
    """Return the patch that suspends a job without pods."""
    return annotate(job, {ADMITTED_POD_SETS: None})


def begin_stop(job: Job) -> Patch:
    """Return the patch that suspends a job with pods, and marks the stop that begins."""
    return annotate(job, {ADMITTED_POD_SETS: None, STOPPING: "true"})


def stop_completed(job: Job | PodGroup) -> Patch:
    """Return the patch that removes the mark of a stop, to be sent when no pod exists or has a node."""
    return annotate(job, {STOPPING: None})


def annotate(job: Job | PodGroup, annotations: dict[str, str | None]) -> Patch:
    """Return the patch that sets annotations; None removes an annotation."""
    kind: Resource[Any] = VOLCANO_JOBS if isinstance(job, Job) else POD_GROUPS
    body: dict[str, Any] = {"metadata": {"annotations": annotations}}
    return Patch(kind, job.metadata.key, job.metadata.resource_version, body)
