"""Pods that ended for good: what they used is free, and nothing waits for them."""

from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.configuration.queueing import NodeFit
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, PODS
from quorate.local.nodes import Fleet
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

FOREVER = {"simulate.quorate.dev/duration": "forever", "simulate.quorate.dev/start-delay": "50ms"}


async def create_job(world: World, name: str, cpu: str = "1", **fields: Any) -> None:
    """Create a Job of which no pod ends by itself; ``fields`` of its spec, and ``annotations``."""
    metadata = {
        "name": name,
        "labels": {"kueue.x-k8s.io/queue-name": "queue"},
        "annotations": fields.pop("annotations", {}),
    }
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": FOREVER},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"suspend": True, "template": template, **fields}
    await world.client.create(JOBS, {"metadata": metadata, "spec": spec}, NAMESPACE)


async def running(world: World, job: str) -> list[str]:
    """Return the names of the running pods of a Job."""
    pods = (await world.client.list(PODS, NAMESPACE, f"job-name={job}")).items
    return sorted(pod.metadata.name for pod in pods if pod.status.phase == "Running")


async def until_running(world: World, job: str, count: int) -> list[str]:
    async def find() -> list[str]:
        names = await running(world, job)
        return names if len(names) == count else []

    return await world.until(f"{count} pods of {job} run", find)


async def end(world: World, *names: str, phase: str = "Succeeded") -> None:
    """End pods by writing their status, as a kubelet does."""
    for name in names:
        body = {"status": {"phase": phase}}
        await world.client.patch(PODS, Key(NAMESPACE, name), body, subresource="status")


async def used_cpu(world: World, queue: str = "research") -> str:
    status = (await world.client.get(CLUSTER_QUEUES, Key("", queue))).status
    return str(status.flavors_reservation[0].resources[0].total) if status.flavors_reservation else "0"


async def until_used(world: World, cpu: str) -> None:
    async def is_used() -> bool:
        return await used_cpu(world) == cpu

    await world.until(f"{cpu} cpus are used", is_used)


async def until_reclaimable(world: World, job: str, count: int) -> Workload:
    async def find() -> Workload | None:
        workload = await world.workload(job)
        counts: Collection[int] = (
            [] if workload is None else [each.count for each in workload.status.reclaimable_pods]
        )
        return workload if sum(counts) == count else None

    return await world.until(f"{count} pods of {job} are reclaimable", find)


def test_the_room_of_ended_pods_on_a_node_is_free() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="100")
        await create_job(world, "w", parallelism=4, completions=4)
        pods = await until_running(world, "w", 4)
        await create_job(world, "v", cpu="2")
        await world.until_condition("v", "QuotaReserved", "False", "Pending")
        await end(world, *pods[:3])
        await until_running(world, "v", 1)
        assert await running(world, "w") == pods[3:]

    requiring = msgspec.structs.replace(default_configuration(), node_fit=NodeFit(mode="Require"))
    run_story(story, requiring, Fleet(1, cpu="4"))
