"""Only the latest value of a key is written, within its delay, and again after a failure."""

import asyncio
from collections.abc import Awaitable, Callable

from quorate.api.meta import Key
from quorate.kube.controller.latest import LatestValueWriter
from quorate.kube.errors import Unreachable
from tests.kube.virtual_clock import VirtualClock, settle

A, B = Key("", "a"), Key("", "b")

Story = Callable[[LatestValueWriter[str], VirtualClock, list[str]], Awaitable[None]]


def play(story: Story, failures: int = 0) -> None:
    async def run() -> None:
        clock, written, left = VirtualClock(), list[str](), [failures]

        async def write(key: Key, value: str) -> None:
            await asyncio.sleep(0)
            if left[0]:
                left[0] -= 1
                raise Unreachable("PATCH /", "http://x", "broken")
            written.append(f"{key.name}={value}")

        writer = LatestValueWriter("under test", write, clock, workers=1)
        running = asyncio.create_task(writer.run())
        await story(writer, clock, written)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def test_a_value_that_is_replaced_before_its_write_is_never_written() -> None:
    async def story(writer: LatestValueWriter[str], clock: VirtualClock, written: list[str]) -> None:
        writer.put(A, "1")
        writer.put(A, "2")
        await settle()
        assert written == ["a=2"]

    play(story)


def test_a_delayed_value_is_written_after_its_delay_or_when_it_is_flushed() -> None:
    async def story(writer: LatestValueWriter[str], clock: VirtualClock, written: list[str]) -> None:
        writer.put(A, "1", delay_s=5.0)
        writer.put(B, "1", delay_s=5.0)
        await clock.advance_to(1004.0)
        assert written == []
        writer.flush(B)
        await settle()
        assert written == ["b=1"]
        await clock.advance_to(1005.0)
        assert written == ["b=1", "a=1"]

    play(story)


def test_a_failed_write_is_retried_with_the_latest_value() -> None:
    async def story(writer: LatestValueWriter[str], clock: VirtualClock, written: list[str]) -> None:
        writer.put(A, "1")
        await settle()
        assert written == []
        writer.put(A, "2", delay_s=60.0)
        await clock.advance_to(1001.0)
        assert written == ["a=2"]
        await clock.advance_to(1060.0)
        assert written == ["a=2"]

    play(story, failures=1)


def test_a_value_that_is_put_while_the_same_value_is_written_is_written_again() -> None:
    async def run() -> list[str]:
        written = list[str]()

        async def write(key: Key, value: str) -> None:
            written.append(value)
            if len(written) == 1:
                writer.put(key, value)  # what the value stands for has changed
            await asyncio.sleep(0)

        writer = LatestValueWriter("under test", write, VirtualClock(), workers=1)
        running = asyncio.create_task(writer.run())
        writer.put(A, "1")
        await settle()
        running.cancel()
        await asyncio.wait([running])
        return written

    assert asyncio.run(run()) == ["1", "1"]
