"""The jobs of this cluster that have copies: a cache, and the changes that their copies follow."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from quorate.api import codec
from quorate.api.batch import EMPTY_OBJECT
from quorate.api.interning import identity_of
from quorate.api.kueue import Workload
from quorate.api.meta import Key, at_epoch
from quorate.api.names.multikueue import CONTROLLER
from quorate.controllers.informers import WORKLOADS_OF
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.controllers.multikueue.jobs.copy_content import outcome_of, suspended_status
from quorate.controllers.multikueue.jobs.remote_kinds import RemoteKind
from quorate.controllers.multikueue.workers import Workers
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.discovery import wait_until_served
from quorate.kube.informer import Change, Informer
from quorate.kube.patches import document_merge_patch
from quorate.kube.resources import Json, Resource
from quorate.kube.writes import Patch, send

_NAMED = f'"{CONTROLLER}"'.encode()


class FollowedJob(UnstructuredJob):
    """A job whole if its ``managedBy`` gives it to worker clusters; of any other job the identity only."""

    def __post_init__(self) -> None:
        if _NAMED in bytes(self.encoded_spec):
            super().__post_init__()
            return
        msgspec.structs.force_setattr(self, "metadata", identity_of(self.metadata))
        msgspec.structs.force_setattr(self, "encoded_spec", EMPTY_OBJECT)
        msgspec.structs.force_setattr(self, "encoded_status", EMPTY_OBJECT)


class LocalJobs:
    """Follows the kinds of which changes are forwarded; jobs of other kinds are read when they are needed."""

    def __init__(self, client: Client, clock: Clock, workers: Workers, workloads: Informer[Workload]) -> None:
        self._client, self._clock, self._workers, self._workloads = client, clock, workers, workloads
        self._informers: dict[str, Informer[FollowedJob]] = {}  # by the name of the kind

    async def follow(self, kinds: Iterable[RemoteKind]) -> None:
        """Follow jobs until cancelled, and report the workloads of each job of which the spec changes."""
        async with asyncio.TaskGroup() as tasks:
            for kind in kinds:
                if kind.forwarded is not None:
                    tasks.create_task(self._follow(kind), name=f"follow {kind.resource.plural}")

    async def _follow(self, kind: RemoteKind) -> None:
        await wait_until_served(kind.resource, self._client, self._clock)
        original = kind.resource
        suspended = Reconciler(f"suspended_{original.plural}", partial(self._mark, kind), self._clock)
        resource = Resource(
            original.group, original.version, original.plural, original.kind, True, FollowedJob
        )
        jobs = self._informers[kind.name] = Informer(self._client, resource)
        delivered = self._client.own_writes.keep(kind.resource, jobs.get)

        def on_change(change: Change[FollowedJob]) -> None:
            delivered(change.new, change.key)
            old, new = change.old, change.new
            if new is not None and kind.starts_late and new.encoded_spec is not EMPTY_OBJECT:
                suspended.enqueue(change.key)
            if new is None or (old is not None and old.metadata.generation == new.metadata.generation):
                return
            for workload in self._workloads.by_index(WORKLOADS_OF, new.metadata.uid):
                self._workers.workload_changed(workload.metadata.key)

        jobs.subscribe(on_change)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(suspended.run(), name=suspended.name)
            tasks.create_task(jobs.run(), name=f"watch {original.plural}")

    async def _mark(self, kind: RemoteKind, key: Key) -> None:
        """Write into a Job that waits here that it is suspended: its own controller leaves it alone."""
        job = self.cached(kind, key)
        if job is None or job.spec.get("suspend") is not True:
            return
        if outcome_of(kind, job, job.status) is None:
            now = at_epoch(self._clock.now())
            await self.write_status(kind, job, suspended_status(job.status, now))

    def cached(self, kind: RemoteKind, key: Key) -> UnstructuredJob | None:
        """Return the job as far as we know it; None: it is not cached whole."""
        informer = self._informers.get(kind.name)
        job = None if informer is None else informer.get(key)
        if job is None or job.encoded_spec is EMPTY_OBJECT:
            return None
        followed: UnstructuredJob = job
        return self._client.own_writes.newest(kind.resource, followed)

    async def get(self, kind: RemoteKind, key: Key) -> UnstructuredJob | None:
        """Return the job, from the API server if it is not cached; None: it does not exist."""
        job = self.cached(kind, key)
        return await self.read(kind, key) if job is None else job

    async def read(self, kind: RemoteKind, key: Key) -> UnstructuredJob | None:
        """Return the job from the API server; None: it does not exist."""
        return await self._client.find(kind.resource, key)

    async def write_status(self, kind: RemoteKind, job: UnstructuredJob, status: Json) -> None:
        """Change the status of the job to ``status``, unless it is that already."""
        changes = document_merge_patch(job.status, codec.decode(dict[str, Any], codec.encode(status)))
        if changes:
            metadata = job.metadata
            version, body = metadata.resource_version, {"status": changes}
            await send(self._client, [Patch(kind.resource, metadata.key, version, body, "status")])
