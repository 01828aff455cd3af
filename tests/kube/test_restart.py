"""Work that raises starts over after a pause; expected exceptions and cancellation end it."""

import asyncio

import pytest

from quorate.kube.manager.restart import run_restarting
from tests.kube.virtual_clock import VirtualClock, settle


class Rebuild(Exception):
    """Expected by the caller."""


def test_work_is_restarted_with_backoff_until_an_exception_passes(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    starts: list[float] = []

    async def work() -> None:
        starts.append(clock.now())
        if len(starts) < 4:
            raise LookupError("no such key")
        async with asyncio.TaskGroup():
            raise Rebuild

    async def story() -> None:
        running = asyncio.create_task(run_restarting("work", work, clock, passes=(Rebuild,)))
        for _ in range(40):
            await settle()
            await clock.advance_to(clock.now() + 0.5)
        with pytest.raises(ExceptionGroup) as raised:
            await running
        assert raised.group_contains(Rebuild)

    asyncio.run(story())
    assert starts == [1000.0, 1001.0, 1003.0, 1007.0]
    assert [record.message for record in caplog.records] == ["restarting"] * 3


def test_cancelled_work_is_not_restarted() -> None:
    async def story() -> None:
        starts: list[None] = []

        async def work() -> None:
            starts.append(None)
            await asyncio.Event().wait()

        running = asyncio.create_task(run_restarting("work", work, VirtualClock()))
        await settle()
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert len(starts) == 1

    asyncio.run(story())
