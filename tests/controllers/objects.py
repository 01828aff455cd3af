"""Builders of jobs, workloads and flavors with keyword defaults."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from quorate.api import codec
from quorate.api.batch import Job
from quorate.api.kueue import (
    Admission,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    ResourceFlavorSpec,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from quorate.api.meta import Condition, ObjectMeta, OwnerReference, Uid, at_epoch
from quorate.api.names.kueue import RESOURCE_IN_USE

CREATED_AT = 1_000.0
CONTAINER = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
# As the Job controller labels the template of a stored job.
STORED_LABELS = {
    "job-name": "train",
    "controller-uid": "u1",
    "batch.kubernetes.io/job-name": "train",
    "batch.kubernetes.io/controller-uid": "u1",
}


def template(
    labels: Mapping[str, str] = STORED_LABELS,
    containers: Sequence[Mapping[str, Any]] = (CONTAINER,),
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> msgspec.Raw:
    metadata = {"labels": dict(labels)} | ({"annotations": dict(annotations)} if annotations else {})
    content = {"metadata": metadata, "spec": {"containers": list(containers), **spec}}
    return msgspec.Raw(json.dumps(content).encode())


STORED_TEMPLATE = template()
NO_STATUS = WorkloadStatus()


def a_job(
    *,
    suspend: bool = True,
    queue: str = "queue",
    parallelism: int = 3,
    template: msgspec.Raw = STORED_TEMPLATE,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleted: bool = False,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Job:
    """Return the job ``default/train`` with uid ``u1`` at version 7, as the API server stores it."""
    metadata = {
        "name": "train",
        "namespace": "default",
        "uid": "u1",
        "resourceVersion": "7",
        "creationTimestamp": at_epoch(CREATED_AT),
        "labels": {**({"kueue.x-k8s.io/queue-name": queue} if queue else {}), **(labels or {})},
        "annotations": dict(annotations or {}),
    }
    if deleted:
        metadata["deletionTimestamp"] = at_epoch(CREATED_AT)
    body = {
        "metadata": metadata,
        "spec": {"suspend": suspend, "parallelism": parallelism, "template": template, **spec},
        "status": dict(status or {}),
    }
    return codec.decode(Job, codec.encode(body))


def a_workload(
    *conditions: str,
    admitted_to: Sequence[str] | None = None,
    uid: str = "u1",
    name: str = "job-train-e4af4",
    pod_sets: Sequence[PodSet] | None = None,
    queue: str = "queue",
    finalizers: tuple[str, ...] = (RESOURCE_IN_USE,),
    deleted: bool = False,
    status: WorkloadStatus = NO_STATUS,
    **spec: Any,
) -> Workload:
    """Return the workload of ``a_job()`` at version 9.

    A condition is written ``Type`` (true), ``!Type`` (false) or either with ``=Reason``.  ``admitted_to`` are
    the flavors of its cpu, one for each pod set.
    """
    if pod_sets is None:
        pod_sets = (PodSet(count=3, template=template({"batch.kubernetes.io/job-name": "train"})),)
    admission = None
    if admitted_to is not None:
        conditions = ("QuotaReserved", "Admitted", *conditions)
        admission = Admission(
            cluster_queue="research",
            pod_set_assignments=tuple(
                PodSetAssignment(name=pod_set.name, flavors={"cpu": flavor}, count=pod_set.count)
                for pod_set, flavor in zip(pod_sets, admitted_to, strict=True)
            ),
        )
    owner = OwnerReference(
        api_version="batch/v1",
        kind="Job",
        name="train",
        uid=Uid(uid),
        controller=True,
        block_owner_deletion=True,
    )
    return Workload(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=Uid("w1"),
            resource_version="9",
            creation_timestamp=at_epoch(CREATED_AT),
            deletion_timestamp=at_epoch(CREATED_AT) if deleted else None,
            finalizers=finalizers,
            owner_references=(owner,),
        ),
        spec=WorkloadSpec(pod_sets=tuple(pod_sets), queue_name=queue, priority=0, **spec),
        status=msgspec.structs.replace(
            status, conditions=tuple(map(_condition, conditions)), admission=admission
        ),
    )


def with_admitted_count(workload: Workload, count: int) -> Workload:
    """Return ``workload`` with ``count`` pods of its only pod set admitted."""
    admission = workload.status.admission
    assert admission is not None
    (assignment,) = admission.pod_set_assignments
    assignments = (msgspec.structs.replace(assignment, count=count),)
    fewer = msgspec.structs.replace(admission, pod_set_assignments=assignments)
    return msgspec.structs.replace(workload, status=msgspec.structs.replace(workload.status, admission=fewer))


def _condition(text: str) -> Condition:
    type_, _, reason = text.lstrip("!").partition("=")
    return Condition(
        type=type_,
        status="False" if text.startswith("!") else "True",
        reason=reason or type_,
        message=f"{reason or type_} happened",
        last_transition_time=at_epoch(CREATED_AT),
    )


def a_flavor(name: str, **spec: Any) -> ResourceFlavor:
    return ResourceFlavor(metadata=ObjectMeta(name=name), spec=ResourceFlavorSpec(**spec))
