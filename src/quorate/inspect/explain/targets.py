"""What the arguments of ``quorate explain`` name: workloads, jobs, pods, pod groups and queues."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from quorate.api import codec
from quorate.api.core.started_pod import StartedPod
from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta, Uid
from quorate.api.names.kueue import CRON_JOB, QUEUE_NAME, WORKLOAD_ANNOTATION
from quorate.api.native_groups import GROUP as NATIVE_GROUP
from quorate.api.native_groups import PREFIX
from quorate.api.volcano.job import GROUP as BATCH_GROUP
from quorate.api.volcano.job import Job as VolcanoJob
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.job_names import (
    NamedJob,
    is_workload_type,
    resource_of,
    workload_or_job,
    workloads_of_job,
)
from quorate.inspect.listed_groups import STARTED_PODS, native_pod_groups, readable_objects
from quorate.kube.client import Client
from quorate.kube.errors import NotFound
from quorate.kube.resources import POD_GROUPS, WORKLOADS, Json, Resource

_CLUSTER_QUEUES: Final = ("cq", "clusterqueue", "clusterqueues")
LOCAL_QUEUE_NAMES: Final = ("lq", "localqueue", "localqueues")
_POD_GROUPS: Final = ("pg", "podgroup", "podgroups")
_PODS: Final = ("po", "pod", "pods")


@dataclass(frozen=True, slots=True)
class OfWorkload:
    workload: Workload
    pod: StartedPod | None = None  # that was named, one of the workload


@dataclass(frozen=True, slots=True)
class OfObject:
    plural: str  # clusterqueues, localqueues or podgroups
    key: Key
    pod: StartedPod | None = None  # that was named, one of the pod group


@dataclass(frozen=True, slots=True)
class OfJob:
    """A job, or a pod, without a Workload."""

    resource: Resource[Json]
    job: ObjectMeta
    is_suspended: bool | None = None  # None: it has no field ``spec.suspend``


@dataclass(frozen=True, slots=True)
class OfVolcanoJob:
    """A Volcano Job that names no local queue, and has no pod group."""

    job: VolcanoJob


Target = OfWorkload | OfObject | OfJob | OfVolcanoJob


async def named_targets(connection: Connection, written: str) -> list[Target]:
    """Return what ``NAME`` or ``TYPE/NAME`` names; several workloads may belong to one job.

    Raises ``UsageError`` and ``NotFound``.
    """
    type_, slash, name = written.rpartition("/")
    kind = type_.partition(".")[0].lower()
    client, namespace = connection.client, connection.namespace
    if kind in _CLUSTER_QUEUES:
        return [OfObject("clusterqueues", Key("", name))]
    if not namespace:
        raise UsageError("an explanation needs one namespace (write -n NAMESPACE)")
    if not slash or is_workload_type(type_):
        named = await workload_or_job(connection, name, only_workload=bool(slash))
        return [OfWorkload(named)] if isinstance(named, Workload) else await _of_job(client, named)
    if kind in LOCAL_QUEUE_NAMES:
        return [OfObject("localqueues", Key(namespace, name))]
    if kind in _POD_GROUPS or type_ == NATIVE_GROUP:
        is_native = NATIVE_GROUP in (type_, type_.partition(".")[2])
        return [OfObject("podgroups", Key(namespace, (PREFIX if is_native else "") + name))]
    if kind in _PODS:
        return [await _of_pod(client, Key(namespace, name))]
    resource = await resource_of(client, type_)
    return await _of_job(client, NamedJob(resource, await client.get(resource, Key(namespace, name))))


async def _of_job(client: Client, named: NamedJob) -> list[Target]:
    """Return the workloads of a job, else its pod groups, else the job."""
    resource, document, job = named.resource, named.document, named.metadata
    owners = [job.uid, *_active_jobs(resource, document)]
    if workloads := [owned for uid in owners for owned in await workloads_of_job(client, job.namespace, uid)]:
        return [OfWorkload(workload) for workload in workloads]
    if QUEUE_NAME not in job.labels and (groups := await _pod_groups_of(client, job)):
        return [OfObject("podgroups", group) for group in groups]
    if QUEUE_NAME not in job.labels and (resource.group, resource.plural) == (BATCH_GROUP, "jobs"):
        return [OfVolcanoJob(codec.convert(VolcanoJob, document))]
    suspend = (document.get("spec") or {}).get("suspend")
    return [OfJob(resource, job, suspend if isinstance(suspend, bool) else None)]


def _active_jobs(resource: Resource[Json], document: Json) -> list[Uid]:
    """Return the jobs of a CronJob that have not ended; none of another object."""
    if (resource.group, resource.kind) != CRON_JOB:
        return []
    active = (document.get("status") or {}).get("active") or []
    return [Uid(reference.get("uid", "")) for reference in active if isinstance(reference, dict)]


async def _pod_groups_of(client: Client, job: ObjectMeta) -> list[Key]:
    """Return the pod groups of a job, for which it waits if no queue of workloads is named."""
    volcano = await readable_objects(client, POD_GROUPS, job.namespace)
    native = await native_pod_groups(client, job.namespace)
    groups = [group.metadata for group in (*(volcano or ()), *(native or ()))]
    return [group.key for group in groups if group.controller is not None and group.controller.uid == job.uid]


async def _of_pod(client: Client, key: Key) -> Target:
    """Return the workload of a pod: by its annotation, or owned by the pod or its job; else its pod group."""
    pod = await client.get(STARTED_PODS, key)
    metadata = pod.metadata
    if name := metadata.annotations.get(WORKLOAD_ANNOTATION):
        with suppress(NotFound):  # the annotation is older than the workload
            return OfWorkload(await client.get(WORKLOADS, Key(key.namespace, name)), pod)
    uids = [metadata.uid, *(owner.uid for owner in metadata.owner_references)]
    for uid in uids:
        for workload in await workloads_of_job(client, key.namespace, uid):
            return OfWorkload(workload, pod)
    if group := pod.pod_group:
        return OfObject("podgroups", Key(key.namespace, group), pod)
    return OfJob(await resource_of(client, "pods"), metadata)
