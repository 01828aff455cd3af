"""A manager and a worker cluster over HTTP, without controllers: tests write what those would."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace as replace_struct

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.kueue import PodSet, Workload, WorkloadSpec
from quorate.api.meta import Key, ObjectMeta, OwnerReference
from quorate.api.names.multikueue import ORIGIN
from quorate.controllers.informers import WORKLOADS_OF
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.controllers.multikueue.dispatch.job_adapter import JobRef, Synced
from quorate.controllers.multikueue.jobs.job_copies import JobCopies
from quorate.controllers.multikueue.jobs.local_jobs import LocalJobs
from quorate.controllers.multikueue.jobs.remote_jobs import RemoteJobs
from quorate.controllers.multikueue.jobs.remote_kinds import RemoteKind, remote_kinds
from quorate.controllers.multikueue.workers import Worker, Workers
from quorate.controllers.multikueue.workload_copy import WORKLOAD_COPIES
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.informer import Informer
from quorate.kube.resources import WORKLOADS, Json, Resource
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.processes.local.apply import install_definitions
from tests.e2e.minimal_definitions import definition
from tests.e2e.world import CountingClient
from tests.local.clusters import api_server

T = TypeVar("T")

NAMESPACE = "default"
KEY = Key(NAMESPACE, "train")
OURS = "manager-1"
WITHIN_S = 20.0


def configured(integrations: Integrations, **fields: Any) -> Configuration:
    return replace_fields(Configuration(), integrations=integrations, **fields)


def replace_fields(configuration: Configuration, **fields: Any) -> Configuration:
    multikueue = replace_struct(configuration.multikueue, origin=OURS)
    return replace_struct(configuration, multikueue=multikueue, **fields)


@dataclass
class Clusters:
    manager: CountingClient
    worker: Worker
    remote: CountingClient
    workers: Workers
    copies: JobCopies
    remote_jobs: RemoteJobs
    local_jobs: LocalJobs  # followed on demand
    changed: list[Key]  # workloads of which a copy has changed
    following: asyncio.Task[None]  # the copies
    kinds: Mapping[str, RemoteKind]  # by their names
    copied: tuple[int, ...] | None = None  # of the last sync

    def job(self, workload: Workload) -> JobRef:
        job = self.copies.job_of(workload)
        assert isinstance(job, JobRef), f"{workload.metadata.key} has no job that can be copied"
        return job

    async def create(
        self, resource: Resource[UnstructuredJob], spec: Json, **metadata: Any
    ) -> UnstructuredJob:
        body = {"metadata": {"name": "train", **metadata}, "spec": spec}
        return await self.manager.create(resource, body, NAMESPACE)

    async def sync(self, workload: Workload) -> Synced:
        synced = await self.copies.sync(self.worker, self.job(workload), workload, self.copied)
        self.copied = synced.copied
        return replace_struct(synced, copied=())

    async def refusal(self, workload: Workload) -> str:
        return (await self.copies.local_job(self.job(workload))).refusal

    async def delete(self, workload: Workload, *, waits_for_pods: bool = False) -> None:
        job = self.job(workload)
        await self.copies.delete(self.worker, job, may_exist=True, waits_for_pods=waits_for_pods)

    async def here(self, resource: Resource[UnstructuredJob], name: str = "train") -> UnstructuredJob:
        return await self.manager.get(resource, Key(NAMESPACE, name))

    async def there(self, resource: Resource[UnstructuredJob], name: str = "train") -> UnstructuredJob | None:
        try:
            return await self.remote.get(resource, Key(NAMESPACE, name))
        except NotFound:
            return None

    async def set_status(
        self, client: Client, resource: Resource[Any], status: Json, name: str = "train"
    ) -> None:
        await client.patch(resource, Key(NAMESPACE, name), {"status": status}, subresource="status")

    async def until_gone(self, workload: Workload) -> None:
        """Return once the informer has seen that the copy of the job is gone."""

        async def seen() -> bool | None:
            return self.copies.presence(self.worker, self.job(workload)) in ("removed", "absent") or None

        await until(seen)

    async def until_run(self, workload: Workload) -> None:
        """Return once the informer has seen that the copy of the job has run."""

        async def seen() -> bool | None:
            copy = self.remote_jobs.cached(self.worker, self.kinds[self.job(workload).kind], KEY)
            return (copy is not None and copy.has_run) or None

        await until(seen)

    async def synced_until(
        self, resource: Resource[UnstructuredJob], workload: Workload, what: Callable[[UnstructuredJob], bool]
    ) -> UnstructuredJob:
        """Sync until the local job is as wanted: the informer follows the copy some time later."""

        async def found() -> UnstructuredJob | None:
            await self.sync(workload)
            job = await self.here(resource)
            return job if what(job) else None

        return await until(found)


async def until(found: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(WITHIN_S):
        while True:
            value = await found()
            if value is not None:
                return value
            await asyncio.sleep(0.02)


def workload_of(
    resource: Resource[Any],
    owner: ObjectMeta,
    pod_sets: Sequence[PodSet] = (),
    name: str = "job-train-1",
    **metadata: Any,
) -> Workload:
    reference = OwnerReference(
        api_version=resource.api_version, kind=resource.kind, name=owner.name, uid=owner.uid, controller=True
    )
    about = ObjectMeta(name=name, namespace=NAMESPACE, owner_references=(reference,), **metadata)
    return Workload(metadata=about, spec=WorkloadSpec(pod_sets=tuple(pod_sets)))


def job_uids(workload: Workload) -> tuple[str, ...]:
    owner = workload.metadata.job_owner
    return () if owner is None else (owner.uid,)


@asynccontextmanager
async def two_clusters(
    configuration: Configuration,
    kinds: Sequence[Resource[Any]] = (),
    *,
    served_by_worker: bool = True,
    follows_jobs: bool = False,
) -> AsyncIterator[Clusters]:
    async with (
        api_server() as here,
        api_server() as there,
        CountingClient(RestConfig(here.url, credentials=Token(here.token)), random.Random(1)) as manager,
        CountingClient(RestConfig(there.url, credentials=Token(there.token)), random.Random(2)) as remote,
        asyncio.TaskGroup() as tasks,
    ):
        definitions = [definition(kind) for kind in kinds]
        await install_definitions(manager, definitions)
        if served_by_worker:
            await install_definitions(remote, definitions)
        workers, changed = Workers(), list[Key]()
        workers.subscribe_workloads(changed.append)
        clock, origin = WallClock(), configuration.multikueue.origin
        remote_jobs = RemoteJobs(workers, clock, origin, short_names=False)
        local = Informer(manager, WORKLOADS)
        local.add_index(WORKLOADS_OF, job_uids)
        local_jobs = LocalJobs(manager, clock, workers, local)
        rows = remote_kinds(configuration)
        copies = JobCopies(manager, clock, rows, remote_jobs, local_jobs, local, origin)
        worker = Worker("a", remote, Informer(remote, WORKLOAD_COPIES, label_selector=f"{ORIGIN}={OURS}"))
        workers.connected(worker)
        running = [tasks.create_task(remote_jobs.run())]
        if follows_jobs:
            running += [tasks.create_task(local_jobs.follow(rows.values())), tasks.create_task(local.run())]
        await asyncio.sleep(0)
        try:
            yield Clusters(
                manager, worker, remote, workers, copies, remote_jobs, local_jobs, changed, running[0], rows
            )
        finally:
            for part in running:
                part.cancel()
