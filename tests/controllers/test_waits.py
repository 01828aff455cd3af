"""What is put off, and for how long our own writes are waited for, whatever is done to the time of day."""

import asyncio

import pytest

from quorate.api.meta import Key
from quorate.controllers.echoes import ECHO_S, Echoes
from quorate.controllers.patience import Patience
from quorate.controllers.writes import Patch
from quorate.kube.resources import JOBS
from tests.kube.virtual import VirtualClock

A = Key("default", "a")
SET_BY_S = [
    pytest.param(-3600.0, id="back"),
    pytest.param(3600.0, id="forwards"),
    pytest.param(0.0, id="not at all"),
]


@pytest.mark.parametrize("set_by_s", SET_BY_S)
def test_what_is_put_off_is_done_in_time_by_a_clock_that_is_set(set_by_s: float) -> None:
    async def story() -> None:
        clock = VirtualClock(1000.0)
        patience = Patience(clock, 1.0)
        assert patience.put_off(A) == 1001.0
        clock.off_s = set_by_s
        await clock.advance_to(1000.25)
        assert patience.put_off(A) == 1001.0 + set_by_s
        await clock.advance_to(1001.0)
        assert patience.put_off(A) is None

    asyncio.run(story())


@pytest.mark.parametrize("set_by_s", SET_BY_S)
def test_a_lost_write_is_doubted_in_time_by_a_clock_that_is_set(set_by_s: float) -> None:
    async def story() -> None:
        clock = VirtualClock(1000.0)
        echoes = Echoes(clock)
        echoes.expect(A, [Patch(JOBS, A, "7", {})])
        clock.off_s = set_by_s
        assert echoes.awaited(A, {("jobs", "7")}) == 1000.0 + set_by_s + ECHO_S
        assert echoes.awaited(A, {("jobs", "8")}) is None
        await clock.advance_to(1000.0 + ECHO_S)
        assert echoes.awaited(A, {("jobs", "7")}) is None

    asyncio.run(story())


def test_a_copy_that_our_own_writes_have_overtaken_is_waited_for_and_then_not_believed() -> None:
    async def story() -> None:
        clock = VirtualClock(1000.0)
        echoes = Echoes(clock)
        echoes.expect(A, [Patch(JOBS, A, "7", {})])
        assert not echoes.are_doubted(A, {("jobs", "7")})
        await clock.advance_to(1000.0 + ECHO_S)
        assert echoes.awaited(A, {("jobs", "7")}) is None
        assert echoes.are_doubted(A, {("jobs", "7")})
        assert echoes.awaited(A, {("jobs", "8")}) is None
        assert not echoes.are_doubted(A, {("jobs", "8")})

    asyncio.run(story())


def test_a_copy_is_not_believed_after_a_write_that_may_have_come_about_though_it_failed() -> None:
    async def story() -> None:
        clock = VirtualClock(1000.0)
        echoes = Echoes(clock)
        echoes.doubt(A, [Patch(JOBS, A, "7", {})])
        assert echoes.awaited(A, {("jobs", "7")}) is None
        assert echoes.are_doubted(A, {("jobs", "7")})
        echoes.expect(A, [Patch(JOBS, A, "8", {})])  # on the job as the server has it
        assert echoes.awaited(A, {("jobs", "7")}) == 1000.0 + ECHO_S
        assert echoes.awaited(A, {("jobs", "9")}) is None

    asyncio.run(story())
