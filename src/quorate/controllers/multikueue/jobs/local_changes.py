"""Changes of local jobs that their copies follow, although their workloads stay as they are."""

import asyncio
from collections.abc import Iterable

import msgspec

from quorate.api.interning import identity_of
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, Struct
from quorate.controllers.informers import WORKLOADS_OF
from quorate.controllers.multikueue.jobs.remote_kinds import RemoteKind
from quorate.controllers.multikueue.workers import Workers
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import wait_until_served
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import Resource


class LocalJob(Struct):
    """The key, the uid and the generation of a job: all jobs of a cluster are followed."""

    metadata: ObjectMeta

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "metadata", identity_of(self.metadata))


async def follow_local_jobs(
    client: Client, clock: Clock, kinds: Iterable[RemoteKind], workers: Workers, workloads: Informer[Workload]
) -> None:
    """Report the workloads of changed jobs until cancelled, of each kind of which changes are forwarded."""

    async def follow(kind: RemoteKind) -> None:
        await wait_until_served(kind.resource, client, clock)
        found = kind.resource
        local = Resource(found.group, found.version, found.plural, found.kind, True, LocalJob)
        jobs = Informer(client, local)
        jobs.subscribe(on_change)
        await jobs.run()

    def on_change(change: Change[LocalJob]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.metadata.generation == new.metadata.generation:
            return
        for workload in workloads.by_index(WORKLOADS_OF, new.metadata.uid):
            workers.workload_changed(workload.metadata.key)

    async with asyncio.TaskGroup() as tasks:
        for kind in kinds:
            if kind.forwarded is not None:
                tasks.create_task(follow(kind), name=f"follow {kind.resource.plural}")
