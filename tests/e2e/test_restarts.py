"""Queueing controllers with restarts at arbitrary times or lost writes lose and repeat nothing."""

import asyncio
import contextlib
import itertools
import random
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.kube.errors import NotFound
from quorate.kube.resources import JOBS, WORKLOADS, Resource
from quorate.local.nodes import NodePool
from tests.e2e.world import World, run_story

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # long stories of code that other tests measure
]

QUOTA = 3
NAMES = [f"job-{number}" for number in range(24)]
NODES = NodePool(1, cpu="32")
MOST_STARTS = 200


async def submit(world: World) -> None:
    """Create the jobs suspended, so that none runs before controllers see it."""
    await world.queues(cpu=str(QUOTA))
    await asyncio.gather(*(world.job(name, runs="100ms", suspend=True) for name in NAMES))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_nothing_is_lost_or_admitted_twice_over_many_restarts(seed: int) -> None:
    rng = random.Random(seed)

    async def story(world: World) -> None:
        await submit(world)
        watching = asyncio.create_task(never_over_quota(world))
        starts = 0
        while not await complete(world):
            starts += 1
            await world.start_queueing(Configuration(), seed=rng.getrandbits(32))
            # An arbitrary time, which grows: on a slow machine, a short run does not finish a list.
            await asyncio.wait([watching], timeout=rng.uniform(0.02, 0.4) * (1 + starts / 10))
            await world.stop_queueing()
            assert not watching.done(), watching.exception()
            assert starts < MOST_STARTS
        assert starts > 5
        await stop_watching(watching)
        await world.start_queueing(Configuration())
        await each_ran_once(world)

    run_story(story, None, NODES)


def test_nothing_is_lost_or_admitted_twice_when_one_write_in_four_is_lost() -> None:
    async def story(world: World) -> None:
        world.queueing_client.one_in = 4
        watching = asyncio.create_task(never_over_quota(world))
        await submit(world)
        await world.until("all jobs are finished", lambda: complete(world), within_s=60)
        assert world.queueing_client.lost > len(NAMES) // 2
        await stop_watching(watching)
        await each_ran_once(world)

    run_story(story, Configuration(), NODES)


@pytest.mark.long
def test_nothing_is_lost_or_admitted_twice_while_foreign_clients_write_workloads() -> None:
    async def story(world: World) -> None:
        watching = asyncio.create_task(never_over_quota(world))
        meddling = asyncio.create_task(write_foreign_fields(world))
        await submit(world)
        await world.until("all jobs are finished", lambda: complete(world), within_s=60)
        await stop_watching(meddling)
        await stop_watching(watching)
        await each_ran_once(world)

    run_story(story, Configuration(), NODES)


async def write_foreign_fields(world: World) -> None:
    """Change fields without meaning of all workloads and jobs continuously."""
    resources: tuple[Resource[Any], ...] = (WORKLOADS, JOBS)
    for number in itertools.count():
        for resource in resources:
            for each in (await world.client.list(resource)).items:
                note = {"metadata": {"annotations": {"example.com/note": str(number)}}}
                with contextlib.suppress(NotFound):
                    await world.client.patch(resource, each.metadata.key, note)


async def stop_watching(watching: asyncio.Task[None]) -> None:
    watching.cancel()
    await asyncio.wait([watching])
    assert watching.cancelled(), watching.exception()


async def each_ran_once(world: World) -> None:
    jobs = (await world.client.list(JOBS)).items
    assert {job.metadata.name: job.status.succeeded for job in jobs} == dict.fromkeys(NAMES, 1)
    owners = [
        owner.name
        for workload in (await world.client.list(WORKLOADS)).items
        for owner in workload.metadata.owner_references
    ]
    assert sorted(owners) == sorted(NAMES)


async def complete(world: World) -> bool:
    workloads = (await world.client.list(WORKLOADS)).items
    finished = [each for each in workloads if any(c.type == "Finished" for c in each.status.conditions)]
    return len(finished) == len(NAMES)


async def never_over_quota(world: World) -> None:
    while True:
        admitted = await world.admitted()
        assert len(admitted) <= QUOTA, f"{sorted(admitted)} are admitted with quota for {QUOTA}"
        await asyncio.sleep(0.02)
