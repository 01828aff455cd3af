"""What may start beside the planned starts does not wait, and starts move no plan later."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given as given_by
from hypothesis import settings
from hypothesis import strategies as st

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
