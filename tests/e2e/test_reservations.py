"""A reservation that begins under load: its amounts are free for its owners, and the others wait or leave."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.queueing import NodeFit
from quorate.api.meta import Key, find_condition, is_true
from quorate.api.quorate import ACTIVE, CONFLICTING
from quorate.kube.clock import WallClock
from quorate.kube.resources import RESERVATIONS, WORKLOADS, untyped
from quorate.local.nodes import NodePool
from quorate.queueing.conditions import QUOTA_RESERVED
from quorate.queueing.pending.ordering import queue_order
from tests.e2e.topologies import places_of
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

NODES = NodePool(1, cpu="32")  # quota decides
STORED = untyped("quorate.dev", "v1alpha1", "reservations", "Reservation", False)


async def reserve(world: World, cpu: str, begins_in_s: float, **spec: Any) -> None:
    """Reserve ``cpu`` of the flavor for the local queue ``vip``."""
    start = datetime.fromtimestamp(WallClock().now() + begins_in_s, UTC)
    fields = {
        "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "durationSeconds": 3600,
        "amounts": [{"flavor": "default", "resources": {"cpu": cpu}}],
        "owners": {"localQueues": [{"namespace": NAMESPACE, "name": "vip"}]},
        **spec,
    }
    await world.client.create(STORED, {"metadata": {"name": "night"}, "spec": fields})


async def is_active(world: World) -> bool:
    stored = await world.client.get(RESERVATIONS, Key("", "night"))
    return is_true(stored.status.conditions, ACTIVE)


async def until_waiting(world: World, job: str) -> None:
    """Wait until the workload of ``job`` waits because of the window."""

    async def waits() -> bool:
        workload = await world.workload(job)
        reserved = None if workload is None else find_condition(workload.status.conditions, QUOTA_RESERVED)
        return reserved is not None and "reserved for night from" in reserved.message

    await world.until(f"{job} waits for the window", waits)


def at_most(seconds: int) -> dict[str, str]:
    return {"kueue.x-k8s.io/max-exec-time-seconds": str(seconds)}


def test_a_reservation_begins_under_load_and_evicts_what_it_needs() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="8")
        await world.local_queue("vip")
        await world.job("first", cpu="4", runs="1h")
        await world.until_admitted("first")
        await world.job("second", cpu="4", runs="1h")
        await world.until_admitted("second")
        await reserve(world, "6", begins_in_s=4, atStart="Evict", noticeSeconds=2)
        await world.job("own", cpu="6", queue="vip", runs="100ms")
        await world.until("the window begins", lambda: is_active(world))
        for name in ("first", "second"):
            await world.until_condition(name, "Evicted", reason="ReservedWindow")
        await world.until_finished("own")
        for name in ("first", "second"):
            await until_waiting(world, name)
        await world.job("small", cpu="2", runs="100ms")
        await world.until_finished("small")  # on what is not reserved
        await world.client.delete(STORED, Key("", "night"))
        await world.until_admitted("first", "second")

    run_story(story, Configuration(), NODES)


def test_a_workload_that_cannot_be_evicted_holds_up_no_other() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="8")
        await world.local_queue("vip")
        for name in ("first", "second"):
            await world.job(name, cpu="4", runs="1h")
            await world.until_admitted(name)
        stored = {name: await world.workload(name) for name in ("first", "second")}
        order = {
            (queue_order(workload, Configuration()), name, workload.metadata.name)
            for name, workload in stored.items()
            if workload is not None
        }
        (_, other, _), (_, name, refused) = sorted(order)  # the last is evicted first
        path = WORKLOADS.path(NAMESPACE, refused, "status")
        world.queueing_client.refuses[f"PATCH {path}"] = "no"
        await reserve(world, "8", begins_in_s=0, atStart="Evict")
        await world.until_condition(other, "Evicted", reason="ReservedWindow")
        world.queueing_client.refuses.clear()
        await world.until_condition(name, "Evicted", reason="ReservedWindow")

    run_story(story, Configuration(), NODES)


def test_before_a_window_only_what_ends_by_then_starts_also_after_a_restart() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="8")
        await world.local_queue("vip")
        await reserve(world, "8", begins_in_s=1000)
        await world.job("long", cpu="4", runs="100ms", labels=at_most(7200))
        await world.job("unbounded", cpu="4", runs="100ms")
        await world.job("short", cpu="4", runs="100ms", labels=at_most(60))
        await world.until_finished("short")
        await world.stop_queueing()
        await world.start_queueing(Configuration())
        await world.job("later", cpu="4", runs="100ms")
        for name in ("long", "unbounded", "later"):
            await until_waiting(world, name)
        assert await world.admitted() == set()
        spec = {"amounts": [{"flavor": "default", "resources": {"cpu": "9"}}]}
        await world.client.patch(STORED, Key("", "night"), {"spec": spec})

        async def conflicts() -> bool:
            stored = await world.client.get(RESERVATIONS, Key("", "night"))
            return is_true(stored.status.conditions, CONFLICTING)

        await world.until("more is reserved than there is", conflicts)
        await world.client.delete(STORED, Key("", "night"))
        await world.until_finished("long", "unbounded", "later")

    run_story(story, Configuration(), NODES)


def test_maintenance_evicts_from_its_node_and_pods_go_to_the_other_one() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="99")
        await world.job("on-both", pods=2, cpu="6", runs="1h", suspend=True)
        await world.until_admitted("on-both")
        start = datetime.fromtimestamp(WallClock().now(), UTC)
        spec = {
            "purpose": "Maintenance",
            "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
            "durationSeconds": 3600,
            "nodes": {"names": ["node-1"]},
            "atStart": "Evict",
        }
        await world.client.create(STORED, {"metadata": {"name": "night"}, "spec": spec})
        await world.until_condition("on-both", "Evicted", reason="ReservedWindow")
        await until_waiting(world, "on-both")
        await world.job("one", cpu="6", runs="1s", suspend=True)
        await world.until_admitted("one")
        assert await places_of(world, "one") == {"node-2": 1}
        await world.client.delete(STORED, Key("", "night"))
        await world.until_admitted("on-both")

    requiring = msgspec.structs.replace(Configuration(), node_fit=NodeFit(mode="Require"))
    run_story(story, requiring, NodePool(2, cpu="8"))
