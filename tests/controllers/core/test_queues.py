"""How often the status of a queue is reconciled."""

import pytest

from quorate.controllers.core.queues import QueuePace


@pytest.mark.parametrize(
    ("writes", "intervals"),
    [
        pytest.param([True, False], [1, 1], id="one change is followed by a reconcile a second later"),
        pytest.param([True] * 6, [1, 1, 4, 12, 12, 12], id="the interval grows while there is a difference"),
        pytest.param([True] * 4 + [False, True], [1, 1, 4, 12, 1, 1], id="no difference resets the interval"),
    ],
)
def test_the_interval_of_a_queue_grows_while_its_status_differs(
    writes: list[bool], intervals: list[float]
) -> None:
    pace, found = QueuePace(), []
    for wrote in writes:
        pace = pace.then(100.0, writes=wrote)
        found.append(pace.next_at(queues=60, write_s=0.01) - 100.0)
    assert found == pytest.approx(intervals)


@pytest.mark.parametrize(
    ("queues", "write_s", "interval"),
    [
        pytest.param(1, 0.01, 5, id="few queues"),
        pytest.param(60, 0.005, 6, id="a fast server"),
        pytest.param(60, 0.02, 24, id="a busy server"),
        pytest.param(2_000, 0.005, 30, id="many queues"),
    ],
)
def test_the_longest_interval_grows_with_the_queues_and_with_the_time_of_a_write(
    queues: int, write_s: float, interval: float
) -> None:
    pace = QueuePace()
    for _ in range(20):
        pace = pace.then(100.0, writes=True)
    assert pace.next_at(queues, write_s) - 100.0 == pytest.approx(interval)
