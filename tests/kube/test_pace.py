"""A throttle lets a burst go at once and then one after the other, evenly."""

import asyncio

import pytest

from quorate.kube.pace import Throttle


@pytest.mark.parametrize(
    ("per_second", "burst", "turns", "at_least_s"),
    [
        pytest.param(100.0, 5, 5, 0.0, id="a burst goes at once"),
        pytest.param(100.0, 1, 6, 0.05, id="then each waits for its turn"),
        pytest.param(100.0, 5, 15, 0.1, id="and a burst is had once"),
    ],
)
def test_the_pace(per_second: float, burst: int, turns: int, at_least_s: float) -> None:
    async def taken_s() -> float:
        throttle, clock = Throttle(per_second, burst), asyncio.get_running_loop().time
        began = clock()
        await asyncio.gather(*(throttle.turn() for _ in range(turns)))
        return clock() - began

    took_s = asyncio.run(taken_s())
    # Timers may fire a clock tick early, and a busy machine is late: what is exact is the least it takes.
    assert took_s >= at_least_s - 0.001
