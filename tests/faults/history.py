"""All stored states, recorded by watches without the proxy.

Resource versions of all kinds come from one counter of the store (etcd or the local store), so sorting
by version gives the order of changes across kinds.
"""

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from quorate.api import codec
from quorate.api.batch import Job
from quorate.api.core import Pod
from quorate.api.kueue import Workload
from quorate.api.kueue.multikueue import MultiKueueCluster
from quorate.api.meta import find_condition
from quorate.api.volcano import PodGroup
from quorate.kube.client import Client
from quorate.kube.errors import Gone
from quorate.kube.resources import JOBS, PODS, WORKLOADS, Resource, metadata_of
from quorate.kube.rest.decoding import Bookmark, WatchEvent

WITHIN_S: Final = 30.0
Recorded = Workload | Job | Pod | PodGroup | MultiKueueCluster
KINDS: Final[tuple[Resource[Any], ...]] = (WORKLOADS, JOBS, PODS)


@dataclass(frozen=True, slots=True)
class Step:
    """One object as stored at ``version``; if deleted, its last state."""

    version: int
    object: Recorded
    deleted: bool = False
    at: float = 0.0  # when the event arrived, seconds on the clock of the event loop


@dataclass
class History:
    kinds: tuple[Resource[Any], ...] = KINDS
    # In order of arrival, which is the order of versions within a kind.
    steps: list[Step] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)  # the version of the last step by kind

    def in_order(self) -> Iterator[Step]:
        return iter(sorted(self.steps, key=lambda step: step.version))

    def evictions_of(self, job: str) -> int:
        """Return how often the workloads of a job began to be evicted."""
        evicted: set[tuple[str, str]] = set()
        for step in self.steps:
            match step.object:
                case Workload(metadata=metadata, status=status) if metadata.controller is not None:
                    condition = find_condition(status.conditions, "Evicted")
                    if (
                        metadata.controller.name == job
                        and condition is not None
                        and condition.status == "True"
                    ):
                        evicted.add((metadata.uid, str(condition.last_transition_time)))
        return len(evicted)

    def write(self, file: Path) -> None:
        """Write the stored states as JSON lines."""
        with file.open("wb") as output:
            for step in self.in_order():
                head = {"version": step.version, "at": step.at, "deleted": step.deleted}
                kind = type(step.object).__name__
                output.write(codec.encode({**head, "kind": kind, "object": step.object}) + b"\n")

    async def _follow(self, client: Client, resource: Resource[Any], version: str) -> None:
        while True:
            try:
                async for event in client.watch(resource, version):
                    version = self._record(resource, event)
            except Gone:  # also for a version that was listed before the server began to cache the kind
                if resource.plural in self.seen:
                    raise
                version = await _version_of_empty_list(client, resource)

    def _record(self, resource: Resource[Any], event: object) -> str:
        """Record an event; return the version from which to watch on."""
        if isinstance(event, Bookmark):
            return event.resource_version
        assert isinstance(event, WatchEvent), f"{event} in a watch of {resource.plural}"
        version = metadata_of(event.object).resource_version
        at = asyncio.get_running_loop().time()
        self.steps.append(Step(int(version), event.object, event.type == "DELETED", at))
        self.seen[resource.plural] = int(version)
        return version

    async def complete(self, client: Client) -> None:
        """Return once everything stored by now has been recorded."""
        for resource in self.kinds:
            items = (await client.list(resource)).items
            newest = max((int(metadata_of(item).resource_version) for item in items), default=0)
            async with asyncio.timeout(WITHIN_S):
                while self.seen.get(resource.plural, 0) < newest:  # noqa: ASYNC110  a rare wait, and short
                    await asyncio.sleep(0.01)


@asynccontextmanager
async def recorded(client: Client, kinds: tuple[Resource[Any], ...] = KINDS) -> Any:
    """Record a history for the duration of the block, which ends if the recording fails.

    The store must be empty before.
    """
    history = History(kinds)
    async with asyncio.TaskGroup() as tasks:
        following = []
        for resource in kinds:
            version = await _version_of_empty_list(client, resource)
            following.append(tasks.create_task(history._follow(client, resource, version)))
        yield history
        for each in following:
            each.cancel()


async def _version_of_empty_list(client: Client, resource: Resource[Any]) -> str:
    listing = await client.list(resource)
    assert not listing.items, f"there are {resource.plural} already"
    return listing.resource_version
