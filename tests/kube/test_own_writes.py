"""Writes to one object take turns, in order; what they stored is known before a watch delivers it."""

import asyncio
import random

import pytest

from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta
from quorate.kube.own_writes import OwnWrites
from quorate.kube.resources import JOBS, WORKLOADS
from tests.kube.virtual_clock import settle

A, B = Key("", "a"), Key("", "b")


def version(number: int) -> Workload:
    return Workload(metadata=ObjectMeta(name="a", resource_version=str(number)))


@pytest.mark.parametrize("seed", range(20))
def test_at_most_one_write_to_an_object_is_in_flight_and_the_rest_follow_in_order(seed: int) -> None:
    rng, own_writes = random.Random(seed), OwnWrites()
    in_flight: set[Key] = set()
    entered: dict[Key, list[int]] = {A: [], B: []}

    async def write(key: Key, number: int) -> None:
        async with own_writes.turn(WORKLOADS, key):
            assert key not in in_flight
            in_flight.add(key)
            entered[key].append(number)
            try:
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(0)
                if rng.random() < 0.2:
                    raise TimeoutError
            finally:
                in_flight.remove(key)

    async def run() -> None:
        writes = []
        for number in range(40):
            writes.append(asyncio.create_task(write(rng.choice((A, B)), number)))
            if rng.random() < 0.3:
                await asyncio.sleep(0)
            if rng.random() < 0.2:
                rng.choice(writes).cancel()
        await asyncio.gather(*writes, return_exceptions=True)
        async with asyncio.timeout(30):
            await asyncio.gather(write(A, 40), write(B, 41), return_exceptions=True)

    asyncio.run(run())
    for numbers in entered.values():
        assert numbers == sorted(numbers)


def test_a_waiting_write_that_is_cancelled_as_the_write_before_it_ends_takes_no_turn() -> None:
    """Its future is cancelled before its task runs, and the end of the turn before passes over it."""

    async def run() -> None:
        own_writes = OwnWrites()
        first = own_writes.turn(WORKLOADS, A)
        await first.__aenter__()

        async def write() -> None:
            async with own_writes.turn(WORKLOADS, A):
                raise AssertionError("it was cancelled")

        cancelled = asyncio.create_task(write())
        await settle()
        cancelled.cancel()
        await first.__aexit__(None, None, None)
        (outcome,) = await asyncio.gather(cancelled, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError)

    asyncio.run(run())


def test_writes_to_different_objects_do_not_wait_for_each_other() -> None:
    async def run() -> None:
        own_writes = OwnWrites()
        async with own_writes.turn(WORKLOADS, A):
            async with own_writes.turn(WORKLOADS, B):
                pass
            async with own_writes.turn(JOBS, A):
                pass
            same = asyncio.create_task(own_writes.turn(WORKLOADS, A).__aenter__())
            await settle()
            assert not same.done()
        await same

    asyncio.run(run())


def test_what_a_write_stored_is_the_newest_until_a_watch_has_delivered_it() -> None:
    own_writes = OwnWrites()
    own_writes.record(WORKLOADS, A, version(2))
    assert own_writes.newest(WORKLOADS, version(1)) == version(1), "nothing is kept of kinds without a watch"
    cache: dict[Key, Workload] = {}
    delivered = own_writes.keep(WORKLOADS, cache.get)
    own_writes.record(WORKLOADS, A, version(2))
    delivered(version(1), A)
    assert own_writes.newest(WORKLOADS, version(1)) == version(2)
    assert own_writes.newest(WORKLOADS, version(3)) == version(3)
    assert [own_writes.has_replaced(WORKLOADS, A, each) for each in ("1", "2", "3", "")] == [
        True,
        *[False] * 3,
    ]
    delivered(version(2), A)
    assert own_writes.newest(WORKLOADS, version(1)) == version(1)
    own_writes.record(WORKLOADS, A, version(2))
    delivered(None, A)
    assert own_writes.newest(WORKLOADS, version(1)) == version(1), "it was deleted"


@pytest.mark.parametrize(("cached", "kept"), [(None, True), (1, True), (2, False), (3, False)])
def test_a_write_that_a_watch_delivered_before_its_answer_is_not_kept(cached: int | None, kept: bool) -> None:
    own_writes = OwnWrites()
    cache = {} if cached is None else {A: version(cached)}
    own_writes.keep(WORKLOADS, cache.get)
    own_writes.record(WORKLOADS, A, version(2))
    assert (own_writes.newest(WORKLOADS, version(1)) == version(2)) is kept
