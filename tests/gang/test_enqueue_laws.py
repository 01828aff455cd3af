"""Laws of the admission of groups, in worlds of three nodes at most, and the memory of a waiting group."""

import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.gang.enqueue_worlds import Json, group, group_states, rq, running, world

FIFO = {"name": "f", "dequeueStrategy": "fifo"}


def _asked(draw: st.DrawFn, name: str) -> Json:
    least = draw(st.none() | st.integers(0, 5))
    phase = draw(st.sampled_from(["", "Pending", "Inqueue", "Running"]))
    given: Json = {"created": draw(st.integers(0, 3)), "queue": draw(st.sampled_from(["default", "f"]))}
    return group(name, None if least is None else str(least), phase=phase, **given)


@st.composite
def crowds(draw: st.DrawFn) -> Json:
    groups = [_asked(draw, name) for name in "abcdefg"[: draw(st.integers(1, 7))]]
    pods = [
        running(each["name"], str(draw(st.integers(0, 2)))) for each in groups if each["phase"] == "Running"
    ]
    quotas = [rq({"cpu": draw(st.integers(0, 12))}), rq({"requests.cpu": draw(st.integers(0, 12))}, name="b")]
    queues = [{"name": "default", "maxPodGroups": draw(st.integers(0, 5))}, FIFO]
    nodes = [{"name": f"n{index}", "cpu": draw(st.integers(1, 4))} for index in range(1, 4)]
    return {"podGroups": groups, "pods": pods, "quotas": quotas, "queues": queues, "nodes": nodes}


@given(crowd=crowds(), order=st.randoms(use_true_random=False))
def test_the_order_of_objects_changes_nothing(crowd: Json, order: Any) -> None:
    shuffled = {kind: order.sample(objects, len(objects)) for kind, objects in crowd.items()}
    here, there = world(crowd, "proportion"), world(shuffled, "proportion")
    assert here.session() == there.session()
    assert group_states(here) == group_states(there)


@given(crowd=crowds())
def test_no_group_is_admitted_that_the_next_session_rolls_back(crowd: Json) -> None:
    here = world(crowd)
    here.session()
    admitted = {key for key, each in here.groups.items() if each.status.phase == "Inqueue"}
    here.session()
    assert {key for key in admitted if here.groups[key].status.phase == "Pending"} == set()


@given(crowd=crowds())
def test_more_capacity_and_quota_cause_no_rollback(crowd: Json) -> None:
    here = world(crowd)
    here.session()
    admitted = {key for key, each in here.groups.items() if each.status.phase == "Inqueue"}
    here.do("addNodes", [{"name": "n9", "cpu": 9}])
    here.do("setQuota", {"name": "rq", "hard": {"cpu": 99}})
    here.session()
    assert {key for key in admitted if here.groups[key].status.phase == "Pending"} == set()


def test_a_waiting_group_uses_little_memory() -> None:
    """At most 10 KiB, with all that a session leaves behind."""
    groups = [group(f"g{index}", "9", created=index) for index in range(500)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        (here := world({"podGroups": groups})).session()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(here.groups) == 500
    assert taken < 500 * 10 * 1024
