"""Requests of which the caller is cancelled: none is lost, and the response to a write is still read."""

import asyncio
import time

import pytest

from quorate.api.meta import Key
from quorate.kube.cancellation import end_tasks
from quorate.kube.resources import PODS
from tests.kube.fake_server import Answer, FakeServer
from tests.kube.unawaited import unawaited

pytestmark = pytest.mark.slow
A = Key("default", "a")


def test_a_cancellation_at_the_moment_of_the_deadline_is_not_lost() -> None:
    async def story() -> None:
        arrived, never = asyncio.Event(), asyncio.Event()

        async def silence() -> Answer:
            arrived.set()
            await never.wait()
            return Answer()

        async with FakeServer(lambda request: silence()) as server, server.client(deadline_s=0.3) as client:
            reading = asyncio.create_task(client.get(PODS, A))
            await arrived.wait()
            asyncio.get_running_loop().call_later(0.3, reading.cancel)
            # sleeps: blocks the event loop itself, so that two timers are due at once
            time.sleep(0.4)  # noqa: ASYNC251  a busy machine: both are due when the loop continues
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert reading.cancelling() == 1
            never.set()

    asyncio.run(story())


@pytest.mark.parametrize("steps", range(6))
def test_a_write_that_is_cancelled_after_any_step_leaves_no_coroutine(steps: int) -> None:
    async def story() -> None:
        async with FakeServer(lambda request: Answer()) as server, server.client() as client:
            asyncio.get_running_loop().create_task(client.delete(PODS, A))
            for _ in range(steps):
                await asyncio.sleep(0)
            await end_tasks(asyncio.all_tasks() - {asyncio.current_task()})

    with unawaited() as coroutines:
        asyncio.run(story())
    assert coroutines == []


def test_the_response_to_a_write_is_awaited_although_its_caller_was_cancelled() -> None:
    async def story() -> None:
        arrived, answers, codes = asyncio.Event(), asyncio.Event(), list[int]()

        async def answer() -> Answer:
            arrived.set()
            await answers.wait()
            return Answer()

        async with (
            FakeServer(lambda request: answer()) as server,
            server.client(on_response=lambda verb, path, code, seconds: codes.append(code)) as client,
        ):
            writing = asyncio.create_task(client.patch(PODS, A, {}))
            await arrived.wait()
            await end_tasks([writing])
            finished = asyncio.create_task(client.writes_finished())
            await asyncio.sleep(0)
            assert (writing.cancelled(), finished.done(), client.writes_in_flight, codes) == (
                True, False, 1, []
            )  # fmt: skip
            answers.set()
            await finished
            assert (client.writes_in_flight, codes) == (0, [200])

    asyncio.run(story())
