"""With exact bounds that are enforced, no announced start is passed where pods need places on nodes."""

from typing import NamedTuple

import pytest
from bench.backfill.late_starts import LateStarts
from hypothesis import example, settings
from hypothesis import given as given_by
from hypothesis import strategies as st

from quorate.queueing.scheduling.planned_starts import PlannedStarts
from tests.queueing.notation import Json
from tests.queueing.test_planned_starts import queue, run_cycle, started
from tests.queueing.world import World

RACKS, HOSTS, CPUS = 3, 2, 2  # hosts of each rack, cpus of each host
LEVELS = ("rack", "kubernetes.io/hostname")


class PodSet(NamedTuple):
    pods: int
    cpu: int
    topology: Json  # of the request


class Job(NamedTuple):
    pod_sets: tuple[PodSet, ...]
    runs_s: int  # which it declares
    arrives: int
    priority: int


Topologies = st.sampled_from(
    [{"preferred": "rack"}, {"required": "rack"}, {"required": LEVELS[1]}, {"unconstrained": True}]
)
PodSets = st.builds(PodSet, st.integers(1, RACKS * HOSTS), st.integers(1, CPUS), Topologies)
Jobs = st.lists(
    st.builds(
        Job,
        st.lists(PodSets, min_size=1, max_size=2).map(tuple),
        st.integers(1, 100),
        st.integers(0, 40),
        st.integers(0, 1),
    ),
    min_size=6,
    max_size=16,
)


def a_job(pods: int, cpu: int, runs_s: int, arrives: int, *, on_one_host: bool = False) -> Job:
    topology = {"required": LEVELS[1]} if on_one_host else {"unconstrained": True}
    return Job((PodSet(pods, cpu, topology),), runs_s, arrives, 0)


# A plan that moves earlier, beside a job that used slack, may take the places of one that is announced.
EARLIER_AT_THE_COST_OF_LATER = [
    a_job(1, 1, 91, 31),
    a_job(6, 2, 87, 10),
    a_job(5, 1, 31, 21),
    a_job(2, 1, 29, 3),
    a_job(1, 2, 71, 12),
    a_job(3, 1, 14, 35),
    a_job(6, 1, 13, 0),
    a_job(4, 2, 22, 39),
    a_job(1, 1, 55, 26),
    a_job(5, 1, 43, 0, on_one_host=True),
    a_job(2, 1, 44, 35),
    a_job(2, 2, 92, 17),
]


def a_cluster(rules: Json, jobs: list[Job]) -> World:
    workloads = [
        {
            "name": f"j{number}",
            "queue": "q",
            "created": job.arrives,
            "priority": job.priority,
            "maximumExecutionTimeSeconds": job.runs_s,
            "create": "later",
            "podSets": [
                {
                    "name": f"set-{index}",
                    "count": pod_set.pods,
                    "requests": {"cpu": pod_set.cpu},
                    "topology": pod_set.topology,
                }
                for index, pod_set in enumerate(job.pod_sets)
            ],
        }
        for number, job in enumerate(jobs)
    ]
    nodes = {
        f"n{rack}{host}": {
            "labels": {"pool": "tas", "rack": f"r{rack}"},
            "allocatable": {"cpu": CPUS, "pods": 10},
        }
        for rack in range(RACKS)
        for host in range(HOSTS)
    }
    return World(
        {
            "topologies": {"racks": {"levels": list(LEVELS)}},
            "flavors": {"tas": {"topologyName": "racks", "nodeLabels": {"pool": "tas"}}},
            "nodes": nodes,
            "clusterQueues": {"q": {**rules, "quota": [{"tas": {"cpu": RACKS * HOSTS * CPUS}}]}},
            "workloads": workloads,
        }
    )


def run_to_rest(world: World) -> None:
    """Run cycles until none asks for another one at once."""
    for _ in range(20):
        wake_at = run_cycle(world).wake_at
        if not world.state.ledger.dirty_trees and (wake_at is None or wake_at > world.now):
            return
    raise AssertionError("cycles do not come to rest")


@pytest.mark.parametrize("depth", [1, 2, 3, 10])
@settings(max_examples=6, deadline=None)
@example(EARLIER_AT_THE_COST_OF_LATER, 50, 20)
@given_by(Jobs, st.sampled_from([0, 25, 50, 75, 100, 150]), st.sampled_from([0, 5, 20]))
def test_no_announced_start_is_passed(depth: int, jobs: list[Job], slack: int, after_s: int) -> None:
    """Only what precedes a planned workload may delay it; and what is planned for now starts now."""
    annotations = {
        "backfill": "Conservative" if depth > 1 else "EASY",
        "backfill-depth": str(depth),
        "backfill-slack-percent": str(slack),
        "reserve-after": f"{after_s}s",
    }
    world = a_cluster(queue(0, annotations=annotations), jobs)
    starts = LateStarts()
    ends: dict[str, float] = {}
    moments: set[float] = {at for job in jobs for at in (job.arrives, job.arrives + after_s)}
    while moments:
        world.now = min(moments)
        moments.remove(world.now)
        world.run({"finish": [name for name, end in ends.items() if end == world.now]})
        world.run({"create": [f"j{n}" for n, job in enumerate(jobs) if job.arrives == world.now]})
        run_to_rest(world)
        for name in started(world) - ends.keys():
            ends[name] = world.now + jobs[int(name[1:])].runs_s
            moments.add(ends[name])
        starts.observe(world.state, world.now)
        assert starts.late == 0, "a planned workload starts later than announced, or was moved"
        for plan in PlannedStarts(world.state).of_queue(world.state.ledger.cluster_queues["q"], world.now):
            assert plan.at > world.now, f"{plan.entry.key.name} waits, and nothing must end before it"
