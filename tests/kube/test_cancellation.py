"""A cancellation that coincides with a handled error is not lost, and leaves no coroutine behind."""

import asyncio

import pytest

from quorate.kube.cancellation import run_cancellable, start_task
from tests.kube.unawaited import unawaited


class Restart(Exception):
    pass


async def run_forever(rounds: list[int]) -> None:
    """Start again after each ``Restart``, until cancelled."""

    async def restart() -> None:
        rounds.append(len(rounds))
        await asyncio.sleep(0)
        if len(rounds) == 3:
            for task in asyncio.all_tasks():
                if task.get_name() == "cancelled":
                    task.cancel()
        raise Restart

    async def one_round() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(restart())

    while True:
        try:
            await run_cancellable(one_round())
        except* Restart:
            pass


def test_a_loop_that_is_cancelled_while_it_restarts_ends() -> None:
    async def story() -> None:
        rounds: list[int] = []
        task = asyncio.create_task(run_forever(rounds), name="cancelled")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(task), 30)
        assert rounds == [0, 1, 2]

    asyncio.run(story())


def test_a_group_that_ends_starts_no_task_and_leaves_no_coroutine() -> None:
    async def story() -> None:
        async def start_while_it_ends(group: asyncio.TaskGroup) -> None:
            with pytest.raises(asyncio.CancelledError):
                await asyncio.Event().wait()  # until the group cancels it
            start_task(group, asyncio.sleep(0))

        async def start_two() -> None:
            async with asyncio.TaskGroup() as group:
                started.append(start_task(group, start_while_it_ends(group)))
                await asyncio.sleep(0)
                raise Restart

        started: list[asyncio.Task[None]] = []
        with pytest.raises(ExceptionGroup):
            await start_two()
        assert started[0].cancelled()

    with unawaited() as coroutines:
        asyncio.run(story())
    assert coroutines == []
