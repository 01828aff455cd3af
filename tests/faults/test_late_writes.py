"""Failed writes: a write with an unknown result counts neither as stored nor as lost."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from quorate.api.configuration import Configuration
from quorate.controllers.process import run_queueing
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.limits import OWN_WRITE_TIMEOUT_S
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from quorate.kube.rest.config import RestConfig
from quorate.local.nodes import NodePool
from quorate.observe.replica import Replica
from tests.e2e.world import World, running_cluster
from tests.faults.plan import Lagging, Late, Lost, Plan, Refused
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.slow

LATE_S = 1.0
LATE_RESERVATION = Plan(seed=0, rate=0.0, scheduled={("PATCH workloads/status", 1): Late(LATE_S, 0.0)})


def test_an_unconfirmed_reservation_keeps_its_quota_until_the_server_responds() -> None:
    async def story(world: World, proxy: Proxy) -> None:
        async def in_flight() -> bool:
            return proxy.requests["PATCH workloads/status"] > 0

        await world.queues(cpu="1")
        await world.create(WORKLOAD_PRIORITY_CLASSES, "urgent", value=100)
        await world.job("first", runs="1h")
        await world.until("the reservation is sent", in_flight)
        await world.job("urgent", runs="1h", labels={"kueue.x-k8s.io/priority-class": "urgent"})
        await world.until_admitted("first")
        # sleeps: nothing shows that a late write was refused
        await asyncio.sleep(LATE_S)  # now the first request has arrived as well
        assert await world.admitted() == {"first"}

    run_story(LATE_RESERVATION, story)


def test_a_reservation_with_a_conflict_is_retried() -> None:
    async def story(world: World, proxy: Proxy) -> None:
        await world.queues(cpu="1")
        await world.job("only", runs="1h")
        await world.until_admitted("only")

    run_story(Plan(seed=0, rate=0.0, scheduled={("PATCH workloads/status", 1): Refused(409)}), story)


def test_a_reservation_is_kept_while_the_watch_of_its_write_is_late() -> None:
    """The conflict of the second attempt is with the first one, of which the response was lost."""
    late = Lagging(after=1, lag_s=OWN_WRITE_TIMEOUT_S + 3)
    plan = Plan(
        seed=0,
        rate=0.0,
        scheduled={("PATCH workloads/status", 1): Lost(done=True), ("WATCH workloads", 1): late},
    )

    async def story(world: World, proxy: Proxy) -> None:
        async def reserved() -> bool:
            workload = await world.workload("only")
            return workload is not None and workload.status.admission is not None

        await world.queues(cpu="1")
        await world.job("only", runs="1h")
        await world.until("the reservation is stored", reserved)
        await asyncio.sleep(OWN_WRITE_TIMEOUT_S + 1)  # sleeps: nothing shows that a late write was refused
        assert proxy.requests["PATCH workloads/status"] == 2
        await world.until_admitted("only")

    run_story(plan, story)


def test_a_job_with_an_unconfirmed_start_is_stopped_before_its_quota_is_released() -> None:
    late = Lagging(after=2, lag_s=2.0)  # the plural of Job and of Volcano's Job is "jobs"
    watches = {("WATCH jobs", 1): late, ("WATCH jobs", 2): late}
    plan = Plan(seed=0, rate=0.0, scheduled={("PATCH jobs", 1): Lost(done=True), **watches})

    async def story(world: World, proxy: Proxy) -> None:
        async def started() -> bool:
            return not (await world.get_job("only")).spec.suspend

        await world.queues(cpu="1")
        await world.job("only", runs="1h", suspend=True)
        await world.until("the job is started", started)
        workload = await world.until_condition("only", "Admitted")
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
        await world.until_condition("only", "QuotaReserved", "False")
        assert (await world.get_job("only")).spec.suspend

    run_story(plan, story)


def run_story(plan: Plan, story: Callable[[World, Proxy], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_cluster(NodePool(1)) as world:
            direct = world.client.config
            rng, replica = random.Random(1), Replica("standalone")
            async with (
                Proxy(direct, plan, 2.0) as proxy,
                Client(
                    RestConfig(proxy.endpoint().url, credentials=direct.credentials), rng, deadline_s=0.3
                ) as client,
            ):
                running = asyncio.create_task(
                    run_queueing(client, WallClock(), DynamicConfiguration(Configuration()), rng, replica)
                )
                await replica.ready.wait()
                await story(world, proxy)
                running.cancel()
                await asyncio.wait([running])

    asyncio.run(run())
