"""Quantities beyond 64 bits in the objects of tenants: one job waits, everything else goes on."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.meta import find_condition
from tests.e2e.world import World, run_story

pytestmark = pytest.mark.slow


def test_a_job_that_asks_for_more_than_everything_waits_alone() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("huge", cpu="1E400", runs="forever")
        await world.job("small", runs="forever")
        await world.until_admitted("small")

        async def reason_of_huge() -> bool:
            workload = await world.workload("huge")
            conditions = () if workload is None else workload.status.conditions
            reserved = find_condition(conditions, "QuotaReserved")
            return reserved is not None and "> maximum capacity (4)" in reserved.message

        await world.until("the reason of the huge job", reason_of_huge)

    run_story(story, Configuration())
