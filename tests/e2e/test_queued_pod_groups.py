"""Pod groups that name a local queue, with controllers and a gang scheduler: quota first, then places."""

import pytest

from quorate.api.configuration import default_configuration
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import default_scheduler_configuration
from quorate.kube.resources import LOCAL_QUEUES, POD_GROUPS
from quorate.local.nodes import NodePool
from tests.e2e import shared_clusters
from tests.e2e.gangs import GangWorld
from tests.e2e.volcano import DEFINITIONS
from tests.e2e.world import NAMESPACE, World, running_cluster

pytestmark = pytest.mark.slow

IN_QUEUE = "kueue.x-k8s.io/queue-name"


async def a_group(world: World, name: str, pods: int, queue: str) -> None:
    body = {
        "metadata": {"name": name, "labels": {IN_QUEUE: queue}},
        "spec": {"minMember": pods, "minResources": {"cpu": str(pods)}},
    }
    await world.client.create(POD_GROUPS, body, NAMESPACE)


async def quota_and_places(world: World, gangs: GangWorld) -> None:
    await world.flavor(nodeLabels={"zone": "b"})
    await world.cluster_queue("4")
    await world.local_queue()
    await world.local_queue("drained")
    await gangs.node("node-9", cpu="8")
    await a_group(world, "one", 3, "drained")
    await gangs.pods("one", 4)
    await gangs.until_phase("one", "Running")
    nodes = {pod.node_name for pod in await gangs.members("one") if pod.node_name}
    assert nodes == {"node-1"}, "the other node is not of the flavor"
    await a_group(world, "two", 2, "queue")
    await gangs.pods("two", 2, runs="100ms")
    await gangs.until_waits("two", "WorkloadNotAdmitted")
    assert (await gangs.bound())["one"] == 3, "the fourth pod has no quota"

    queue = Key(NAMESPACE, "drained")
    await world.client.patch(LOCAL_QUEUES, queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
    await world.until_finished("two")
    await gangs.until_phase("one", "Pending")
    await gangs.until_waits("one", "WorkloadNotAdmitted")
    assert [pod.node_name for pod in await gangs.members("one")] == [""], "the waiting pod stays"
    await world.client.patch(LOCAL_QUEUES, queue, {"spec": {"stopPolicy": "None"}})
    await world.until_admitted("one")
    await gangs.pods("one", 2, first=4)
    await gangs.until_phase("one", "Running")
    await gangs.until_bound(one=3)


def test_a_pod_group_has_quota_before_it_has_nodes() -> None:
    async def run() -> None:
        fleet = NodePool(1, cpu="16", labels={"zone": "b"})
        async with running_cluster(fleet, definitions=DEFINITIONS) as world:
            await world.start_queueing(default_configuration())
            gangs = GangWorld(world.client, world.queueing_client)
            try:
                await gangs.start_scheduler(default_scheduler_configuration())
                await quota_and_places(world, gangs)
            finally:
                await gangs.stop_scheduler()

    shared_clusters.run(run())
