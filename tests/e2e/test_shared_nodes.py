"""Workloads with places and gangs on the same nodes: neither gets the room that the other has."""

import asyncio

import msgspec
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.configuration.queueing import NodeFit
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import default_scheduler_configuration
from quorate.kube.resources import JOBS, PODS
from quorate.local.nodes import NodePool
from tests.e2e import shared_clusters
from tests.e2e.gangs import GangWorld
from tests.e2e.volcano import DEFINITIONS
from tests.e2e.world import NAMESPACE, World, running_cluster

pytestmark = pytest.mark.slow

REQUIRING = msgspec.structs.replace(default_configuration(), node_fit=NodeFit(mode="Require"))
HOLD = {"name": "example.dev/hold"}


async def pods_of(world: World, job: str) -> list[str]:
    pods = (await world.client.list(PODS, NAMESPACE, f"job-name={job}")).items
    return [pod.metadata.name for pod in pods if pod.spec.node_selector]


async def a_gang_waits_for_room_that_is_held(world: World, gangs: GangWorld) -> None:
    await world.job("held", cpu="6", runs="100ms", suspend=True, schedulingGates=[HOLD])
    await world.until_admitted("held")
    await gangs.group("a", 1)
    await gangs.pods("a", 1, cpu="6", runs="100ms")
    await gangs.until_waits("a", "NotEnoughResources")
    (pod,) = await world.until("the pod has its node", lambda: pods_of(world, "held"))
    await world.client.patch(PODS, Key(NAMESPACE, pod), {"spec": {"schedulingGates": None}})
    await world.until_finished("held")
    await gangs.until_bound(a=1)


async def a_workload_waits_for_room_that_is_nominated(world: World) -> None:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "6"}}}
    spec = {"schedulerName": "none", "containers": [container]}
    await world.client.create(PODS, {"metadata": {"name": "next"}, "spec": spec}, NAMESPACE)
    nominated = {"status": {"nominatedNodeName": "node-1"}}
    await world.client.patch(PODS, Key(NAMESPACE, "next"), nominated, subresource="status")
    await world.job("late", cpu="6", runs="100ms", suspend=True)
    message = (
        "couldn't assign flavors to pod set main: 1 of 1 pods fits no node: "
        "cpu: need 6, have 2 on the best of 1 node"
    )
    await world.until_condition("late", "QuotaReserved", "False", "WaitingForQuota", message)
    await world.client.delete(PODS, Key(NAMESPACE, "next"))
    await world.until_finished("late")


async def a_workload_waits_for_what_a_resized_pod_has_not_released(world: World) -> None:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    forever = {"annotations": {"simulate.quorate.dev/duration": "forever"}}
    pod = {
        "metadata": {"name": "shrunk", **forever},
        "spec": {"nodeName": "node-1", "containers": [container]},
    }
    await world.client.create(PODS, pod, NAMESPACE)

    async def is_running() -> bool:
        return (await world.client.get(PODS, Key(NAMESPACE, "shrunk"))).status.phase == "Running"

    async def has(cpu: str) -> None:
        # Not as ``resources``, the actual amounts: the simulated kubelet carries out that resize at once.
        amounts = {"allocatedResources": {"cpu": cpu}, "resources": container["resources"]}
        status = {"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0, **amounts}
        patch = {"status": {"containerStatuses": [status]}}
        await world.client.patch(PODS, Key(NAMESPACE, "shrunk"), patch, subresource="status")

    await world.until("the pod runs", is_running)
    await has("6")
    await world.job("after", cpu="6", runs="100ms", suspend=True)
    message = (
        "couldn't assign flavors to pod set main: 1 of 1 pods fits no node: "
        "cpu: need 6, have 2 on the best of 1 node"
    )
    await world.until_condition("after", "QuotaReserved", "False", "WaitingForQuota", message)
    await has("1")
    await world.until_finished("after")
    await world.client.delete(PODS, Key(NAMESPACE, "shrunk"))


async def all_have_a_turn(world: World, gangs: GangWorld) -> None:
    """Start workloads and gangs at once, each of which needs the node for itself."""
    names = range(4)
    for name in names:
        await gangs.group(f"g{name}", 1)
    await asyncio.gather(
        *(world.job(f"j{name}", cpu="6", runs="50ms", suspend=True) for name in names),
        *(gangs.pods(f"g{name}", 1, cpu="6", runs="50ms") for name in names),
    )
    for name in names:
        await world.until_finished(f"j{name}")
        await world.client.delete(JOBS, Key(NAMESPACE, f"j{name}"))

    async def have_run() -> bool:
        members = [await gangs.members(f"g{name}") for name in names]
        return all(pod.status.phase == "Succeeded" for pods in members for pod in pods)

    await world.until("all gangs have run", have_run)


def test_gangs_and_workloads_share_nodes() -> None:
    async def run() -> None:
        async with running_cluster(NodePool(1, cpu="8"), definitions=DEFINITIONS) as world:
            await world.start_queueing(REQUIRING)
            gangs = GangWorld(world.client, world.queueing_client)
            try:
                await gangs.start_scheduler(default_scheduler_configuration())
                await world.queues(cpu="99")
                await a_gang_waits_for_room_that_is_held(world, gangs)
                await a_workload_waits_for_room_that_is_nominated(world)
                await a_workload_waits_for_what_a_resized_pod_has_not_released(world)
                await all_have_a_turn(world, gangs)
            finally:
                await gangs.stop_scheduler()

    shared_clusters.run(run())
