"""The check of the models: what is late is no finding, what stays wrong is one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from quorate.api.configuration import Configuration
from quorate.controllers.process import follow
from quorate.kube.clock import WallClock
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.local.nodes import NodePool
from quorate.observe.replica import Replica
from tests.e2e.world import WITHIN_S, World, run_story
from tests.faults.final_state import lasting_model_differences

pytestmark = pytest.mark.slow

CONFIGURATION = Configuration()


@asynccontextmanager
async def following(world: World, replica: Replica) -> AsyncIterator[None]:
    """Keep the model of ``replica`` up to date in the block; after the block it is stale."""
    task = asyncio.create_task(
        follow(world.client, WallClock(), DynamicConfiguration(CONFIGURATION), replica)
    )
    await replica.ready.wait()
    yield
    task.cancel()
    await asyncio.wait([task])


def test_a_difference_counts_only_if_no_newer_model_removes_it() -> None:
    async def story(world: World) -> None:
        new_leader = Replica("leader")
        await world.queues(cpu="2")
        async with following(world, new_leader):
            assert await lasting_model_differences(world.client, [new_leader], WITHIN_S) == []
        await world.job("endless", runs="1h")
        await world.until_admitted("endless")
        usage, *_ = await lasting_model_differences(world.client, [new_leader], within_s=0.1)
        assert "the audit of a leader finds" in usage
        assert "quantity='usage', stored=0, computed=1000" in usage
        checking = asyncio.create_task(lasting_model_differences(world.client, [new_leader], WITHIN_S))
        async with following(world, new_leader):
            assert await checking == []

    run_story(story, CONFIGURATION, NodePool(1))


def test_a_replica_without_a_model_is_a_finding() -> None:
    async def story(world: World) -> None:
        found = await lasting_model_differences(world.client, [Replica("follower")], within_s=0.1)
        assert found == ["a follower has no model"]

    run_story(story)
