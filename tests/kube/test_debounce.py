"""How long work is deferred, also while the wall clock is set."""

import asyncio

import pytest

from quorate.api.meta import Key
from quorate.controllers.executor import Debounce
from tests.kube.virtual_clock import VirtualClock

A = Key("default", "a")


@pytest.mark.parametrize("set_by_s", [-3600.0, 3600.0, 0.0])
def test_deferred_work_is_due_after_the_delay_although_the_wall_clock_is_set(set_by_s: float) -> None:
    async def story() -> None:
        clock = VirtualClock(1000.0)
        debounce = Debounce(clock, 1.0)
        assert debounce.defer_until(A) == 1001.0
        clock.off_s = set_by_s
        await clock.advance_to(1000.25)
        assert debounce.defer_until(A) == 1001.0 + set_by_s
        await clock.advance_to(1001.0)
        assert debounce.defer_until(A) is None

    asyncio.run(story())
