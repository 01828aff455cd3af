"""A cancellation that coincides with a handled error is not lost."""

import asyncio

import pytest

from quorate.kube.cancellation import run_cancellable


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
            await asyncio.wait_for(asyncio.shield(task), 5)
        assert rounds == [0, 1, 2]

    asyncio.run(story())
