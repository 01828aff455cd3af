"""The manifests of a Volcano Job's pods."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from quorate.api import codec
from quorate.api.volcano.annotations import (
    COOLDOWN_TIME,
    DISRUPTION_MAX_UNAVAILABLE,
    DISRUPTION_MIN_AVAILABLE,
    GROUP_NAME,
    PREEMPTABLE,
    QUEUE_NAME_LABEL,
    REVOCABLE_ZONE,
    TASK_SPEC,
)
from quorate.api.volcano.job import (
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    PARTITION,
    TASK_INDEX,
    TEMPLATE_UID,
    Job,
    TaskSpec,
)
from quorate.controllers.jobframework.podset_info import read_template
from quorate.controllers.volcano.job.job_pod_group import group_name, owner_reference_to
from quorate.controllers.volcano.job.job_status import claim_name
from quorate.controllers.volcano.job.plugins import Plugin
from quorate.controllers.volcano.job.plugins.interface import add_volume, pod_name
from quorate.kube.resources import Json

NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
_INHERITED_ANNOTATIONS: Final = (
    PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE, DISRUPTION_MIN_AVAILABLE, DISRUPTION_MAX_UNAVAILABLE,
)  # fmt: skip


def build_pod(job: Job, task: TaskSpec, index: int, plugins: Iterable[Plugin]) -> Json:
    """Return the ``index``-th pod of a task of a defaulted job.

    It is the task's template with the job's labels, annotations, owner reference, volumes and plugins.
    """
    template: dict[str, Any] = read_template(task.template)
    metadata = template.get("metadata") or {}
    spec: Json = template.get("spec") or {}
    spec.setdefault("schedulerName", job.spec.scheduler_name)
    if job.spec.priority_class_name and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.spec.priority_class_name
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"  # the default policy resolves no cluster names
    pod: Json = {
        "metadata": {
            "name": pod_name(job, task, index),
            "namespace": job.metadata.namespace,
            "labels": {**(metadata.get("labels") or {}), **_labels(job, task, index)},
            "annotations": {**(metadata.get("annotations") or {}), **_annotations(job, task, index)},
            "ownerReferences": [codec.to_builtins(owner_reference_to(job))],
        },
        "spec": spec,
    }
    if finalizers := metadata.get("finalizers"):
        pod["metadata"]["finalizers"] = finalizers
    _add_volumes(pod, job)
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
        **_present(metadata.labels, (PREEMPTABLE,)),
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


def _add_volumes(pod: Json, job: Job) -> None:
    """Mount the job's volumes into every container; each claim is mounted once."""
    claims: set[str] = set()
    for index, volume in enumerate(job.spec.volumes):
        claim = claim_name(job, index)
        if claim and claim in claims:
            continue
        claims.add(claim)
        name = f"job-volume-{index}"
        source: Json = {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}
        add_volume(pod, {"name": name, **source}, {"name": name, "mountPath": volume.mount_path}, init=False)
