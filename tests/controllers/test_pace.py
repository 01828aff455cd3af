"""How often queues are written, and workloads told why they wait."""

import pytest

from quorate.api.meta import Key
from quorate.controllers.admission.pending_reasons import PendingReasonThrottle
from quorate.controllers.core.queues import Look

ONE, OTHER = Key("team", "one"), Key("team", "other")


@pytest.mark.parametrize(
    ("writes", "intervals"),
    [
        pytest.param([True, False], [1, 1], id="one change is followed by a look a second later"),
        pytest.param(
            [True] * 8, [1, 1, 2, 4, 8, 10, 10, 10], id="what never rests is looked at ever more rarely"
        ),
        pytest.param(
            [True] * 4 + [False, True], [1, 1, 2, 4, 1, 1], id="a look that finds nothing starts over"
        ),
    ],
)
def test_the_pace_of_looks_at_a_queue(writes: list[bool], intervals: list[float]) -> None:
    look, found = Look(), []
    for wrote in writes:
        look = look.then(100.0, writes=wrote)
        found.append(look.next_at(queues=60) - 100.0)
    assert found == intervals


@pytest.mark.parametrize(("queues", "interval"), [(1, 5), (30, 5), (90, 15), (2_000, 30)])
def test_many_queues_that_never_rest_are_looked_at_more_rarely_still(queues: int, interval: float) -> None:
    look = Look()
    for _ in range(20):
        look = look.then(100.0, writes=True)
    assert look.next_at(queues) - 100.0 == interval


def test_a_verdict_is_told_once_it_has_stood_for_a_second() -> None:
    verdicts = PendingReasonThrottle()
    verdicts.passed(ONE, 10.0)
    verdicts.passed(ONE, 10.9)  # another one does not put it off
    assert verdicts.take_due(10.9) == []
    assert verdicts.next_due() == 11.0
    assert verdicts.take_due(11.0) == [ONE]
    assert verdicts.next_due() is None


def test_who_was_told_one_is_told_another_after_a_pause() -> None:
    verdicts = PendingReasonThrottle()
    verdicts.passed(ONE, 10.0)
    assert verdicts.take_due(11.0) == [ONE]
    verdicts.passed(ONE, 11.5)
    assert verdicts.next_due() == 16.0
    verdicts.passed(OTHER, 11.5)  # as others are meanwhile
    assert verdicts.take_due(12.5) == [OTHER]
    verdicts.passed(ONE, 15.5)
    assert verdicts.take_due(16.0) == [ONE]


def test_who_waits_anew_is_told_as_if_for_the_first_time() -> None:
    verdicts = PendingReasonThrottle()
    verdicts.passed(ONE, 10.0)
    assert verdicts.take_due(11.0) == [ONE]
    verdicts.over(ONE)
    verdicts.passed(ONE, 11.5)
    assert verdicts.take_due(12.5) == [ONE]


def test_newcomers_are_told_a_few_each_second_after_they_have_waited_one() -> None:
    verdicts = PendingReasonThrottle()
    crowd = [Key("team", f"like-{number}") for number in range(50)]
    for key in crowd:
        verdicts.came(key, 10.0)
    verdicts.over(crowd[0])  # was admitted
    verdicts.passed(crowd[1], 10.5)  # was judged itself
    assert verdicts.take_newcomers(10.9) == []
    assert verdicts.next_due() == 11.0
    assert verdicts.take_newcomers(11.0) == crowd[2:22]
    assert verdicts.take_due(11.5) == [crowd[1]]
    assert verdicts.next_due() == 12.0
    assert verdicts.take_newcomers(12.0) == crowd[22:42]
    verdicts.came(crowd[2], 12.0)  # knows already
    assert verdicts.take_newcomers(13.0) == crowd[42:]
    assert verdicts.next_due() is None


def test_while_others_are_admitted_newcomers_are_told_one_at_a_time() -> None:
    verdicts = PendingReasonThrottle()
    crowd = [Key("team", f"like-{number}") for number in range(30)]
    for key in crowd:
        verdicts.came(key, 10.0)
    verdicts.moved(10.5)
    assert verdicts.take_newcomers(11.0) == crowd[:1]
    verdicts.moved(11.9)
    assert verdicts.take_newcomers(12.0) == crowd[1:2]
    assert verdicts.take_newcomers(13.0) == crowd[2:22]


def test_while_others_are_admitted_a_verdict_must_stand_for_longer() -> None:
    verdicts = PendingReasonThrottle()
    verdicts.passed(ONE, 10.0)
    for now in (11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0):
        verdicts.moved(now - 0.1)
        assert verdicts.take_due(now) == []
    verdicts.moved(17.9)
    assert verdicts.take_due(18.0) == [ONE]


def test_a_verdict_is_told_soon_after_the_last_admission() -> None:
    verdicts = PendingReasonThrottle()
    verdicts.moved(9.9)
    verdicts.passed(ONE, 10.0)
    verdicts.moved(10.5)
    assert verdicts.take_due(11.0) == []
    assert verdicts.take_due(12.0) == [ONE]
