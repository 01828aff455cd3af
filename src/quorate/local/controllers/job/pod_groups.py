"""Kubernetes' own workloads and pod groups of Indexed jobs."""

import hashlib
from typing import Final, TypeVar

import msgspec

from quorate.api.codec import Json
from quorate.api.meta import Key, ObjectMeta
from quorate.api.native_groups import API_VERSION, PodGroup, Workload
from quorate.kube.client import Client
from quorate.kube.errors import AlreadyExists, NotFound
from quorate.kube.resources import NATIVE_POD_GROUPS, NATIVE_WORKLOADS, Resource
from quorate.local.controllers.job.types import JOBS, Job
from quorate.local.controllers.pod_control import owner_references

T = TypeVar("T", Workload, PodGroup)

MAX_NAME_LENGTH: Final = 253
HASH_LENGTH: Final = 10


class JobPodGroups:
    """Makes the workload and the pod group of an Indexed job that runs all its pods at once."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def group_of(self, job: Job, *, is_new: bool) -> PodGroup | None:
        """Return the group of a job, made if the job ``is_new``; None if the job has no group."""
        if not _is_gang(job):
            return None
        namespace, name = job.metadata.namespace, _hashed(job.metadata.name, job.metadata.uid)
        workload = await self._client.find(NATIVE_WORKLOADS, Key(namespace, name))
        if workload is None:
            if not is_new:
                return None
            workload = await self._created(NATIVE_WORKLOADS, _workload_of(job, name))
        template = workload.spec.pod_group_templates[0].name
        name = _hashed(f"{name}-{template}", name + template)
        try:
            return await self._client.get(NATIVE_POD_GROUPS, Key(namespace, name))
        except NotFound:
            return await self._created(NATIVE_POD_GROUPS, _pod_group_of(job, workload, name))

    async def _created(self, resource: Resource[T], body: Json) -> T:
        metadata = body["metadata"]
        try:
            return await self._client.create(resource, body)
        except AlreadyExists:
            return await self._client.get(resource, Key(metadata["namespace"], metadata["name"]))


def _is_gang(job: Job) -> bool:
    spec = job.spec
    if not (spec.indexed and spec.completions == spec.parallelism > 1):
        return False
    return msgspec.json.decode(spec.template).get("spec", {}).get("schedulingGroup") is None


def _hashed(name: str, identity: str) -> str:
    """Return a name that fits a DNS subdomain and differs for each identity."""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:HASH_LENGTH]
    return f"{name[: MAX_NAME_LENGTH - HASH_LENGTH - 1]}-{digest}"


def _workload_of(job: Job, name: str) -> Json:
    template = f"{job.metadata.name}-pgt-0"
    return {
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "ownerReferences": owner_references(JOBS, job.metadata),
        },
        "spec": {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": job.metadata.name},
            "podGroupTemplates": [{"name": template, "schedulingPolicy": _policy(job)}],
        },
    }


def _pod_group_of(job: Job, workload: Workload, name: str) -> Json:
    reference = {
        "workloadName": workload.metadata.name,
        "podGroupTemplateName": workload.spec.pod_group_templates[0].name,
    }
    return {
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "ownerReferences": [
                *owner_references(JOBS, job.metadata),
                reference_to(NATIVE_WORKLOADS, workload.metadata),
            ],
        },
        "spec": {"podGroupTemplateRef": {"workload": reference}, "schedulingPolicy": _policy(job)},
    }


def _policy(job: Job) -> Json:
    return {"gang": {"minCount": job.spec.parallelism}}


def reference_to(resource: Resource[Workload] | Resource[PodGroup], metadata: ObjectMeta) -> Json:
    """Return a reference to an owner that does not control the object."""
    return {"apiVersion": API_VERSION, "kind": resource.kind, "name": metadata.name, "uid": metadata.uid}
