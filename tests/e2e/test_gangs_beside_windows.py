"""Gangs beside a Reservation of nodes: they start there only if they end before the window begins."""

from datetime import UTC, datetime, timedelta

import pytest

from quorate.api.meta import Key
from quorate.install.crds import queueing_definitions
from quorate.kube.clock import WallClock
from quorate.kube.discovery import plural_of
from quorate.kube.resources import untyped
from quorate.local.nodes import NodePool
from tests.e2e.gangs import GangWorld, run_gang_story, settings

pytestmark = pytest.mark.slow

DEFINITIONS = untyped(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
STORED = untyped("quorate.dev", "v1alpha1", "reservations", "Reservation", False)


def written(begins_in_s: float) -> str:
    """Return a time in RFC 3339, in whole seconds."""
    return f"{datetime.fromtimestamp(WallClock().now() + begins_in_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


async def a_gang(world: GangWorld, name: str, members: int, ends_in_s: int, runs: str = "1h") -> None:
    """Create a gang with members that take a node each and run for at most ``ends_in_s``."""
    await world.group(name, members)
    bound = {"kueue.x-k8s.io/max-exec-time-seconds": str(ends_in_s)}
    await world.pods(name, members, "4", runs=runs, labels=bound)


async def define_reservations(world: GangWorld) -> None:
    """Let the cluster, which has the kinds of gangs only, serve Reservations."""
    (definition,) = (each for each in queueing_definitions() if each["spec"]["group"] == "quorate.dev")
    await world.client.create(DEFINITIONS, definition)

    async def is_served() -> bool:
        return bool(await plural_of(world.client, STORED.api_version, STORED.kind))

    await world.until("Reservations are served", is_served)


async def nodes_of(world: GangWorld, name: str) -> set[str]:
    return {pod.node_name for pod in await world.members(name)}


def test_a_gang_that_may_run_into_a_window_starts_elsewhere_or_after() -> None:
    async def story(world: GangWorld) -> None:
        spec = {
            "purpose": "Maintenance",
            "nodes": {"names": ["node-1"]},
            "start": written(1000),
            "durationSeconds": 3600,
        }
        await world.stop_scheduler()
        await define_reservations(world)
        await world.client.create(STORED, {"metadata": {"name": "repair"}, "spec": spec})
        await world.start_scheduler(settings())
        await a_gang(world, "elsewhere", 2, 2000)
        await world.until_bound(elsewhere=2)
        assert await nodes_of(world, "elsewhere") == {"node-2", "node-3"}
        await a_gang(world, "long", 1, 2000)
        await world.until_waits("long", "ReservedWindow")
        (condition,) = (await world.get_group("long")).status.conditions
        assert condition.message.startswith("reserved for repair from ")
        await a_gang(world, "short", 1, 60, runs="100ms")
        await world.until_phase("short", "Completed")
        assert await nodes_of(world, "short") == {"node-1"}
        assert await nodes_of(world, "long") == {""}
        start = written(0)
        now = {"spec": {"start": start, "durationSeconds": 3}}
        await world.client.patch(STORED, Key("", "repair"), now)
        await world.until_bound(long=1)
        ended = datetime.fromisoformat(start) + timedelta(seconds=3)
        assert datetime.fromtimestamp(WallClock().now(), UTC) >= ended
        assert await nodes_of(world, "long") == {"node-1"}

    run_gang_story(story, NodePool(3, cpu="4"))
