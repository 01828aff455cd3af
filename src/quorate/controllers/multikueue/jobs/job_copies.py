"""Creates, follows and deletes the copies of jobs in worker clusters: the adapter of all kinds of jobs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from quorate.api import codec
from quorate.api.field_path import InvalidTemplate
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Uid, at_epoch, is_true, true_condition
from quorate.api.names.kueue import SLICE_NAME
from quorate.api.names.multikueue import ORIGIN
from quorate.controllers.informers import WORKLOADS_OF
from quorate.controllers.jobframework.construct_workload import prebuilt_name_of
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.controllers.multikueue.dispatch.job_adapter import (
    JobRef,
    LocalJob,
    Member,
    NoKind,
    Presence,
    Synced,
)
from quorate.controllers.multikueue.dispatch.plan import Components
from quorate.controllers.multikueue.jobs import copy_content
from quorate.controllers.multikueue.jobs.local_jobs import LocalJobs
from quorate.controllers.multikueue.jobs.remote_jobs import RemoteJob, RemoteJobs
from quorate.controllers.multikueue.jobs.remote_kinds import RemoteKind, kind_name
from quorate.controllers.multikueue.workers import Worker
from quorate.controllers.multikueue.workload_copy import WORKLOAD_COPIES, WorkloadCopy
from quorate.controllers.pods.constants import COMPONENT_INDEX, OWNER_KIND, OWNER_NAME
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import plural_of
from quorate.kube.errors import AlreadyExists, NotFound
from quorate.kube.informer import Informer
from quorate.kube.patches import merged
from quorate.kube.resources import Json
from quorate.kube.writes import Patch, send
from quorate.queueing.conditions import is_admitted

_SUCCEEDED: Final = "Succeeded"
_ENDS: Final = (_SUCCEEDED, "Failed")  # reasons of Finished


class JobCopies:
    """The jobs of this cluster and their copies, without memory of its own: ``RemoteWrites`` has it.

    Requests raise the errors of the client that sent them: the client of a worker cluster or of this cluster.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        kinds: Mapping[str, RemoteKind],
        remote: RemoteJobs,
        local: LocalJobs,
        workloads: Informer[Workload],
        origin: str,
    ) -> None:
        self._client = client
        self._clock = clock
        self._kinds = dict(kinds)
        self._remote = remote
        self._local = local
        self._workloads = workloads
        self._origin = origin

    def job_of(self, workload: Workload) -> JobRef | NoKind:
        """Return the job of a workload."""
        owner = owner_of(workload)
        if owner is None:
            return NoKind()
        name = kind_name(owner.api_version, owner.kind)
        kind = self._kinds.get(name)
        if kind is None:
            return NoKind(name)
        metadata = workload.metadata
        owners = metadata.owner_references if kind.is_pod else (owner,)
        members = tuple(Member(reference.name, reference.uid) for reference in owners)
        return JobRef(name, Key(metadata.namespace, owner.name), metadata.key, members)

    async def local_job(self, job: JobRef) -> LocalJob:
        """Return what the local job says about its dispatch."""
        kind = await self._kind(job)
        if kind.managed_by is None and kind.names_workload:
            return LocalJob()
        local = await self._local.get(kind, job.key)
        if local is None:
            return LocalJob()
        replicas = None if kind.names_workload else local.spec.get("replicas")
        return LocalJob(copy_content.refusal(kind, local), replicas if isinstance(replicas, int) else 1)

    def components(self, workload: Workload, job: JobRef, workloads: int) -> Components | None:
        """Return the other of the ``workloads`` workloads of a job; None for a kind with one workload."""
        owner = workload.metadata.job_owner
        if self._kinds[job.kind].names_workload or owner is None:
            return None
        siblings = self._workloads.by_index(WORKLOADS_OF, owner.uid)
        others = [other for other in siblings if other.metadata.name != workload.metadata.name]
        return Components(
            are_complete=len(siblings) >= workloads,
            is_primary=_index(workload) <= min(map(_index, others), default=_index(workload)),
            clusters=tuple(sorted({other.status.cluster_name for other in others} - {""})),
        )

    def presence(self, worker: Worker, job: JobRef) -> Presence | None:
        """Return whether a copy of the job exists in a worker cluster; None: that is not known."""
        kind = self._kinds[job.kind]
        if not kind.resource.plural or not self._remote.is_listed(worker, kind):
            return None
        if kind.is_pod:
            copies = self._remote.of_workload(worker, kind, job.workload)
        else:
            copy = self._remote.cached(worker, kind, job.key)
            copies = () if copy is None or not copy.is_copy_of(job.members[0].uid) else (copy,)
        if not copies:
            return "removed" if any(self._was_removed(worker, kind, job)) else "absent"
        return "ending" if all(copy.metadata.deletion_timestamp for copy in copies) else "present"

    def _was_removed(self, worker: Worker, kind: RemoteKind, job: JobRef) -> Iterator[bool]:
        for member in job.members:
            copy = self._remote.removed(worker, kind, Key(job.key.namespace, member.name))
            yield copy is not None and copy.is_copy_of(member.uid)

    async def sync(
        self, worker: Worker, job: JobRef, workload: Workload, copied: tuple[int, ...] | None
    ) -> Synced:
        """Create the copy of the job, or copy its status to the job."""
        kind = await self._kind(job)
        may_have_ended = copied is not None or is_admitted(workload)
        digests = dict(zip(job.members, copied or (), strict=False))
        results = [
            await self._sync(
                worker, kind, member, workload, digests.get(member, 0), may_have_ended=may_have_ended
            )
            for member in job.members
        ]
        problems = (result.problem for result in results)
        return Synced(
            any(result.deferred for result in results),
            next(filter(None, problems), ""),
            tuple(digest for result in results for digest in result.copied),
        )

    async def _sync(
        self,
        worker: Worker,
        kind: RemoteKind,
        job: Member,
        workload: Workload,
        digest: int,
        *,
        may_have_ended: bool,
    ) -> Synced:
        key = Key(workload.metadata.namespace, job.name)
        # The cached job may be older than the end of its workload, of which this is the last sync.
        ended = worker.workloads.get(workload.metadata.key)
        has_finished = _has_finished(ended)
        read = self._remote.read if has_finished else self._remote.get
        copy = await read(worker, kind, key)
        if copy is None and may_have_ended and not has_finished:
            # The caches may show neither the job nor its end yet.
            copy = await self._remote.read(worker, kind, key)
            ended = (
                None if copy is not None else await worker.client.find(WORKLOAD_COPIES, workload.metadata.key)
            )
            has_finished = copy is None and (ended is None or _has_finished(ended))
        if copy is None:
            if await self._copy_end(worker, kind, job, key, None) is not None:
                return Synced(copied=(0,))
            if has_finished:  # it was removed after its end, and must not run again
                await self._write_end(kind, key, ended)
                return Synced(copied=(0,))
            return await self._create(worker, kind, key, job.uid, workload)
        if not copy.is_of(self._origin):
            return self._taken(kind, key)
        if not copy.is_copy_of(job.uid):
            await self._delete(worker, kind, copy)
            return Synced(deferred=True, copied=(0,))
        await self._forward(worker, kind, key, workload)
        if not kind.copies_status:
            return Synced(copied=(0,))
        return await self._copy_status(worker, kind, key, copy, digest)

    async def _write_end(self, kind: RemoteKind, key: Key, ended: WorkloadCopy | None) -> None:
        """Write into a job how it ended, which is known from the copy of its workload only."""
        finished = None if ended is None else true_condition(ended.conditions, "Finished")
        if finished is None or finished.reason not in _ENDS:
            return
        job = await self._local.get(kind, key)
        if job is not None and copy_content.outcome_of(kind, job, job.status) is None:
            end = Outcome(finished.reason == _SUCCEEDED, finished.message)
            status = copy_content.ended_status(kind, job, end, at_epoch(self._clock.now()))
            if status is not None:
                await self._local.write_status(kind, job, status)

    async def end(self, worker: Worker, job: JobRef) -> Outcome | None:
        """Copy the end of the job to the local job, also if its copy was deleted after it; return the end.

        None: it has not ended, or nothing is left that tells how.
        """
        kind = await self._kind(job)
        if not kind.copies_status or (kind.kind is None and not kind.is_pod):
            return None
        ends = []
        for member in job.members:
            key = Key(job.key.namespace, member.name)
            copy = await self._remote.read(worker, kind, key) or self._remote.removed(worker, kind, key)
            end = await self._copy_end(worker, kind, member, key, copy)
            is_deleted = copy is not None and copy.metadata.deletion_timestamp is not None
            if kind.is_pod and is_deleted and end is not None and not end.success:
                return None  # a pod that was deleted to evict it has failed, too
            ends.append(end)
        ended = [end for end in ends if end is not None]
        if len(ended) < len(ends):
            return None
        failed = next((end for end in ended if not end.success), None)
        return failed or ended[0]

    async def _copy_end(
        self, worker: Worker, kind: RemoteKind, member: Member, key: Key, copy: RemoteJob | None
    ) -> Outcome | None:
        """Copy the end of the remote object ``copy`` into the local object ``key``; return it, or None.

        Without ``copy``, the remote object was deleted, and its last version tells how it ended.
        """
        copy = copy or self._remote.removed(worker, kind, key)
        if copy is None or not (copy.is_of(self._origin) and copy.is_copy_of(member.uid)):
            return None
        local = await self._local.get(kind, key)
        status = codec.decode(dict[str, Any], copy.status) if copy.has_run else {}
        end = None if local is None else copy_content.outcome_of(kind, local, status)
        if end is not None:
            await self._copy_status(worker, kind, key, copy, 0)
        return end

    async def _create(
        self, worker: Worker, kind: RemoteKind, key: Key, uid: Uid, workload: Workload
    ) -> Synced:
        job = await self._local.get(kind, key)
        if job is None or job.metadata.deletion_timestamp is not None or (uid and job.metadata.uid != uid):
            return Synced(copied=(0,))
        if kind.is_pod and copy_content.outcome_of(kind, job, job.status) is not None:
            return Synced(copied=(0,))  # an ended pod does not run again
        name, pod_sets = workload.metadata.name, workload.spec.pod_sets
        content = copy_content.job_copy(kind, job, pod_sets, name, self._origin)
        try:
            await worker.client.create(kind.resource, content, key.namespace)
        except AlreadyExists:
            copy = await self._remote.read(worker, kind, key)
            if copy is not None and not copy.is_of(self._origin):
                return self._taken(kind, key)
        return Synced(copied=(0,))

    def _taken(self, kind: RemoteKind, key: Key) -> Synced:
        label = f'"{ORIGIN}"="{self._origin}"'
        about = f"{kind.resource.kind} {key}"
        return Synced(problem=f"remote object is not owned by MultiKueue: expected {label} on {about}")

    async def _copy_status(
        self, worker: Worker, kind: RemoteKind, key: Key, copy: RemoteJob, former: int
    ) -> Synced:
        """Write the status of the copy into the job, unless it was written already."""
        digest = hash((copy.metadata.uid, bytes(copy.status)))
        if former == digest or not copy.has_run:
            return Synced(copied=(digest,))
        job = await self._local.get(kind, key)
        if job is None or (kind.is_pod and job.metadata.deletion_timestamp is not None):
            return Synced(copied=(0,))
        status, deferred = self._local_status(kind, job, copy), False
        if status is None:
            deferred = copy_content.has_started(kind, job)
            now = at_epoch(self._clock.now())
            status = copy_content.suspended_status(job.status, now) if deferred else job.status
        await self._local.write_status(kind, job, status)
        return Synced(deferred, copied=(0 if deferred else digest,))

    def _local_status(self, kind: RemoteKind, job: UnstructuredJob, copy: RemoteJob) -> Json | None:
        """Return the status of ``job`` from the status of its copy.

        Return None if a suspended job cannot have the status of its copy.
        """
        status = codec.decode(dict[str, Any], copy.status)
        if kind.is_pod:
            return copy_content.pod_status(job, status)
        is_suspended = kind.starts_late and job.spec.get("suspend") is True
        if copy_content.outcome_of(kind, job, status) is None:
            if not copy_content.has_started(kind, job) or (is_suspended and copy.spec.suspend is not True):
                return None
            status = copy_content.without_conditions(status, kind.final_conditions)
            if is_suspended:  # the copy stops too
                status = copy_content.suspended_status(status, at_epoch(self._clock.now()))
        if kind.starts_late and not is_suspended:
            status = copy_content.with_valid_times(job.status, status)
        return copy_content.with_growing_counts(kind, job.status, status)

    async def _forward(self, worker: Worker, kind: RemoteKind, key: Key, workload: Workload) -> None:
        """Change the copy with the job; a workload of an earlier, smaller size changes nothing."""
        rule = kind.forwarded
        if rule is None or (rule.elastic and SLICE_NAME not in workload.metadata.annotations):
            return
        job = await self._local.get(kind, key)
        if job is None or (rule.elastic and _size(kind, job) > _pods(workload.spec.pod_sets)):
            return
        with suppress(NotFound):
            copy = await worker.client.get(kind.resource, key)
            body = copy_content.forwarded_patch(rule, job.document, copy.document)
            name = workload.metadata.name
            if rule.elastic and prebuilt_name_of(copy.metadata, by_annotation=True) != name:
                body = merged(body, {"metadata": copy_content.workload_name(name)})
            if body:
                version = copy.metadata.resource_version
                await send(worker.client, [Patch(kind.resource, key, version, body)])

    async def delete(self, worker: Worker, job: JobRef, *, may_exist: bool, waits_for_pods: bool) -> None:
        """Delete the copy of the job, also if that does not exist any more; leave an object of others."""
        kind = await self._kind(job)
        for member in job.members:
            key = Key(job.key.namespace, member.name)
            copy = await self._remote.get(worker, kind, key)
            if copy is None and may_exist:
                copy = await self._remote.read(worker, kind, key)
            if copy is not None and copy.is_of(self._origin) and copy.is_copy_of(member.uid):
                await self._delete(worker, kind, copy, waits_for_pods=waits_for_pods)
        if kind.is_pod:  # copies of pods that the group had before
            for copy in self._remote.of_workload(worker, kind, job.workload):
                await self._delete(worker, kind, copy)

    async def _delete(
        self, worker: Worker, kind: RemoteKind, copy: RemoteJob, *, waits_for_pods: bool = False
    ) -> None:
        """Delete a copy; with ``waits_for_pods``, a copy that has run exists until its pods are gone.

        A copy without a status has never run; Kueue does not wait for pods.
        """
        metadata = copy.metadata
        waits = waits_for_pods and not kind.is_pod and copy.has_run
        with suppress(NotFound):
            await worker.client.delete(
                kind.resource,
                metadata.key,
                uid=metadata.uid,
                propagation="Foreground" if waits else "Background",
            )

    async def lost(self, job: JobRef) -> None:
        """Write into the local job that no pod of it runs: the cluster with its copy is given up.

        Otherwise the job would keep its quota until that cluster is connected again.
        """
        kind = await self._kind(job)
        for member in job.members:
            key = Key(job.key.namespace, member.name)
            local = await self._local.get(kind, key)
            if local is None or kind.no_pods is None or not local.status:
                continue
            if member.uid not in ("", local.metadata.uid):
                continue  # another job has the name by now
            if copy_content.outcome_of(kind, local, local.status) is None:
                await self._local.write_status(kind, local, merged(local.status, kind.no_pods))

    async def _kind(self, job: JobRef) -> RemoteKind:
        """Return the kind of the job; ask the API server for the plural of a kind of another controller."""
        kind = self._kinds[job.kind]
        if not kind.resource.plural:
            plural = await plural_of(self._client, kind.resource.api_version, kind.resource.kind)
            kind = self._kinds[job.kind] = replace(kind, resource=replace(kind.resource, plural=plural))
        return kind


