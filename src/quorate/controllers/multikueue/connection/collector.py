"""Garbage in worker clusters: copies of workloads that no longer exist here, and their jobs.

Dispatch removes copies as soon as they are not needed.  What remains is from a worker cluster that was not
connected then, or from a manager that was lost.
"""

import asyncio

from quorate.api.meta import Key, OwnerReference, Uid
from quorate.api.names.multikueue import ORIGIN, ORIGIN_UID
from quorate.controllers.context import ControllerContext
from quorate.controllers.finalizers import remove_finalizer
from quorate.controllers.informers import WORKLOADS_OF
from quorate.controllers.multikueue.workers import Worker, Workers
from quorate.kube.discovery import plural_of
from quorate.kube.errors import Conflict, NotFound, RequestFailed, Unreadable
from quorate.kube.log import logger
from quorate.kube.resources import WORKLOADS, Resource
from quorate.kube.rest.decoding import PartialObjectMetadata
from quorate.kube.writes import Delete, send


class Collector:
    """Removes garbage every ``gcInterval``; a worker cluster that is slow delays no other."""

    def __init__(self, context: ControllerContext, workers: Workers) -> None:
        self._context, self._workers = context, workers
        self._origin = context.configuration.multikueue.origin
        self._busy: set[str] = set()  # worker clusters with a collection in progress
        self._log = logger(__name__)

    async def run(self) -> None:
        """Run until cancelled; return at once if the interval is 0."""
        interval_s = self._context.configuration.multikueue.gc_interval_s
        steady = self._context.clock.steady
        if interval_s <= 0:
            return
        async with asyncio.TaskGroup() as tasks:
            while True:
                await steady.sleep_until(steady.now() + interval_s)
                for worker in self._workers:
                    if worker.name not in self._busy:
                        self._busy.add(worker.name)
                        tasks.create_task(self._collect(worker), name=f"garbage of {worker.name}")

    async def _collect(self, worker: Worker) -> None:
        """Delete copies of which the local workload is gone, with their jobs; a failure ends this round."""
        try:
            for copy in worker.workloads:
                if not self._is_alive(copy.metadata.key) and await self._is_deleted(copy.metadata.key):
                    await self._remove(worker, copy.metadata.key)
        except RequestFailed as error:
            self._log.warning("garbage not collected", cluster=worker.name, problem=str(error))
        except Exception as error:  # what a worker cluster sends must not end the other controllers
            self._log.fault("garbage not collected", error, cluster=worker.name)
        finally:
            self._busy.discard(worker.name)

    def _is_alive(self, key: Key) -> bool:
        workload = self._context.informers.workloads.get(key)
        return workload is not None and workload.metadata.deletion_timestamp is None

    async def _is_deleted(self, key: Key) -> bool:
        """Return what the API server says: the cache has no workload that cannot be read."""
        try:
            workload = await self._context.client.get(WORKLOADS, key)
        except NotFound:
            return True
        except Unreadable:
            return False
        return workload.metadata.deletion_timestamp is not None

    async def _remove(self, worker: Worker, key: Key) -> None:
        try:
            metadata = (await worker.client.get(WORKLOADS, key)).metadata
        except NotFound:
            return
        if metadata.labels.get(ORIGIN) != self._origin:
            return
        for owner in metadata.owner_references:
            await self._remove_job(worker, metadata.namespace, owner)
        delete = Delete(WORKLOADS, key, metadata.uid)
        try:
            await send(worker.client, (*remove_finalizer(WORKLOADS, metadata), delete))
        except (NotFound, Conflict):
            return  # removed meanwhile, or changed: the next round sees it
        self._log.info("remote workload without a local one removed", cluster=worker.name, key=key)

    async def _remove_job(self, worker: Worker, namespace: str, owner: OwnerReference) -> None:
        """Delete the remote job that owns a copy, unless another workload of its local job is alive."""
        plural = await plural_of(worker.client, owner.api_version, owner.kind)
        group, _, version = owner.api_version.rpartition("/")
        jobs = Resource(group, version, plural, owner.kind, True, PartialObjectMetadata)
        key = Key(namespace, owner.name)
        try:
            metadata = (await worker.client.get(jobs, key)).metadata if plural else None
        except NotFound:
            return
        if metadata is None or metadata.uid != owner.uid or metadata.labels.get(ORIGIN) != self._origin:
            return
        local_uid = Uid(metadata.annotations.get(ORIGIN_UID, ""))
        others = self._context.informers.workloads.by_index(WORKLOADS_OF, local_uid)
        if any(self._is_alive(workload.metadata.key) for workload in others):
            return  # such as of another size of an elastic job
        await send(worker.client, (Delete(jobs, key, owner.uid),))
        self._log.info("remote job without a local workload removed", cluster=worker.name, job=key)
