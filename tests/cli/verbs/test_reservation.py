"""Which times ``quorate reservation create`` refuses."""

import pytest

from tests.cli.conftest import Quorate

CREATE = ("reservation", "create", "training", "--cluster-queues", "research")


@pytest.mark.parametrize("time", ["yesterday", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
@pytest.mark.parametrize("option", ["--start", "--end"])
def test_a_time_that_cannot_be_stored_is_refused(quorate: Quorate, option: str, time: str) -> None:
    done = quorate(*CREATE, option, time)
    assert done.code == 2
    assert f"{option}: {time!r} is no time (write 2026-12-05T22:00:00Z)" in done.err
