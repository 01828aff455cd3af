"""A large pod group on busy nodes: small groups pass it only if they end before its planned start."""

from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import POD_GROUPS
from quorate.local.nodes import NodePool
from tests.e2e.gangs import GangWorld, run_gang_story, settings
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

SETTINGS = settings(
    """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
configurations:
- name: enqueue
  arguments: {backfill: EASY}
"""
)
RESERVED = "ReservedForEarlierPodGroup"
PLANNED = "its start is planned for"


async def a_gang(world: GangWorld, name: str, members: int, deadline_s: int | None, runs: str = "1h") -> None:
    """Create a group with members that take a node each; without a deadline they have no bound."""
    await world.group(name, members, {"cpu": str(4 * members)})
    bound: dict[str, Any] = {} if deadline_s is None else {"activeDeadlineSeconds": deadline_s}
    await world.pods(name, members, "4", runs=runs, **bound)


def test_a_group_passes_a_planned_one_only_if_it_ends_before() -> None:
    async def story(world: GangWorld) -> None:
        await a_gang(world, "first", 1, 3600)
        await world.until_bound(first=1)
        await a_gang(world, "large", 2, 600, runs="100ms")
        await world.until_waits("large", "NotEnoughResources", PLANNED)
        await a_gang(world, "long", 1, 7200)
        await a_gang(world, "unbounded", 1, None)
        await a_gang(world, "short", 1, 600, runs="100ms")
        await world.until_phase("short", "Completed")
        for name in ("long", "unbounded"):
            await world.until_waits(name, RESERVED, "reserved for pod group large")
        await world.stop_scheduler()
        await world.start_scheduler(SETTINGS)  # which makes the same plan
        await a_gang(world, "later", 1, 7200)
        await world.until_waits("later", RESERVED)
        assert (await world.bound())["long"] == 0
        await world.client.delete(POD_GROUPS, Key(NAMESPACE, "first"))
        await world.delete_members("first")
        await world.until_phase("large", "Completed")
        await world.until_bound(long=1, unbounded=1)

    run_gang_story(story, NodePool(2, cpu="4"), SETTINGS)


def test_a_deadline_that_the_kubelet_enforces_lets_the_planned_group_start() -> None:
    async def story(world: GangWorld) -> None:
        await a_gang(world, "first", 1, 10)
        await world.until_bound(first=1)
        await a_gang(world, "large", 2, 600, runs="100ms")
        await world.until_waits("large", "NotEnoughResources", PLANNED)
        await a_gang(world, "unbounded", 1, None)
        await world.until_phase("large", "Completed")
        await world.until_bound(unbounded=1)

    run_gang_story(story, NodePool(2, cpu="4"), SETTINGS)
