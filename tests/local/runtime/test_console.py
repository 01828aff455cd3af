"""Clients that attach to a container receive what it writes, however slowly they read."""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.kube.clock import WallClock
from quorate.local.runtime.containers.console import MAX_UNREAD, READ_BYTES, Console
from quorate.local.runtime.containers.processes import Attempt
from quorate.local.runtime.pod_types import Container


async def received(console: Console, pauses: int) -> bytes:
    """Return the output until its end, with so many pauses before each piece is taken."""
    text = b""
    async with aclosing(console.output()) as outputs:
        async for _, content in outputs:
            text += content
            for _ in range(pauses):
                await asyncio.sleep(0)
    return text


@given(
    pieces=st.lists(st.integers(1, 3 * READ_BYTES), max_size=8),
    pauses=st.lists(st.integers(0, 20), min_size=1, max_size=3),
    until_finish=st.integers(0, 50),
)
def test_every_client_receives_every_byte_in_order(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[int], pauses: list[int], until_finish: int
) -> None:
    attempt = Attempt(tmp_path_factory.getbasetemp() / "console", "uid", "main", 0)
    attempt.directory.mkdir(parents=True, exist_ok=True)
    written = b"".join(bytes([65 + number]) * size for number, size in enumerate(pieces))

    async def run() -> list[bytes]:
        console = Console.adopt(attempt, Container(name="main"), WallClock())
        clients = [asyncio.create_task(received(console, count)) for count in pauses]
        await asyncio.sleep(0)
        end = os.open(attempt.pipe("stdout"), os.O_WRONLY | os.O_NONBLOCK)
        rest = written
        while rest:
            try:
                rest = rest[os.write(end, rest) :]
            except BlockingIOError:
                await asyncio.sleep(0)
        for _ in range(until_finish):
            await asyncio.sleep(0)
        os.close(end)
        console.finish()
        return await asyncio.gather(*clients)

    assert asyncio.run(run()) == [written] * len(pauses)


def test_a_container_waits_for_a_client_that_reads_nothing(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, "uid", "main", 0)
    attempt.directory.mkdir(parents=True)

    async def run() -> int:
        console = Console.adopt(attempt, Container(name="main"), WallClock())
        end = os.open(attempt.pipe("stdout"), os.O_WRONLY | os.O_NONBLOCK)
        taken, full = 0, 0
        async with aclosing(console.output()) as outputs:
            first = asyncio.ensure_future(anext(outputs))
            while full < 1000:
                await asyncio.sleep(0)
                try:
                    taken += os.write(end, b"x" * READ_BYTES)
                    full = 0
                except BlockingIOError:
                    full += 1
            await first
        os.close(end)
        console.finish()
        return taken

    assert asyncio.run(run()) < (MAX_UNREAD + 32) * READ_BYTES
