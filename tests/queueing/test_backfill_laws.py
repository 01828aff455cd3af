"""What may start beside the planned starts does not wait, and starts move no plan later."""

from typing import Any, NamedTuple

import pytest
from bench.backfill.late_starts import LateStarts
from hypothesis import given as given_by
from hypothesis import settings
from hypothesis import strategies as st

from quorate.queueing.scheduling.planned_starts import PlannedStarts
from tests.queueing.notation import Json
from tests.queueing.test_planned_starts import all_planned, conservative, job, queue, run_cycle, started
from tests.queueing.world import World

CPUS = 8


class Span(NamedTuple):
    """What one workload uses, from when until when at most."""

    begins: float
    ends: float
    cpu: int


Jobs = st.lists(
    st.tuples(st.integers(1, CPUS), st.integers(1, 60), st.integers(1, 60), st.integers(0, 40)),
    min_size=2,
    max_size=9,
)


def may_start(cpu: int, bound_s: int, now: float, others: list[Span]) -> bool:
    """Return True if ``cpu`` are free from ``now`` on for ``bound_s``, beside ``others``."""
    moments = [now, *(span.begins for span in others if now < span.begins < now + bound_s)]
    return all(
        cpu + sum(span.cpu for span in others if span.begins <= moment < span.ends) <= CPUS
        for moment in moments
    )


@pytest.mark.parametrize("rules", [queue(CPUS), conservative(1), conservative(3), conservative()])
@settings(max_examples=25, deadline=None)
@given_by(Jobs)
def test_what_may_start_beside_the_plans_before_it_does_not_wait(
    rules: Json, sizes: list[tuple[int, int, int, int]]
) -> None:
    names = [f"j{number}" for number in range(len(sizes))]
    given = dict(zip(names, sizes, strict=True))
    bounds_s = {name: max(limit, runs) for name, (_, limit, runs, _) in given.items()}
    jobs = [
        job(name, cpu, arrives, bounds_s[name], create="later")
        for name, (cpu, _, _, arrives) in given.items()
    ]
    world = World({"flavors": ["default"], "clusterQueues": {"q": rules}, "workloads": jobs})
    ends: dict[str, float] = {}
    running: dict[str, Span] = {}
    moments: set[float] = {arrives for *_, arrives in sizes}
    while moments:
        world.now = min(moments)
        moments.remove(world.now)
        world.run({"create": [name for name in names if given[name][3] == world.now]})
        ended = [name for name, end in ends.items() if end == world.now]
        world.run({"finish": ended})
        before = all_planned(world) if not ended else {}
        run_cycle(world)
        for name in started(world) - ends.keys():
            cpu, _, runs_s, _ = given[name]
            running[name] = Span(world.now, world.now + bounds_s[name], cpu)
            ends[name] = world.now + runs_s
            moments.add(ends[name])
        run_cycle(world)
        assert_nothing_waits(
            world, given, bounds_s, [running[name] for name in running if ends[name] > world.now]
        )
        if rules == queue(CPUS):
            for name, at in all_planned(world).items():
                assert at <= before.get(name, at), f"a start has moved {name} later"
    assert len(ends) == len(jobs)


def assert_nothing_waits(
    world: World, given: dict[str, Any], bounds_s: dict[str, int], running: list[Span]
) -> None:
    entries = world.state.ledger.entries
    order = {key.name: entry.order for key, entry in entries.items()}
    planned = {name: Span(at, at + bounds_s[name], given[name][0]) for name, at in all_planned(world).items()}
    for name in order:
        plans = [span for other, span in planned.items() if order[other] < order[name]]
        assert not may_start(given[name][0], bounds_s[name], world.now, [*running, *plans]), f"{name} waits"


@pytest.mark.parametrize("depth", [0, 2, 3, 10])  # 0: EASY
@settings(max_examples=30, deadline=None)
@given_by(Jobs, st.integers(1, 300))
def test_a_planned_start_with_slack_is_kept_as_announced(
    depth: int, sizes: list[tuple[int, int, int, int]], percent: int
) -> None:
    """It is announced with the slack once, and only workloads before it may move it later."""
    given = {f"j{number}": size for number, size in enumerate(sizes)}
    bounds_s = {name: max(limit, runs) for name, (_, limit, runs, _) in given.items()}
    jobs = [
        job(name, cpu, arrives, bounds_s[name], create="later")
        for name, (cpu, _, _, arrives) in given.items()
    ]
    mode = {"backfill": "Conservative", "backfill-depth": str(depth)} if depth else {"backfill": "EASY"}
    rules = queue(CPUS, annotations={**mode, "backfill-slack-percent": str(percent)})
    world = World({"flavors": ["default"], "clusterQueues": {"q": rules}, "workloads": jobs})
    starts = LateStarts()
    announced: dict[str, float] = {}
    since: dict[str, float] = {}
    moments: set[float] = {arrives for *_, arrives in sizes}
    while moments:
        world.now = min(moments)
        moments.remove(world.now)
        world.run({"create": [name for name in given if given[name][3] == world.now]})
        world.run({"finish": [name for name, at in since.items() if at + given[name][2] == world.now]})
        for _ in range(3):
            run_cycle(world)
        starts.observe(world.state, world.now)
        assert starts.late == 0
        for key, start in world.state.ledger.announced.items():
            if key.name not in announced:
                slack_s = (start.planned_at - world.now) * percent / 100
                assert start.at <= start.planned_at + slack_s + 1e-6
            first = announced.setdefault(key.name, start.at)
            assert start.at <= first or depth, f"{key.name} is promised later"
        for name in started(world) - since.keys():
            since[name] = world.now
            moments.add(world.now + given[name][2])
            assert world.now <= announced.get(name, world.now) or depth, f"{name} starts later than announced"
    assert len(since) == len(jobs)


