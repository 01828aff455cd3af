"""Reservations whose writes go wrong: a late one keeps its quota, a refused one gives it back."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from quorate.api.configuration import Configuration
from quorate.controllers.process import run_queueing
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.config import Cluster
from quorate.kube.configured import Configured
from quorate.kube.resources import WORKLOAD_PRIORITY_CLASSES
from quorate.local.nodes import Fleet
from quorate.observe.replica import Replica
from tests.e2e.world import World, a_world
from tests.faults.plan import Late, Plan, Refused
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.slow

LATE_S = 1.0
LATE = Plan(seed=0, rate=0.0, laid_down={("PATCH workloads/status", 1): Late(LATE_S, 0.0)})


def test_a_reservation_in_doubt_keeps_its_quota_until_the_server_has_answered() -> None:
    async def story(world: World, proxy: Proxy) -> None:
        async def under_way() -> bool:
            return proxy.asked["PATCH workloads/status"] > 0

        await world.queues(cpu="1")
        await world.create(WORKLOAD_PRIORITY_CLASSES, "urgent", value=100)
        await world.job("first", runs="1h")
        await world.until("the reservation is on its way", under_way)
        await world.job("urgent", runs="1h", labels={"kueue.x-k8s.io/priority-class": "urgent"})
        await world.until_admitted("first")
        await asyncio.sleep(LATE_S)  # now the first try is there as well
        assert await world.admitted() == {"first"}

    play(LATE, story)


def test_a_reservation_refused_as_if_somebody_else_had_written_is_made_again() -> None:
    async def story(world: World, proxy: Proxy) -> None:
        await world.queues(cpu="1")
        await world.job("only", runs="1h")
        await world.until_admitted("only")

    play(Plan(seed=0, rate=0.0, laid_down={("PATCH workloads/status", 1): Refused(409)}), story)


def play(plan: Plan, story: Callable[[World, Proxy], Awaitable[None]]) -> None:
    async def played() -> None:
        async with a_world(Fleet(1)) as world:
            direct = world.client.cluster
            rng, replica = random.Random(1), Replica("standalone")
            async with (
                Proxy(direct.server, direct.credentials.authorization(), plan, 2.0) as proxy,
                Client(
                    Cluster(proxy.door().url, credentials=direct.credentials), rng, deadline_s=0.3
                ) as client,
            ):
                running = asyncio.create_task(
                    run_queueing(client, WallClock(), Configured(Configuration()), rng, replica)
                )
                await replica.ready.wait()
                await story(world, proxy)
                running.cancel()
                await asyncio.wait([running])

    asyncio.run(played())
