"""Computations on large objects beside the event loop."""

import asyncio
import sys
import threading

import pytest

from quorate.api.limits import LARGE_BYTES
from quorate.kube.computations import Computations
from quorate.kube.limits import SWITCH_INTERVAL_S

DEADLINE_S = 30.0


def test_large_objects_are_processed_one_at_a_time_beside_the_event_loop() -> None:
    running: set[int] = set()
    most = 0
    loop_continued = threading.Event()

    def process(number: int) -> int:
        nonlocal most
        running.add(number)
        most = max(most, len(running))
        assert loop_continued.wait(DEADLINE_S)
        running.remove(number)
        return number

    async def scenario() -> None:
        computations = Computations()
        results = asyncio.gather(*(computations.run(LARGE_BYTES, process, number) for number in range(5)))
        await asyncio.sleep(0)  # until the first has begun
        assert await computations.run(LARGE_BYTES - 1, len, "small") == 5
        loop_continued.set()
        assert await results == [0, 1, 2, 3, 4]

    asyncio.run(scenario())
    assert most == 1


def test_the_event_loop_waits_a_short_time_for_a_thread() -> None:
    python_interval_s = sys.getswitchinterval()
    try:
        interval_s = asyncio.run(Computations().run(LARGE_BYTES, sys.getswitchinterval))
    finally:
        sys.setswitchinterval(python_interval_s)
    assert interval_s == pytest.approx(SWITCH_INTERVAL_S)
