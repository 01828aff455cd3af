"""Small benchmark scenarios with results computed by hand."""

import pytest
from bench.limits import Limit, Limits, Runs, load
from bench.virtual_time import Simulation
from bench.worlds import BASELINE, LARGE_SCALE, TOPOLOGIES, WorkloadClass, World

SMALL = WorkloadClass("small", per_queue=3, cpu=1, priority=50, runs_ms=200, every_ms=100)


def test_a_scenario_ends_when_all_work_is_done_at_full_quota() -> None:
    """With one cpu the second and the third workload each wait for the one before."""
    outcome = Simulation(World("one", 1, 1, (SMALL,), nominal=1, borrowing=0)).run(lambda _: None)
    assert outcome.finished_ms == 600
    assert outcome.waits_ms == {"small": [0, 100, 200]}
    assert (outcome.admissions, outcome.preemptions) == (3, 0)


def test_a_queue_borrows_unused_quota_of_its_cohort() -> None:
    """Two queues of one cpu, each with two workloads at once: two workloads always run."""
    twins = WorkloadClass("twin", per_queue=2, cpu=1, priority=50, runs_ms=500, every_ms=0)
    outcome = Simulation(World("two", 1, 2, (twins,), nominal=1, borrowing=1)).run(lambda _: None)
    assert outcome.finished_ms == 1_000
    assert outcome.waits_ms == {"twin": [0, 0, 500, 500]}


def test_a_preempted_workload_restarts_after_its_preemptor_ends() -> None:
    """At 100 ms the late workload takes both cpus from the early one, which needs 400 ms more."""
    early = WorkloadClass("early", per_queue=1, cpu=1, priority=50, runs_ms=500, every_ms=0)
    late = WorkloadClass("late", per_queue=1, cpu=2, priority=200, runs_ms=1_000, every_ms=0, from_ms=100)
    outcome = Simulation(World("one", 1, 1, (early, late), nominal=2, borrowing=0)).run(lambda _: None)
    assert outcome.finished_ms == 100 + 1_000 + 500
    assert outcome.waits_ms == {"early": [0], "late": [0]}
    assert (outcome.admissions, outcome.preemptions) == (3, 1)


@pytest.mark.parametrize(
    ("world", "least_usage"),
    [(BASELINE, 0.50), (LARGE_SCALE, 0.316), (TOPOLOGIES, 0.57)],
    ids=lambda given: given.name if isinstance(given, World) else "",
)
def test_the_worlds_of_kueue_keep_their_order_and_usage(world: World, least_usage: float) -> None:
    """The mean waits of Kueue's three worlds have the order of priorities; its rangespecs set the usage."""
    world = world._replace(cohorts=1)  # the cohorts are equal and share no quota
    outcome = Simulation(world).run(lambda _: None)
    assert world.lower_bound_s * 1_000 / outcome.finished_ms >= least_usage
    priorities = {one.name: one.priority for one in world.classes}
    waits = sorted((sum(waits) / len(waits), -priorities[name]) for name, waits in outcome.waits_ms.items())
    assert [priority for _, priority in waits] == sorted(priority for _, priority in waits)


RUNS = Runs(count=1, low=2, median=2, high=2)


@pytest.mark.parametrize(
    ("limit", "value", "broken"),
    [
        (Limit("", RUNS, at_most=2), 2, False),
        (Limit("", RUNS, at_most=2), 2.1, True),
        (Limit("", RUNS, at_least=2), 2, False),
        (Limit("", RUNS, at_least=2), 1.9, True),
    ],
)
def test_a_value_beyond_the_limit_fails(limit: Limit, value: float, broken: bool) -> None:
    assert Limits("any", {"it": limit}).broken({"it": value}) == (["it"] if broken else [])


def test_recorded_runs_are_within_their_limits() -> None:
    for name, limit in load().measures.items():
        assert limit.allows(limit.runs.median), name
        assert limit.runs.low <= limit.runs.median <= limit.runs.high, name
