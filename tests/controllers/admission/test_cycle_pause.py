"""Cycles in quick succession take a bounded part of the time."""

import pytest

from quorate.controllers.admission.driver import cycle_pause_s
from quorate.controllers.limits import CYCLE_SHARE, MAX_CYCLE_PAUSE_S


@pytest.mark.parametrize("cycle_s", [0.0, 0.0005, 0.002, 0.0025])
def test_short_cycles_take_at_most_their_share_of_the_time(cycle_s: float) -> None:
    assert cycle_s <= CYCLE_SHARE * (cycle_s + cycle_pause_s(cycle_s)) + 1e-12


@pytest.mark.parametrize("cycle_s", [0.02, 0.2, 2.0])
def test_no_cycle_delays_the_next_one_for_longer_than_the_limit(cycle_s: float) -> None:
    assert cycle_pause_s(cycle_s) == MAX_CYCLE_PAUSE_S
