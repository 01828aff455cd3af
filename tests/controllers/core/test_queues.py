"""How often the status of a queue is reconciled."""

import pytest

from quorate.controllers.core.queues import QueuePace


@pytest.mark.parametrize(
    ("writes", "intervals"),
    [
        pytest.param([True, False], [1, 1], id="one change is followed by a reconcile a second later"),
        pytest.param(
            [True] * 8, [1, 1, 2, 4, 8, 10, 10, 10], id="the interval grows while there is a difference"
        ),
        pytest.param([True] * 4 + [False, True], [1, 1, 2, 4, 1, 1], id="no difference resets the interval"),
    ],
)
def test_the_interval_of_a_queue_grows_while_its_status_differs(
    writes: list[bool], intervals: list[float]
) -> None:
    pace, found = QueuePace(), []
    for wrote in writes:
        pace = pace.then(100.0, writes=wrote)
        found.append(pace.next_at(queues=60) - 100.0)
    assert found == intervals


@pytest.mark.parametrize(("queues", "interval"), [(1, 5), (30, 5), (90, 15), (2_000, 30)])
def test_the_longest_interval_grows_with_the_number_of_queues(queues: int, interval: float) -> None:
    pace = QueuePace()
    for _ in range(20):
        pace = pace.then(100.0, writes=True)
    assert pace.next_at(queues) - 100.0 == interval
