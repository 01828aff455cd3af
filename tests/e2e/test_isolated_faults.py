"""What is wrong with one node, queue or group does not stop gangs that have nothing to do with it."""

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import NODES, QUEUES
from quorate.local.nodes import NodePool
from tests.e2e.gangs import GangWorld, run_gang_story, settings

pytestmark = pytest.mark.slow

NPU = "example.com/npu"
TREE = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: capacity, enableHierarchy: true}, {name: nodeorder}]
"""


def test_a_node_that_loses_a_device_in_use_still_takes_pods_without_devices() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("users", 4, {"cpu": "4", NPU: "4"})
        await world.pods("users", 4, devices={NPU: "1"})
        await world.until_phase("users", "Running")
        lost = {"status": {"allocatable": {NPU: "3"}}}
        await world.client.patch(NODES, Key("", "node-1"), lost, subresource="status")
        await world.group("plain", 4, {"cpu": "4"})
        await world.pods("plain", 4)
        await world.until_phase("plain", "Running")
        await world.group("late", 1)
        await world.pods("late", 1, cpu="100m", devices={NPU: "1"})
        await world.until_waits(
            "late", "NotEnoughResources", "(need 1, 3 at most; overcommitted on 1 node(s))"
        )
        assert (await world.bound())["users"] == 4

    run_gang_story(story, NodePool(1, cpu="9", extended={NPU: "4"}))


def test_a_fault_in_the_tree_of_queues_stops_only_its_own_branch() -> None:
    async def story(world: GangWorld) -> None:
        await world.queue("org")
        await world.queue("team", parent="org")
        await world.queue("other")

        async def starts(name: str, queue: str) -> None:
            await world.group(name, 1, {"cpu": "1"}, queue=queue)
            await world.pods(name, 1)
            await world.until_phase(name, "Running")

        await world.group("stopper", 1, {"cpu": "1"}, queue="org")
        await world.until_waits("stopper", "InvalidQueueHierarchy", "queue org has queues below it")
        await starts("beside-a-group", "other")
        await starts("below-the-group", "team")
        await world.queue("lost", parent="gone")
        await world.group("in-lost", 1, {"cpu": "1"}, queue="lost")
        unknown = "queue {} is below queue {}, which does not exist"
        await world.until_waits("in-lost", "InvalidQueueHierarchy", unknown.format("lost", "gone"))
        await starts("beside-a-queue", "other")
        await world.client.delete(QUEUES, Key("", "org"))
        await world.group("orphan", 1, {"cpu": "1"}, queue="team")
        await world.until_waits("orphan", "InvalidQueueHierarchy", unknown.format("team", "org"))
        await starts("beside-orphans", "other")
        await world.queue("org")
        await world.pods("orphan", 1)
        await world.until_phase("orphan", "Running")
        assert (await world.bound())["below-the-group"] == 1

    run_gang_story(story, NodePool(2), settings(TREE))