@pytest.mark.parametrize("rules", [queue(CPUS), conservative(1)])
@settings(max_examples=40, deadline=None)
@given_by(Jobs)
def test_without_bounds_what_passes_together_leaves_what_is_planned(
    rules: Json, sizes: list[tuple[int, int, int, int]]
) -> None:
    """As BestEffortFIFO, but for the amounts of the planned workload as StrictFIFO."""
    given = {f"j{number}": size for number, size in enumerate(sizes)}
    jobs = [job(name, cpu, arrives, create="later") for name, (cpu, _, _, arrives) in given.items()]
    world = World({"flavors": ["default"], "clusterQueues": {"q": rules}, "workloads": jobs})
    since: dict[str, float] = {}  # of what has quota
    planned_since: dict[str, float] = {}
    done: set[str] = set()
    moments: set[float] = {arrives for *_, arrives in sizes}
    while moments:
        world.now = min(moments)
        moments.remove(world.now)
        world.run({"create": [name for name, (*_, arrives) in given.items() if arrives == world.now]})
        ended = [name for name in since if name not in done and since[name] + given[name][2] == world.now]
        world.run({"finish": ended})
        done.update(ended)
        for _ in range(2):
            run_cycle(world)
        for name in started(world) - since.keys():
            since[name] = world.now
            moments.add(world.now + given[name][2])
        planned_since = {name: planned_since.get(name, world.now) for name in all_planned(world)}
        running = [name for name in since if name not in done]
        order = {key.name: entry.order for key, entry in world.state.ledger.entries.items()}
        free = CPUS - sum(given[name][0] for name in running)
        left = CPUS  # beside the planned workload, for what comes after it
        for name, at in planned_since.items():
            later = [other for other in running if since[other] >= at and is_after(given, other, name)]
            left = CPUS - given[name][0] - sum(given[other][0] for other in later)
            assert left >= 0, f"{later} use what {name} needs"
        for name in order:
            needs = given[name][0]
            assert needs > (free if name in planned_since else min(free, left)), f"{name} waits"
    assert len(done) == len(jobs)


def is_after(given: dict[str, Any], name: str, other: str) -> bool:
    return (given[name][3], name) > (given[other][3], other)


HOSTS = 4
HOST = "kubernetes.io/hostname"
Pods = st.lists(
    st.tuples(st.integers(1, HOSTS), st.integers(1, 2), st.integers(1, 40), st.integers(0, 30)),
    min_size=3,
    max_size=9,
)


@pytest.mark.parametrize("rules", [queue(2 * HOSTS), conservative(3)])
@settings(max_examples=40, deadline=None)
@given_by(Pods)
def test_what_has_places_that_no_plan_needs_does_not_wait(
    rules: Json, sizes: list[tuple[int, int, int, int]]
) -> None:
    """Also if the places that it would get without plans are planned for an earlier workload."""
    given = {f"j{number}": size for number, size in enumerate(sizes)}
    jobs = [
        {
            "name": name,
            "queue": "q",
            "created": arrives,
            "maximumExecutionTimeSeconds": bound_s,
            "create": "later",
            "podSets": [{"name": "main", "count": pods, "requests": {"cpu": cpu}}],
        }
        for name, (pods, cpu, bound_s, arrives) in given.items()
    ]
    world = World(
        {
            "topologies": {"hosts": {"levels": [HOST]}},
            "flavors": {"tas": {"topologyName": "hosts", "nodeLabels": {"pool": "tas"}}},
            "nodes": {
                f"n{number}": {"labels": {"pool": "tas"}, "allocatable": {"cpu": 2, "pods": 10}}
                for number in range(HOSTS)
            },
            "clusterQueues": {"q": {**rules, "quota": [{"tas": {"cpu": 2 * HOSTS}}]}},
            "workloads": jobs,
        }
    )
    ends: dict[str, float] = {}
    moments: set[float] = {arrives for *_, arrives in sizes}
    while moments:
        world.now = min(moments)
        moments.remove(world.now)
        world.run({"create": [name for name in given if given[name][3] == world.now]})
        world.run({"finish": [name for name, end in ends.items() if end == world.now]})
        for _ in range(3):
            run_cycle(world)
        for name in started(world) - ends.keys():
            ends[name] = world.now + given[name][2]
            moments.add(ends[name])
        assert_no_places_are_left(world, given, ends)
    assert len(ends) == len(jobs)


def assert_no_places_are_left(world: World, given: dict[str, Any], ends: dict[str, float]) -> None:
    ledger = world.state.ledger
    plans = PlannedStarts(world.state).of_queue(ledger.cluster_queues["q"], world.now)
    spans = [
        (world.now, ends[key.name], place)
        for key, reservation in ledger.reservations.items()
        for place in reservation.places.all
    ]
    for entry in ledger.entries.values():
        pods, cpu, bound_s, _ = given[entry.key.name]
        earlier = [plan for plan in plans if plan.entry.order < entry.order]
        used = spans + [
            (plan.at, plan.ends, place) for plan in earlier for place in plan.assignment.placement.places()
        ]
        moments = [world.now, *(plan.at for plan in earlier if plan.at < world.now + bound_s)]
        free = {f"n{number}": 2 for number in range(HOSTS)}
        for moment in moments:
            for host in free:
                at_moment = sum(
                    place.amounts["cpu"] // 1000
                    for begins, until, place in used
                    if begins <= moment < until and place.values[-1] == host
                )
                free[host] = min(free[host], 2 - at_moment)
        assert pods > sum(cpus // cpu for cpus in free.values()), f"{entry.key.name} waits"
