"""Submissions that forecasts expect: as many as were seen, of each kind of work."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.kueue import Workload
from quorate.api.meta import at_epoch
from quorate.queueing.planning.work_kinds import WorkKind
from quorate.simulate.estimates.expected_arrivals import ArrivalStore, arrivals_of
from quorate.simulate.estimates.run_time_store import RunTimeStore
from quorate.simulate.inputs.distributions import Choice, Exponential
from quorate.simulate.limits import FEWEST_EXPECTED, HORIZON_S

NOW = 1_772_366_400.0


def submitted(name: str, seconds_ago: float, pods: int = 1, priority: int = 0) -> Workload:
    return codec.convert(
        Workload,
        {
            "metadata": {
                "name": name, "namespace": "team", "uid": name,
                "creationTimestamp": codec.to_builtins(at_epoch(NOW - seconds_ago)),
            },
            "spec": {"queueName": "a", "priority": priority, "podSets": [{"name": "main", "count": pods}]},
        },
    )  # fmt: skip


def test_each_kind_comes_as_often_as_it_came() -> None:
    seen = [submitted(f"train-{number}", 1000 * number, pods=number + 1, priority=5) for number in range(4)]
    seen += [submitted("once", 2000)]
    expected = arrivals_of(seen).expected(RunTimeStore(), NOW, 60.0, 0)
    once, train = expected.classes
    assert train.arrivals.every == Exponential(3000 / 4)
    assert once.arrivals.every == Exponential(3000)
    assert (train.namespace, train.queues, train.priority) == ("team", ("a",), 5)
    (shape,) = train.pod_sets
    assert shape.count == Choice((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 4.0))
    assert train.runs == Choice((60.0,), (1.0,))  # nothing is known


@pytest.mark.parametrize(
    "template",
    [
        pytest.param({"spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}}, id="a text"),
        pytest.param({"spec": {"overhead": {f"a.b/{number}": "1" for number in range(9000)}}}, id="too many"),
    ],
)
def test_a_workload_with_an_unreadable_template_is_not_expected_again(template: dict[str, Any]) -> None:
    """It is never admitted, and a run that played such jobs would end all forecasts."""
    hostile = submitted("hostile", 900)
    (pod_set,) = hostile.spec.pod_sets
    unreadable = replace(pod_set, template=msgspec.Raw(codec.encode(template)))
    hostile = replace(hostile, spec=replace(hostile.spec, pod_sets=(unreadable,)))
    expected = arrivals_of([hostile, submitted("x", 900)]).expected(RunTimeStore(), NOW, 60.0, 0)
    assert len(expected.classes) == 1


def test_known_run_times_are_expected() -> None:
    times = RunTimeStore()
    for number in range(3):
        times.add(WorkKind(("team", "a"), "Workload", "train-#"), str(number), 100.0 * (number + 1))
    train, other = (
        arrivals_of([submitted("train-1", 900), submitted("x", 900)]).expected(times, NOW, 1.0, 0).classes
    )
    assert train.runs == Choice((100.0, 200.0, 300.0), (1.0, 2.0, 3.0))
    assert other.runs == train.runs  # of its queue


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param(0, FEWEST_EXPECTED, id="a few always"),
        pytest.param(1000, FEWEST_EXPECTED + 500, id="more if more wait"),
    ],
)
def test_submissions_end_when_there_are_many(waiting: int, expected: int) -> None:
    often = arrivals_of(submitted(f"{kind}-{n}", 600 - n) for kind in "abcde" for n in range(40))
    found = often.expected(RunTimeStore(), NOW, 60.0, waiting)
    assert found.horizon_s == pytest.approx(expected * 600 / 200)
    assert arrivals_of([]).expected(RunTimeStore(), NOW, 60.0, waiting).horizon_s == HORIZON_S


@pytest.mark.parametrize(
    ("seconds_ago", "horizon_s"),
    [
        pytest.param(10, 4 * 600, id="a new cluster"),
        pytest.param(7200, 4 * 7200, id="two hours"),
        pytest.param(1e6, HORIZON_S, id="longer than a forecast"),
    ],
)
def test_submissions_are_expected_a_few_times_as_long_as_they_were_seen(
    seconds_ago: float, horizon_s: float
) -> None:
    seen = arrivals_of([submitted("a-1", seconds_ago), submitted("a-2", 5)])
    assert seen.expected(RunTimeStore(), NOW, 60.0, 0).horizon_s == horizon_s


def test_the_store_is_bounded_and_counts_each_workload_once() -> None:
    store = ArrivalStore(most_kinds=2, most_submissions=3)
    for name in ("x", "y", "z"):
        for number in range(5):
            store.learn(submitted(f"{name}-{number}", 5000 - 1000 * number))
            store.learn(submitted(f"{name}-{number}", 5000 - 1000 * number))
    assert len(store) == 2
    found = store.expected(RunTimeStore(), NOW, 60.0, 0).classes
    # The latest three of each kind that is kept, in the 3,000 s since the first of them.
    assert [each.arrivals.every for each in found] == [Exponential(1000.0)] * 2
