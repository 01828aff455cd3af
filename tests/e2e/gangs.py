"""A test cluster with a running gang scheduler, and builders for its objects.

All requests use HTTP.  The pods of a group are created by the test or by controllers that it starts.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from quorate.api.core.pod import Pod
from quorate.api.meta import Key, find_condition
from quorate.api.scheduler_configuration import (
    SchedulerConfiguration,
    default_scheduler_configuration,
    load_scheduler_configuration,
)
from quorate.api.volcano import PodGroup, PodGroupCondition
from quorate.install.crds import gang_definitions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import HYPER_NODES, NODES, PLACEABLE_PODS, POD_GROUPS, QUEUES
from quorate.local.nodes import NodePool
from quorate.local.nodes.fleet import ORIGIN, register
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import run_scheduler
from quorate.scheduler.scheduler import Options
from tests.e2e import shared_clusters
from tests.e2e.world import (
    NAMESPACE,
    WITHIN_S,
    FaultyClient,
    built_in_cluster,
    poll_until_true,
    running_nodes,
    world_has_namespace,
)

T = TypeVar("T")
NAME = "quorate"


def settings(text: str = "") -> SchedulerConfiguration:
    return load_scheduler_configuration(text).configuration if text else default_scheduler_configuration()


class GangWorld:
    def __init__(self, client: Client, scheduler_client: FaultyClient) -> None:
        self.client = client
        self.scheduler_client = scheduler_client
        self.configured = DynamicConfiguration(default_scheduler_configuration())
        self.seen = SchedulerStatus()
        self._scheduler: asyncio.Task[None] | None = None

    async def start_scheduler(
        self, configuration: SchedulerConfiguration, options: Options | None = None
    ) -> None:
        self.seen = SchedulerStatus()
        self.configured = DynamicConfiguration(configuration)
        self._scheduler = asyncio.create_task(
            run_scheduler(
                self.scheduler_client,
                WallClock(),
                options or Options(),
                self.configured,
                self.seen,
                None,
            )
        )
        started = asyncio.create_task(self.seen.ready.wait())
        await asyncio.wait([self._scheduler, started], timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        self._must_run()
        assert self.seen.ready.is_set(), "the scheduler is not ready"

    async def stop_scheduler(self) -> None:
        if self._scheduler is not None:
            self._scheduler.cancel()
            (outcome,) = await asyncio.gather(self._scheduler, return_exceptions=True)
            self._scheduler = None
            if not isinstance(outcome, asyncio.CancelledError):
                raise outcome or AssertionError("the scheduler ended by itself")

    def _must_run(self) -> None:
        if self._scheduler is not None and self._scheduler.done():
            self._scheduler.result()

    async def until(
        self, what: str, find: Callable[[], Awaitable[T | bool | None]], within_s: float = WITHIN_S
    ) -> T:
        """Poll ``find`` and return its first true result."""
        return await poll_until_true(what, find, within_s, self._must_run, self.describe)

    async def describe(self) -> str:
        lines = []
        for group in (await self.client.list(POD_GROUPS)).items:
            lines.append(f"group {group.metadata.key} {group.status.phase or '-'}")
            lines += [
                f"  {each.type}={each.status} {each.reason}: {each.message}"
                for each in group.status.conditions
            ]
        for pod in (await self.client.list(PLACEABLE_PODS)).items:
            conditions = [f"{each.type}={each.status} {each.reason}" for each in pod.status.conditions]
            lines.append(f"pod {pod.metadata.key} {pod.status.phase} on {pod.node_name or '-'} {conditions}")
        return "\n".join(lines)

    # Builders of objects.

    async def node(self, name: str, cpu: str) -> None:
        """Create a node without a kubelet; a pod bound to it never starts."""
        await register(self.client, WallClock(), NodePool(1, cpu=cpu), name, "10.0.1.1")
        await self.client.patch(NODES, Key("", name), {"metadata": {"annotations": {ORIGIN: None}}})

    async def hyper_node(self, name: str, tier: int, pattern: str) -> None:
        """Create a HyperNode of the nodes with names that match."""
        member = {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}
        spec = {"tier": tier, "members": [member]}
        await self.client.create(HYPER_NODES, {"metadata": {"name": name}, "spec": spec})

    async def queue(self, name: str, **spec: Any) -> None:
        await self.client.create(QUEUES, {"metadata": {"name": name}, "spec": spec})

    async def group(
        self,
        name: str,
        members: int,
        minimum: Mapping[str, str] | None = None,
        namespace: str = NAMESPACE,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create a pod group with minMember ``members`` and minResources ``minimum``."""
        fields = {"minMember": members, **({} if minimum is None else {"minResources": minimum}), **spec}
        metadata = {"name": name, "annotations": dict(annotations or {})}
        await self.client.create(POD_GROUPS, {"metadata": metadata, "spec": fields}, namespace)

    async def pods(
        self,
        group: str,
        count: int,
        cpu: str = "1",
        first: int = 0,
        namespace: str = NAMESPACE,
        scheduler: str = NAME,
        runs: str = "",
        devices: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create ``count`` pods of ``group``, which run for ``runs``, by default one hour.

        ``devices``: further requests of each pod, which are its limits too.
        """
        simulated = {"simulate.quorate.dev/start-delay": "20ms"}
        simulated["simulate.quorate.dev/duration"] = runs or "1h"
        resources = {"requests": {"cpu": cpu, **(devices or {})}, "limits": devices or {}}
        container = {"name": "main", "image": "busybox", "resources": resources}
        for index in range(first, first + count):
            body = {
                "metadata": {
                    "name": f"{group}-{index}",
                    "annotations": {"scheduling.k8s.io/group-name": group, **simulated},
                    "labels": dict(labels or {}),
                },
                "spec": {
                    "schedulerName": scheduler,
                    "restartPolicy": "Never",
                    "containers": [container],
                    **spec,
                },
            }
            await self.client.create(PLACEABLE_PODS, body, namespace)

    async def get_group(self, name: str, namespace: str = NAMESPACE) -> PodGroup:
        return await self.client.get(POD_GROUPS, Key(namespace, name))

    async def until_phase(self, name: str, phase: str, within_s: float = WITHIN_S) -> PodGroup:
        async def find() -> PodGroup | None:
            group = await self.get_group(name)
            return group if group.status.phase == phase else None

        return await self.until(f"group {name} is {phase}", find, within_s)

    async def until_waits(self, name: str, reason: str, text: str = "") -> PodGroupCondition:
        """Return the Unschedulable condition of the group once its reason is ``reason``."""

        async def find() -> PodGroupCondition | None:
            condition = find_condition((await self.get_group(name)).status.conditions, "Unschedulable")
            fits = (
                condition is not None
                and condition.status == "True"
                and condition.reason == reason
                and text in condition.message
            )
            return condition if fits else None

        return await self.until(f"group {name} waits: {reason} {text}", find)

    async def members(self, group: str, namespace: str = NAMESPACE) -> list[Pod]:
        return [
            pod
            for pod in (await self.client.list(PLACEABLE_PODS, namespace)).items
            if pod.metadata.annotations.get("scheduling.k8s.io/group-name") == group
        ]

    async def bound(self) -> Counter[str]:
        """Return the number of pods with a node by group."""
        pods = (await self.client.list(PLACEABLE_PODS)).items
        return Counter(
            pod.metadata.annotations.get("scheduling.k8s.io/group-name", "") for pod in pods if pod.node_name
        )

    async def until_bound(self, **groups: int) -> None:
        async def find() -> bool:
            bound = await self.bound()
            return all(bound[group] == count for group, count in groups.items())

        await self.until(f"bound: {groups}", find)

    async def until_queue_allocated(self, queue: str, **amounts: str) -> None:
        """Return once ``status.allocated`` is exactly ``amounts``."""

        async def find() -> bool:
            stored = (await self.client.get(QUEUES, Key("", queue))).status.allocated
            return {resource: str(amount) for resource, amount in stored.items()} == amounts

        await self.until(f"queue {queue} has {amounts} allocated", find)

    async def delete_members(self, group: str, namespace: str = NAMESPACE) -> None:
        for pod in await self.members(group, namespace):
            await self.client.delete(PLACEABLE_PODS, pod.metadata.key, grace_period_s=0)


_definitions = cache(gang_definitions)


@asynccontextmanager
async def running_gang_cluster(fleet: NodePool) -> AsyncIterator[GangWorld]:
    """Run a cluster with the gang CRDs, nodes and a namespace, without a gang scheduler."""
    rng = random.Random(1)
    async with (
        built_in_cluster(_definitions(), has_queues=False) as cluster,
        Client(replace(cluster.config, connect=None), rng) as client,
        FaultyClient(cluster.config, rng, streams_lists=cluster.store is not None) as scheduler_client,
        running_nodes(cluster.config, fleet),
    ):
        world = GangWorld(client, scheduler_client)
        try:
            await world.until("the default namespace", world_has_namespace(client))
            yield world
            await cluster.witnessed.check()
        finally:
            await world.stop_scheduler()


def run_gang_story(
    story: Callable[[GangWorld], Awaitable[None]],
    fleet: NodePool,
    configuration: SchedulerConfiguration | None = None,
) -> None:
    """Run ``story`` in a cluster with a running gang scheduler."""

    async def run() -> None:
        async with running_gang_cluster(fleet) as world:
            await world.start_scheduler(configuration or default_scheduler_configuration())
            await story(world)

    shared_clusters.run(run())
