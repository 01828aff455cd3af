"""Plans that are kept from one cycle to the next are those that a new process makes."""

from typing import Any

import pytest
from hypothesis import given as given_by
from hypothesis import settings
from hypothesis import strategies as st

from quorate.api.meta import Key
from quorate.queueing.conditions import has_quota_reservation
from quorate.queueing.outside_quota import OutsideUse
from quorate.queueing.planning.work_kinds import WorkKind
from quorate.queueing.scheduling.planned_starts import PlannedStarts
from quorate.quota.amount import FlavorResource
from tests.queueing.notation import Json
from tests.queueing.world import World

QUEUES = ("a", "b")
JOBS = 7
CPU = FlavorResource("default", "cpu")

Event = tuple[str, int, int]
Events = st.lists(
    st.one_of(
        st.tuples(st.just("finish"), st.integers(0, JOBS - 1), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, JOBS - 1), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 30), st.just(0)),
        st.tuples(st.just("quota"), st.integers(0, 1), st.integers(3, 9)),
        st.tuples(st.just("learn"), st.integers(0, 1), st.integers(300, 400)),  # none runs longer
    ),
    max_size=8,
)
Job = st.tuples(
    st.sampled_from(QUEUES),
    st.integers(1, 8),
    st.none() | st.integers(5, 60),
    st.integers(0, 1),  # priority
    st.integers(0, 3),  # after how many events it is created
)


def job(number: int, drawn: tuple[str, int, int | None, int, int]) -> Json:
    name, cpu, maximum_s, priority, _ = drawn
    return {
        "name": f"j{number}",
        "queue": name,
        "requests": {"cpu": cpu},
        "created": number,
        "maximumExecutionTimeSeconds": maximum_s,
        "priority": priority,
        "create": "later",
    }


def run_cycles(world: World) -> None:
    for _ in range(3):
        world.carry_out(world.admission_cycle.run(world.now).decisions)
        world.settle()


def apply(world: World, kind: str, first: int, second: int) -> None:
    name = f"j{first}"
    match kind:
        case "finish" if name in world.workloads and has_quota_reservation(world.workloads[name]):
            world.run({"finish": [name]})
        case "delete" if name in world.workloads:
            world.run({"delete": [name]})
        case "wait":
            world.now += first
        case "quota":
            quota = [{"default": {"cpu": second}}]
            world.run({"update": {"clusterQueues": {QUEUES[first]: {"quota": quota}}}})
        case "learn":
            world.state.set_learned_bounds({WorkKind(("default", QUEUES[first])): float(second)})


@pytest.mark.parametrize("mode", ["EASY", "Conservative"])
@settings(max_examples=30, deadline=None)
@given_by(st.lists(Job, min_size=JOBS, max_size=JOBS), Events)
def test_kept_plans_are_those_of_a_new_process(mode: str, drawn: list[Any], events: list[Event]) -> None:
    rules: Json = {"quota": [{"default": {"cpu": 6}}], "annotations": {"backfill": mode}, "cohort": "all"}
    jobs = [job(number, each) for number, each in enumerate(drawn)]
    queues = dict.fromkeys(QUEUES, rules)
    world = World({"flavors": ["default"], "clusterQueues": queues, "workloads": jobs, "now": 10})
    for step, event in enumerate([("wait", 0, 0), *events]):
        created = [each["name"] for each, of in zip(jobs, drawn, strict=True) if of[4] == step]
        world.run({"create": created})
        apply(world, *event)
        run_cycles(world)
        state = world.state
        for name in QUEUES:
            plans = PlannedStarts(state).of_queue(state.ledger.cluster_queues[name], world.now)
            told = {plan.entry.key: state.ledger.announced[plan.entry.key] for plan in plans}
            assert {plan.entry.key: plan.at for plan in plans} == {
                key: announced.planned_at for key, announced in told.items()
            }, f"{event} in queue {name}"


def test_a_planned_start_moves_earlier_when_another_queue_releases_quota_early() -> None:
    """At 110 something still ends, and what the plan needs is free then, although y may run longer."""
    running = (("w", 1, 10), ("x", 2, 50), ("y", 2, 300), ("z", 1, 100))
    jobs: list[Json] = [
        {"name": name, "queue": "b", "requests": {"cpu": cpu}, "maximumExecutionTimeSeconds": maximum_s}
        for name, cpu, maximum_s in running
    ]
    jobs.append({"name": "large", "queue": "a", "requests": {"cpu": 6}, "create": "later"})
    rules: Json = {"quota": [{"default": {"cpu": 4}}], "cohort": "all"}
    queues = {"a": {**rules, "annotations": {"backfill": "EASY"}}, "b": rules}
    world = World({"flavors": ["default"], "clusterQueues": queues, "workloads": jobs, "now": 10})
    run_cycles(world)
    steps: list[tuple[Json, float]] = [
        ({"create": ["large"]}, 110),
        ({"finish": ["w"]}, 110),
        ({"finish": ["y"]}, 60),
    ]
    for step, planned_at in steps:
        world.run(step)
        run_cycles(world)
        (announced,) = world.state.ledger.announced.values()
        assert announced.planned_at == planned_at


def test_a_planned_start_moves_later_when_pods_use_more_than_their_quota() -> None:
    """At 50 half of the quota is free, unless pods of another workload use a part of it."""
    jobs: list[Json] = [
        {"name": name, "queue": "a", "requests": {"cpu": cpu}, "maximumExecutionTimeSeconds": maximum_s}
        for name, cpu, maximum_s in (("w", 3, 40), ("x", 3, 90))
    ]
    jobs.append({"name": "large", "queue": "a", "requests": {"cpu": 3}, "create": "later"})
    rules: Json = {"quota": [{"default": {"cpu": 6}}], "annotations": {"backfill": "EASY"}}
    world = World({"flavors": ["default"], "clusterQueues": {"a": rules}, "workloads": jobs, "now": 10})
    run_cycles(world)
    world.run({"create": ["large"]})
    run_cycles(world)
    plans, queue = PlannedStarts(world.state), world.state.ledger.cluster_queues["a"]
    assert [plan.at for plan in plans.of_queue(queue, world.now)] == [50]
    world.state.ledger.put_outside(Key("default", "w"), OutsideUse("a", {CPU: 1000}))
    assert [plan.at for plan in plans.of_queue(queue, world.now)] == [100]
