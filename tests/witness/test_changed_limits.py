"""No change of limits alone is a fault: what runs was admitted under the limits before."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.api.kueue import ClusterQueue, Cohort
from tests.search import examples
from tests.witness.objects import (
    ADMITTED_S,
    GRACE_S,
    a_cohort,
    a_pod,
    a_queue,
    a_workload,
    facts,
    started,
)

QUEUES = ("a", "b", "c")
AMOUNT = st.integers(0, 4)
QUOTA = st.tuples(AMOUNT, st.none() | AMOUNT, st.none() | AMOUNT).map(list)  # nominal, borrowing, lending
QUEUE = st.tuples(QUOTA, st.sampled_from(("inner", "top")))
LIMITS = st.fixed_dictionaries({"inner": QUOTA, "top": AMOUNT, **dict.fromkeys(QUEUES, QUEUE)})
CHANGE = st.one_of(
    st.tuples(st.sampled_from(QUEUES), QUEUE),
    st.tuples(st.just("inner"), QUOTA),
    st.tuples(st.just("top"), AMOUNT),
)


def objects(limits: Mapping[str, Any], generations: Mapping[str, int] = {}) -> list[ClusterQueue | Cohort]:
    return [
        a_cohort("inner", limits["inner"], "top", generations.get("inner", 1)),
        a_cohort("top", limits["top"], generation=generations.get("top", 1)),
        *(a_queue(name, *limits[name], generation=generations.get(name, 1)) for name in QUEUES),
    ]


WANTED = st.lists(st.sampled_from(QUEUES), max_size=12)


def running_within(limits: Mapping[str, Any], wanted: list[str]) -> list[object]:
    """Return the workloads of all queues, and those pods of ``wanted`` queues that fit the limits."""
    running: list[object] = [a_workload(name, queue=name) for name in QUEUES]
    for number, name in enumerate(wanted):
        more = [*running, a_pod(f"{name}-{number}", job=name)]
        if not started().observe(facts(*objects(limits), *more), ADMITTED_S + 1).differences:
            running = more
    return running


@examples(150)
@given(limits=LIMITS, change=CHANGE, wanted=WANTED)
def test_a_change_of_limits_is_no_fault(
    limits: dict[str, Any], change: tuple[str, Any], wanted: list[str]
) -> None:
    running = running_within(limits, wanted)
    witness = started()
    witness.observe(facts(*objects(limits), *running), ADMITTED_S + 1)
    changed = objects({**limits, change[0]: change[1]})
    report = witness.observe(facts(*changed, *running), ADMITTED_S + 10 * GRACE_S)
    assert [each for each in report.differences if each.reason.is_fault] == []


@examples(150)
@given(limits=LIMITS, change=CHANGE, wanted=WANTED, is_new=st.booleans())
def test_limits_between_two_observations_are_no_fault(
    limits: dict[str, Any], change: tuple[str, Any], wanted: list[str], is_new: bool
) -> None:
    """Limits were ``limits`` for a moment that the witness did not observe: before the last change."""
    running, after = running_within(limits, wanted), {**limits, change[0]: change[1]}
    witness = started()
    witness.observe(facts(*(() if is_new else objects(after))), ADMITTED_S - 1)
    seen = objects(after, {change[0]: 2 if is_new else 3})
    report = witness.observe(facts(*seen, *running), ADMITTED_S + 1)
    assert [each for each in report.differences if each.reason.is_fault] == []
