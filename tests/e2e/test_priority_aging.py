"""With priority ageing, a workload that waited starts before a later one of a higher priority."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.priority_aging import PRIORITY_AGING
from quorate.api.meta import Key
from quorate.kube.clock import WallClock
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOAD_PRIORITY_CLASSES
from quorate.local.nodes import NodePool
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

NODES = NodePool(1, cpu="8")  # quota decides
AHEAD = 3  # by so much the priority of the later job is higher
RULE = {"metadata": {"annotations": {PRIORITY_AGING: "{every: 1s, step: 1, atMost: 500}"}}}
CLASS = {"kueue.x-k8s.io/priority-class": "high"}


def test_an_old_workload_starts_first_also_after_a_restart_of_the_controllers() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1")
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), RULE)
        await world.create(WORKLOAD_PRIORITY_CLASSES, "high", value=AHEAD)
        await world.job("first", runs="1h")
        await world.until_admitted("first")
        await world.job("old", runs="1h")
        waiting = await world.until_condition("old", "QuotaReserved", "False")
        created = waiting.metadata.creation_timestamp
        assert created is not None

        async def has_waited() -> bool:
            return WallClock().now() > created.timestamp() + AHEAD + 1

        await world.until("the old job has waited for some steps", has_waited)
        await world.job("new", runs="1h", labels=CLASS)
        await world.until_condition("new", "QuotaReserved", "False")
        await world.stop_queueing()
        await world.start_queueing(Configuration())
        await world.client.delete(JOBS, Key(NAMESPACE, "first"), propagation="Background")
        await world.until_admitted("old")
        assert await world.admitted() == {"old"}

    run_story(story, Configuration(), NODES)


def test_without_a_rule_the_higher_priority_starts_first() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1")
        await world.create(WORKLOAD_PRIORITY_CLASSES, "high", value=AHEAD)
        await world.job("first", runs="1h")
        await world.until_admitted("first")
        await world.job("old", runs="1h")
        await world.until_condition("old", "QuotaReserved", "False")
        await world.job("new", runs="1h", labels=CLASS)
        await world.until_condition("new", "QuotaReserved", "False")
        await world.client.delete(JOBS, Key(NAMESPACE, "first"), propagation="Background")
        await world.until_admitted("new")
        assert await world.admitted() == {"new"}

    run_story(story, Configuration(), NODES)
