"""Answers to writes that come long after the watch has told what they did."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.controllers.writes import send, status_patch
from quorate.kube.resources import WORKLOADS
from quorate.queueing import conditions as c
from quorate.queueing.statuses import release_status
from tests.e2e.world import NAMESPACE, World, play

pytestmark = pytest.mark.slow


def test_a_victim_is_admitted_again_though_the_answer_to_its_eviction_is_late() -> None:
    """The next decision about it must be written on what the watch brought, not on that answer."""

    async def workload(world: World, name: str, priority: int) -> None:
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
        spec = {"queueName": "queue", "priority": priority, "podSets": [pods]}
        await world.create(WORKLOADS, name, NAMESPACE, spec=spec)

    async def story(world: World) -> None:
        client, early = world.client, Key(NAMESPACE, "early")

        async def admitted() -> bool:
            return c.is_admitted(await client.get(WORKLOADS, early))

        async def evicted() -> bool:
            return c.is_evicted(await client.get(WORKLOADS, early))

        async def decided() -> bool:
            assert world.replica.view is not None
            reservation = world.replica.view.state.reservations.get(early)
            return reservation is not None and reservation.assumed is not None

        await world.queues("1", preemption={"withinClusterQueue": "LowerPriority"})
        await workload(world, "early", priority=1)
        await world.until("early is admitted", admitted)
        world.queueing_client.punctual.clear()
        await workload(world, "late", priority=2)
        await world.until("early is evicted", evicted)
        await client.delete(WORKLOADS, Key(NAMESPACE, "late"))
        stopped = await client.get(WORKLOADS, early)
        await send(client, status_patch(stopped, release_status(stopped, 0.0)))
        await world.until("early is to be admitted again", decided)
        world.queueing_client.punctual.set()
        await world.until("early is admitted again", admitted)

    play(story, Configuration())