def _has_finished(copy: WorkloadCopy | None) -> bool:
    return copy is not None and is_true(copy.conditions, "Finished")


def owner_of(workload: Workload) -> OwnerReference | None:
    """Return the job of a workload: named by its annotations, its controller, or its first owner."""
    metadata = workload.metadata
    api_version, _, kind = metadata.annotations.get(OWNER_KIND, "").partition(", Kind=")
    name = metadata.annotations.get(OWNER_NAME, "")
    if kind and name:
        uid = _uid_of(metadata, kind, name)
        return OwnerReference(api_version=api_version.removeprefix("/"), kind=kind, name=name, uid=uid)
    return metadata.controller or next(iter(metadata.owner_references), None)


def _uid_of(metadata: ObjectMeta, kind: str, name: str) -> Uid:
    owners = metadata.owner_references
    return next((owner.uid for owner in owners if (owner.kind, owner.name) == (kind, name)), Uid(""))


def _index(workload: Workload) -> int:
    text = workload.metadata.annotations.get(COMPONENT_INDEX, "")
    return int(text) if text.isdecimal() else -1


def _pods(pod_sets: Sequence[PodSet]) -> int:
    return sum(pod_set.count for pod_set in pod_sets)


def _size(kind: RemoteKind, job: UnstructuredJob) -> int:
    """Return how many pods the job asks for; 0 if that cannot be read."""
    assert kind.kind is not None, f"{kind.resource.kind} has no rules"
    typed = codec.convert(kind.kind.resource.type, {"metadata": {"name": job.metadata.name}, **job.document})
    try:
        return _pods(kind.kind.pod_sets(typed))
    except InvalidTemplate:
        return 0
