"""How long a copy that our own write replaced is not acted on, and when it counts as stale."""

import asyncio

import pytest

from quorate.api.meta import Key
from quorate.kube.controller.expectations import Expectations
from quorate.kube.limits import OWN_WRITE_TIMEOUT_S
from quorate.kube.resources import JOBS
from quorate.kube.writes import Patch
from tests.kube.virtual_clock import VirtualClock

A = Key("default", "a")


@pytest.mark.parametrize("set_by_s", [-3600.0, 3600.0, 0.0])
def test_a_write_is_pending_for_the_timeout_although_the_wall_clock_is_set(set_by_s: float) -> None:
    async def story() -> None:
        clock = VirtualClock(1000.0)
        expectations = Expectations(clock)
        expectations.expect(A, [Patch(JOBS, A, "7", {})])
        clock.off_s = set_by_s
        assert expectations.pending_until(A, {("jobs", "7")}) == 1000.0 + set_by_s + OWN_WRITE_TIMEOUT_S
        assert expectations.pending_until(A, {("jobs", "8")}) is None
        await clock.advance_to(1000.0 + OWN_WRITE_TIMEOUT_S)
        assert expectations.pending_until(A, {("jobs", "7")}) is None

    asyncio.run(story())


def test_a_replaced_copy_is_pending_until_the_timeout_and_then_stale() -> None:
    async def story() -> None:
        clock = VirtualClock(1000.0)
        expectations = Expectations(clock)
        expectations.expect(A, [Patch(JOBS, A, "7", {})])
        assert not expectations.is_stale(A, {("jobs", "7")})
        await clock.advance_to(1000.0 + OWN_WRITE_TIMEOUT_S)
        assert expectations.pending_until(A, {("jobs", "7")}) is None
        assert expectations.is_stale(A, {("jobs", "7")})
        assert expectations.pending_until(A, {("jobs", "8")}) is None
        assert not expectations.is_stale(A, {("jobs", "8")})

    asyncio.run(story())


def test_a_version_between_two_writes_is_pending_too() -> None:
    async def story() -> None:
        expectations = Expectations(VirtualClock(1000.0))
        expectations.expect(A, [Patch(JOBS, A, "7", {}), Patch(JOBS, A, "7", {})], {("jobs", "8")})
        assert expectations.pending_until(A, {("jobs", "8")}) == 1000.0 + OWN_WRITE_TIMEOUT_S
        assert expectations.pending_until(A, {("jobs", "9")}) is None

    asyncio.run(story())


def test_a_copy_is_stale_after_a_failed_write_that_may_have_taken_effect() -> None:
    async def story() -> None:
        clock = VirtualClock(1000.0)
        expectations = Expectations(clock)
        expectations.doubt(A, [Patch(JOBS, A, "7", {})])
        assert expectations.pending_until(A, {("jobs", "7")}) is None
        assert expectations.is_stale(A, {("jobs", "7")})
        expectations.expect(A, [Patch(JOBS, A, "8", {})])  # on the job as the server has it
        assert expectations.pending_until(A, {("jobs", "7")}) == 1000.0 + OWN_WRITE_TIMEOUT_S
        assert expectations.pending_until(A, {("jobs", "9")}) is None

    asyncio.run(story())
