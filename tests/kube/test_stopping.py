"""A stop that comes together with an error that is handled is a stop."""

import asyncio

import pytest

from quorate.kube.stopping import unless_stopped


class Renewed(Exception):
    pass


async def go_on_for_ever(rounds: list[int]) -> None:
    """Begin anew whenever something renews it, until stopped."""

    async def renew() -> None:
        rounds.append(len(rounds))
        await asyncio.sleep(0)
        if len(rounds) == 3:
            for task in asyncio.all_tasks():
                if task.get_name() == "stopped":
                    task.cancel()
        raise Renewed

    async def one_round() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(renew())

    while True:
        try:
            await unless_stopped(one_round())
        except* Renewed:
            pass


def test_who_is_stopped_while_beginning_anew_stops() -> None:
    async def story() -> None:
        rounds: list[int] = []
        task = asyncio.create_task(go_on_for_ever(rounds), name="stopped")
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(task), 5)
        assert rounds == [0, 1, 2]

    asyncio.run(story())
