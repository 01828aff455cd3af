"""A write that arrives after its sender has given up waiting: its quota must not have been given away."""

import asyncio
import random

import pytest

from quorate.api.configuration import Configuration
from quorate.controllers.configured import Configured
from quorate.controllers.process import run_queueing
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.config import Cluster
from quorate.kube.resources import WORKLOAD_PRIORITY_CLASSES
from quorate.local.nodes import Fleet
from quorate.observe.replica import Replica
from tests.e2e.world import World, a_world
from tests.faults.plan import Late, Plan
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

    async def play() -> None:
        async with a_world(Fleet(1)) as world:
            direct = world.client.cluster
            rng, replica = random.Random(1), Replica("standalone")
            async with (
                Proxy(direct.server, direct.credentials.authorization(), LATE, 2.0) as proxy,
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

    asyncio.run(play())
