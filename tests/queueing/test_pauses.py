"""Rounds that pause after each head: they decide the same, and miss nothing that happens meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.queueing.decisions import Decision, Hold, Reserve
from quorate.quota.audit import audit
from tests.queueing.notation import Json
from tests.queueing.test_laws import QUEUES, a_world_at_work, assert_within_limits, usage_of, worlds, writes
from tests.queueing.world import World

MAX_RUNS = 1_000


def run_with_pauses(world: World, meanwhile: Callable[[], object] = lambda: None) -> list[Decision]:
    """Run one cycle that pauses after each head, and call ``meanwhile`` in each pause."""
    decisions: list[Decision] = []
    for _ in range(MAX_RUNS):
        cycle = world.admission_cycle.run(world.now, lambda: True)
        decisions += cycle.decisions
        if not cycle.is_paused:
            return decisions
        assert cycle.wake_at == world.now, "the rest of the round is due at once"
        meanwhile()
    raise AssertionError("the rounds do not end")


@pytest.mark.no_cover
@given(worlds())
def test_a_cycle_with_pauses_decides_the_same(given_: Json) -> None:
    at_once = writes(a_world_at_work(given_).admission_cycle.run(1000).decisions)
    world = a_world_at_work(given_)
    world.now = 1000
    assert writes(run_with_pauses(world)) == at_once


events = st.one_of(
    st.tuples(st.just("finish"), st.integers(0, 7)),
    st.tuples(st.just("delete"), st.integers(0, 7)),
    st.tuples(st.sampled_from(("Hold", "None")), st.sampled_from(QUEUES)),
    st.tuples(st.just("cohort"), st.sampled_from(QUEUES)),
)


@pytest.mark.no_cover
@given(worlds(preempting=False), st.lists(events, max_size=8))
def test_no_event_during_a_pause_is_lost(given_: Json, happening: list[tuple[str, Any]]) -> None:
    world = a_world_at_work(given_)

    def happen() -> None:
        kind: str
        what: Any
        kind, what = happening.pop() if happening else ("", "")
        names = sorted(world.workloads)
        if kind in ("finish", "delete") and names:
            world.run({kind: [names[what % len(names)]]})
        elif kind in ("Hold", "None"):
            world.run({"update": {"clusterQueues": {what: {"stopPolicy": kind}}}})
        elif kind == "cohort":
            world.run({"update": {"clusterQueues": {what: {"cohort": "top"}}}})

    decisions = run_with_pauses(world, happen)
    assert audit(usage_of(world.state)) == ()
    world.carry_out([each for each in decisions if each.key.name in world.workloads])
    world.settle()
    world.carry_out(run_with_pauses(world))
    world.settle()
    for queue in world.state.ledger.cluster_queues.values():
        world.state.ledger.note_external_change(queue)
    assert not [each for each in world.admission_cycle.run(world.now).decisions if isinstance(each, Reserve)]


def two_queues(strategy: str = "BestEffortFIFO") -> Json:
    return {
        "flavors": ["one"],
        "clusterQueues": {
            name: {"cohort": "top", "strategy": strategy, "quota": [{"one": {"cpu": 2}}]} for name in "ab"
        },
        "workloads": [
            {"name": "runs", "queue": "a", "requests": {"cpu": 4}, "admitted": "one"},
            {"name": "first", "queue": "a", "created": 1, "requests": {"cpu": 4}},
            {"name": "second", "queue": "b", "created": 2, "requests": {"cpu": 4}},
        ],
    }


def test_quota_that_is_released_during_a_pause_is_given_away_in_queue_order() -> None:
    world = World(two_queues())
    cycle = world.admission_cycle.run(world.now, lambda: True)
    assert cycle.is_paused, "after the first head"
    world.run({"finish": ["runs"]})
    decisions = run_with_pauses(world)
    assert [each.key.name for each in decisions if isinstance(each, Reserve)] == ["first"]
    assert_within_limits(world)


def test_a_head_of_a_queue_that_is_stopped_during_a_pause_is_not_admitted() -> None:
    given_ = two_queues()
    given_["workloads"][2]["requests"] = given_["workloads"][1]["requests"] = {"cpu": 2}
    world = World(given_)
    world.run({"delete": ["runs"]})
    cycle = world.admission_cycle.run(world.now, lambda: True)
    assert [each.key.name for each in cycle.decisions if isinstance(each, Reserve)] == ["first"]
    world.run({"update": {"clusterQueues": {"b": {"stopPolicy": "Hold"}}}})
    assert not [each for each in run_with_pauses(world) if isinstance(each, Reserve)]


def test_heads_that_stay_first_are_not_tried_for_ever() -> None:
    world = World(two_queues("StrictFIFO"))
    decisions = run_with_pauses(world)
    assert [each.key.name for each in decisions if isinstance(each, Hold)] == ["first", "second"]
