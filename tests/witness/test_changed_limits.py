"""No change of limits alone is a fault: what runs was admitted under the limits before."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.api.kueue import ClusterQueue, Cohort
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


def objects(limits: Mapping[str, Any]) -> list[ClusterQueue | Cohort]:
    return [
        a_cohort("inner", limits["inner"], "top"),
        a_cohort("top", limits["top"]),
        *(a_queue(name, *limits[name]) for name in QUEUES),
    ]


@settings(deadline=None, max_examples=150)
@given(limits=LIMITS, change=CHANGE, wanted=st.lists(st.sampled_from(QUEUES), max_size=12))
def test_a_change_of_limits_is_no_fault(
    limits: dict[str, Any], change: tuple[str, Any], wanted: list[str]
) -> None:
    running: list[object] = [a_workload(name, queue=name) for name in QUEUES]
    for number, name in enumerate(wanted):
        more = [*running, a_pod(f"{name}-{number}", job=name)]
        if not started().observe(facts(*objects(limits), *more), ADMITTED_S + 1).differences:
            running = more
    witness = started()
    witness.observe(facts(*objects(limits), *running), ADMITTED_S + 1)
    changed = objects({**limits, change[0]: change[1]})
    report = witness.observe(facts(*changed, *running), ADMITTED_S + 10 * GRACE_S)
    assert [each for each in report.differences if each.reason.is_fault] == []
