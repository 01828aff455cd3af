"""The manifests of a Volcano Job's pods."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from quorate.api import codec
from quorate.api.names.volcano import (
    COOLDOWN_TIME,
    DISRUPTION_MAX_UNAVAILABLE,
    DISRUPTION_MIN_AVAILABLE,
    GROUP_NAME,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    PARTITION,
    PREEMPTABLE,
    QUEUE_NAME_LABEL,
    REVOCABLE_ZONE,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
)
from quorate.api.volcano.job import Job, TaskSpec
from quorate.controllers.jobframework.podset_info import read_template
from quorate.controllers.volcano.job.job_pod_group import group_name, owner_reference_to
from quorate.controllers.volcano.job.job_status import claim_name
from quorate.controllers.volcano.job.job_sync import NewPod
from quorate.controllers.volcano.job.plugins import Plugin
from quorate.controllers.volcano.job.plugins.interface import pod_name
from quorate.controllers.volcano.job.pod_manifest import PodManifest, PodTooLarge
from quorate.kube.resources import Json

NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
_TEMPLATE_METADATA: Final = ("labels", "annotations", "finalizers")
_INHERITED_ANNOTATIONS: Final = (
    PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE, DISRUPTION_MIN_AVAILABLE, DISRUPTION_MAX_UNAVAILABLE,
)  # fmt: skip


def build_pods(
    job: Job, pods: Iterable[NewPod], plugins: Sequence[Plugin], most_bytes: int
) -> list[PodManifest | PodTooLarge]:
    """Return the first of ``pods`` of a defaulted job, as many as have ``most_bytes`` or little more.

    A pod that is too large is the last one: all other pods of its task are.
    """
    tasks = {task.name: task for task in job.spec.tasks}
    built: list[PodManifest | PodTooLarge] = []
    size = 0
    for name, of_task in groupby(pods, key=lambda pod: pod.task):
        task = tasks[name]
        template = _task_manifest(job, task)
        for pod in of_task:
            manifest = _pod_manifest(template, job, task, pod.index, plugins)
            if manifest.is_too_large:
                return [*built, PodTooLarge(name)]
            built.append(manifest)
            size += manifest.size
            if size >= most_bytes:
                return built
    return built


def _task_manifest(job: Job, task: TaskSpec) -> PodManifest:
    """Return what all pods of a task have: its template with the job's scheduler, priority and volumes."""
    template: dict[str, Any] = read_template(task.template)
    metadata = template.get("metadata") or {}
    spec: Json = template.get("spec") or {}
    spec.setdefault("schedulerName", job.spec.scheduler_name)
    if job.spec.priority_class_name and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.spec.priority_class_name
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"  # the default policy resolves no cluster names
    kept: Json = {name: metadata[name] for name in _TEMPLATE_METADATA if metadata.get(name)}
    kept["ownerReferences"] = [codec.to_builtins(owner_reference_to(job))]
    manifest = PodManifest({"metadata": kept, "spec": spec}, len(task.template))
    _add_volumes(manifest, job)
    return manifest


def _pod_manifest(
    template: PodManifest, job: Job, task: TaskSpec, index: int, plugins: Sequence[Plugin]
) -> PodManifest:
    """Return the ``index``-th pod of a task, with its labels and annotations and what plugins add."""
    pod = template.copy()
    metadata = pod.body["metadata"]
    pod.body["metadata"] = {
        **metadata,
        "name": pod_name(job, task, index),
        "namespace": job.metadata.namespace,
        "labels": {**metadata.get("labels", {}), **_labels(job, task, index)},
        "annotations": {**metadata.get("annotations", {}), **_annotations(job, task, index)},
    }
    for plugin in plugins:
        plugin.on_pod_create(pod, task, index)
    return pod


def _labels(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    metadata = job.metadata
    labels = {
        JOB_NAME: metadata.name,
        JOB_NAMESPACE: metadata.namespace,
        QUEUE_NAME_LABEL: job.spec.queue,
        TASK_SPEC: task.name,
        TASK_INDEX: str(index),
        **_present(metadata.labels, (PREEMPTABLE, COOLDOWN_TIME)),
    }
    policy = task.partition_policy
    if policy is not None and policy.partition_size > 0:
        labels[PARTITION] = str(index // policy.partition_size)
    return labels


def _annotations(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    name = job.metadata.name
    annotations = {
        GROUP_NAME: group_name(job),
        TASK_SPEC: task.name,
        TASK_INDEX: str(index),
        JOB_NAME: name,
        QUEUE_NAME_LABEL: job.spec.queue,
        JOB_VERSION: str(job.status.version),
        JOB_RETRY_COUNT: str(job.status.retry_count),
        TEMPLATE_UID: f"{name}-{task.name}",
        **_present(job.metadata.annotations, _INHERITED_ANNOTATIONS),
    }
    if task.topology_policy:
        annotations[NUMA_POLICY] = task.topology_policy
    return annotations


def _present(values: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: values[name] for name in names if name in values}


def _add_volumes(pod: PodManifest, job: Job) -> None:
    """Mount the job's volumes into every container; a claim is one volume, at each path that names it."""
    volumes: list[Json] = []
    mounts: list[Json] = []
    claims: dict[str, str] = {}  # the volume of each claim
    for index, volume in enumerate(job.spec.volumes):
        claim, name = claim_name(job, index), f"job-volume-{index}"
        if not claim or claim not in claims:
            source: Json = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
            volumes.append({"name": name, **source})
        if claim:
            name = claims.setdefault(claim, name)
        mounts.append({"name": name, "mountPath": volume.mount_path})
    if volumes:
        pod.add_volumes(volumes, mounts, init=False)
