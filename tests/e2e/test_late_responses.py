"""Responses to writes that arrive long after the watch events of these writes."""

from functools import partial

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import DEFAULT_GATES
from quorate.api.meta import Key
from quorate.controllers.limits import WRITES_IN_FLIGHT
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import send, status_patch
from quorate.queueing import conditions as c
from quorate.queueing.ledger import Ledger
from quorate.queueing.lifecycle.statuses import release_status
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow


async def workload(world: World, name: str, priority: int) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": "queue", "priority": priority, "podSets": [pods]}
    await world.create(WORKLOADS, name, NAMESPACE, spec=spec)


def test_a_victim_is_readmitted_while_the_response_to_its_eviction_is_late() -> None:
    """An eviction waits for the response to the admission before it, and is written as soon as that arrives.

    The next write must be based on the watch event, without waiting for the response to the eviction.
    """

    async def story(world: World) -> None:
        client, responding, early = world.client, world.queueing_client.responding, Key(NAMESPACE, "early")

        async def admitted() -> bool:
            return c.is_admitted(await client.get(WORKLOADS, early))

        async def evicted() -> bool:
            return c.is_evicted(await client.get(WORKLOADS, early))

        def ledger() -> Ledger:
            assert world.replica.view is not None
            return world.replica.view.state.ledger

        async def eviction_is_decided() -> bool:
            return bool(ledger().expected_evictions)

        async def decided() -> bool:
            reservation = ledger().reservations.get(early)
            return reservation is not None and reservation.assumed is not None

        await world.queues("1", preemption={"withinClusterQueue": "LowerPriority"})
        responding.clear()
        await workload(world, "early", priority=1)
        await world.until("early is admitted", admitted)
        await workload(world, "late", priority=2)
        await world.until("the eviction of early is decided", eviction_is_decided)
        responding.set()  # the response to the admission arrives; that to the eviction is late
        responding.clear()
        await world.until("early is evicted", evicted)
        await client.delete(WORKLOADS, Key(NAMESPACE, "late"))
        stopped = await client.get(WORKLOADS, early)
        await send(client, status_patch(WORKLOADS, stopped, release_status(stopped, 0.0, DEFAULT_GATES)))
        await world.until("the admission of early is decided again", decided)
        responding.set()
        await world.until("early is admitted again", admitted)

    run_story(story, Configuration())


def test_a_reservation_is_not_lost_to_another_write_of_our_own() -> None:
    """When its queue appears, the status of a workload is reset while its reservation is on the way."""

    async def story(world: World) -> None:
        await world.flavor()
        await world.cluster_queue(cpu="1")
        for name, priority in (("first", 1), ("second", 0)):
            await workload(world, name, priority)
            await world.until(f"{name} has no queue", partial(has_no_queue, world, name))
        world.queueing_client.reservation_delay_s = 0.05
        await world.local_queue()
        admitted = await world.until("one is admitted", partial(admitted_workloads, world))
        assert admitted == {"first"}

    run_story(story, Configuration())


def test_a_reason_is_written_after_the_admissions_before_it() -> None:
    """An admission that the server has not stored counts as made now, however long the server takes."""

    async def story(world: World) -> None:
        async def waits() -> bool:
            workload = await world.client.get(WORKLOADS, Key(NAMESPACE, "second"))
            return bool(workload.status.conditions)

        await world.queues("1")
        world.queueing_client.reservation_delay_s = 2.0
        await workload(world, "first", priority=1)
        await workload(world, "second", priority=0)
        await world.until("second has a reason", waits)
        assert await admitted_workloads(world) == {"first"}

    run_story(story, Configuration())


async def has_no_queue(world: World, name: str) -> bool:
    conditions = (await world.client.get(WORKLOADS, Key(NAMESPACE, name))).status.conditions
    return any("doesn't exist" in condition.message for condition in conditions)


async def admitted_workloads(world: World) -> set[str]:
    workloads = (await world.client.list(WORKLOADS)).items
    return {each.metadata.name for each in workloads if c.is_admitted(each)}


def test_late_responses_do_not_change_the_priority_order() -> None:
    """The number of writes in flight is limited; further decisions wait for their results."""

    async def story(world: World) -> None:
        early, late = 3 * WRITES_IN_FLIGHT, Key(NAMESPACE, "late")

        def known() -> tuple[int, int]:
            assert world.replica.view is not None
            state = world.replica.view.state
            return len(state.ledger.reservations), len(state.ledger.entries)

        async def decisions_are_waiting() -> bool:
            decided, waiting = known()
            return decided + waiting == early and decided >= WRITES_IN_FLIGHT and waiting > 0

        async def late_is_known() -> bool:
            return sum(known()) == early + 1

        async def all_quota_is_reserved() -> bool:
            return known() == (early, 1)

        await world.queues(str(early))
        world.queueing_client.responding.clear()
        for number in range(early):
            await workload(world, f"early-{number}", priority=1)
        await world.until("some admissions are decided", decisions_are_waiting)
        await workload(world, "late", priority=2)
        await world.until("the late workload is known", late_is_known)
        world.queueing_client.responding.set()
        await world.until("all quota is reserved", all_quota_is_reserved)
        assert world.replica.view is not None
        assert late in world.replica.view.state.ledger.reservations

    run_story(story, Configuration())
