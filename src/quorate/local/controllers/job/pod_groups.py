"""Kubernetes' own workloads and pod groups: made for Indexed jobs, and protected while they are in use."""

import hashlib
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from quorate.api.codec import Json
from quorate.api.core import Pod
from quorate.api.meta import Key, ObjectMeta
from quorate.api.native_groups import API_VERSION, PROTECTION_FINALIZER, PodGroup, Workload
from quorate.kube.client import Client, PatchKind
from quorate.kube.errors import AlreadyExists, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import NATIVE_POD_GROUPS, NATIVE_WORKLOADS, Resource
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.job.types import JOBS, Job
from quorate.local.controllers.pod_control import finalizer_removal, is_pod_finished, owner_references

T = TypeVar("T", Workload, PodGroup)

MAX_NAME_LENGTH: Final = 253
HASH_LENGTH: Final = 10


async def pod_group_of(client: Client, job: Job, *, is_new: bool) -> PodGroup | None:
    """Return the pod group of an Indexed job that runs all its pods at once; None for any other job.

    The group and its workload are created if the job ``is_new``.
    """
    if not _is_gang(job):
        return None
    namespace, name = job.metadata.namespace, _hashed(job.metadata.name, job.metadata.uid)
    workload = await client.find(NATIVE_WORKLOADS, Key(namespace, name))
    if workload is None:
        if not is_new:
            return None
        workload = await _created(client, NATIVE_WORKLOADS, _workload_of(job, name))
    template = workload.spec.pod_group_templates[0].name
    name = _hashed(f"{name}-{template}", name + template)
    try:
        return await client.get(NATIVE_POD_GROUPS, Key(namespace, name))
    except NotFound:
        return await _created(client, NATIVE_POD_GROUPS, _pod_group_of(job, workload, name))


async def _created(client: Client, resource: Resource[T], body: Json) -> T:
    metadata = body["metadata"]
    try:
        return await client.create(resource, body)
    except AlreadyExists:
        return await client.get(resource, Key(metadata["namespace"], metadata["name"]))


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


class PodGroupProtectionController(Controller):
    """Removes the finalizer of a deleted pod group once no active pod refers to the group."""

    def __init__(self, context: ControllerContext, pods: Informer[Pod], groups: Informer[PodGroup]) -> None:
        super().__init__("pod-group-protection", context, groups, pods)
        self._groups, self._pods = groups, pods
        pods.add_index("group", lambda pod: () if is_pod_finished(pod) else _groups(pod))
        groups.subscribe(lambda change: self._reconciler.enqueue(change.key))
        pods.subscribe(self._on_pod)

    def _on_pod(self, change: Change[Pod]) -> None:
        for pod in change.versions:
            for group in _groups(pod):
                self._reconciler.enqueue(group)

    async def reconcile(self, key: Key) -> None:
        """Remove the finalizer of a group that is deleted and unused."""
        group = self._groups.get(key)
        if group is None or group.metadata.deletion_timestamp is None:
            return
        if PROTECTION_FINALIZER not in group.metadata.finalizers or self._pods.by_index("group", key):
            return
        removal = finalizer_removal(group.metadata, PROTECTION_FINALIZER)
        with suppress(NotFound):
            await self._client.patch(NATIVE_POD_GROUPS, key, removal, kind=PatchKind.STRATEGIC)


def _groups(pod: Pod) -> tuple[Key, ...]:
    named = pod.spec.scheduling_group
    return () if named is None else (Key(pod.metadata.namespace, named.pod_group_name),)
