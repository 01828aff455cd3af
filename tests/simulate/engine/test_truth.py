"""The same jobs in a cluster and in the simulator: the same admissions and evictions, in the same order."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from quorate.api.meta import is_true
from quorate.api.names.kueue import PRIORITY_CLASS
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from quorate.kube.rest.decoding import Bookmark, WatchEvent
from quorate.local.nodes import NodePool
from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.engine.records import Transition
from quorate.simulate.inputs.submissions import Submission, submissions
from tests.e2e import world as cluster
from tests.simulate.engine.test_player import HIGH, LOW
from tests.simulate.worlds import queue, world_of

pytestmark = pytest.mark.slow

# Scenarios that share nothing but the cluster and its settings.  What happens in one of them is at least two
# seconds apart, or one event is the cause of the next.
QUEUES = (
    queue("priority", 4),
    queue("strict", 4, "namespaceSelector: {}\n  queueingStrategy: StrictFIFO"),
    queue("preempts", 4, "namespaceSelector: {}\n  preemption: {withinClusterQueue: LowerPriority}"),
    queue("lends", 2, "namespaceSelector: {}\n  cohortName: all\n  preemption: {reclaimWithinCohort: Any}"),
    queue("borrows", 2, "namespaceSelector: {}\n  cohortName: all"),
    queue("unready", 4),
    queue("nodes", 999).replace("name: default, res", "name: required, res"),
)
NODES = NodePool(4, cpu="64")
REQUIRED = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: required, annotations: {quorate.dev/node-fit: Require}}
"""
SCENARIO = """
nodes: [{name: node, count: 4, capacity: {cpu: 64}}]
jobs:
# The second of two that wait has a higher priority.
- {name: first, queue: priority, requests: {cpu: 4}, runs: 5s}
- {name: later, queue: priority, priorityClass: low, requests: {cpu: 4}, runs: 2s, arrivals: {at: [1s]}}
- {name: sooner, queue: priority, priorityClass: high, requests: {cpu: 2}, runs: 3s, arrivals: {at: [2s]}}
# A job that would fit waits for the one before it.
- {name: small, queue: strict, requests: {cpu: 2}, runs: 6s}
- {name: large, queue: strict, requests: {cpu: 4}, runs: 2s, arrivals: {at: [2s]}}
- {name: behind, queue: strict, requests: {cpu: 1}, runs: 2s, arrivals: {at: [4s]}}
# Preemption for a higher priority; the job starts again.
- {name: victim, queue: preempts, priorityClass: low, requests: {cpu: 1}, pods: 4, runs: 8s}
- {name: urgent, queue: preempts, priorityClass: high, requests: {cpu: 4}, runs: 4s, arrivals: {at: [3s]}}
# Quota that was lent is reclaimed, from the job that was admitted last.
- {name: early, queue: borrows, requests: {cpu: 2}, runs: 12s}
- {name: borrower, queue: borrows, requests: {cpu: 2}, runs: 12s, arrivals: {at: [2s]}}
- {name: owner, queue: lends, requests: {cpu: 2}, runs: 4s, arrivals: {at: [5s]}}
# Pods that are not ready in time: evicted, tried once more behind the next job, and deactivated.
- {name: stuck, queue: unready, requests: {cpu: 4}, runs: 1s, starts: 10m}
- {name: next, queue: unready, requests: {cpu: 4}, runs: 4s, arrivals: {at: [2s]}}
# Places on nodes are required, each has room for one of these pods beside those of all other jobs.
- {name: spread, queue: nodes, requests: {cpu: 36}, pods: 3, runs: 8s}
- {name: again, queue: nodes, requests: {cpu: 36}, pods: 3, runs: 2s, arrivals: {at: [2s]}}
- {name: single, queue: nodes, requests: {cpu: 36}, runs: 3s, arrivals: {at: [4s]}}
"""
SETTINGS = """---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {timeout: 10s, requeuingStrategy: {backoffBaseSeconds: 1, backoffLimitCount: 1}}
"""
WORLD = world_of(SCENARIO, *QUEUES, LOW, HIGH, SETTINGS, REQUIRED)
Happening = tuple[str, str]  # a job, and what happens to it
EXPECTED = {
    "priority": "first+ sooner+ later+",
    "strict": "small+ large+ behind+",
    "preempts": "victim+ victim- urgent+ victim+",
    "cohort": "early+ borrower+ borrower- owner+ borrower+",
    "unready": "stuck+ stuck- next+ stuck+ stuck-",
    "nodes": "spread+ single+ again+",
}


def test_a_cluster_and_the_simulator_admit_and_evict_in_the_same_order() -> None:
    simulated = by_scenario(happenings(play(WORLD)))
    assert simulated == EXPECTED
    observed: list[Happening] = []

    async def story(world: cluster.World) -> None:
        await create_objects(world)
        await warm_up(world)
        watching = asyncio.create_task(watch_workloads(world, observed))
        try:
            await submit_jobs(world)

            async def complete() -> bool:
                if watching.done():
                    watching.result()
                return len(observed) >= sum(len(each.split()) for each in EXPECTED.values())

            await world.until("as many admissions and evictions as in the simulator", complete)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    cluster.run_story(story, WORLD.configuration, NODES)
    assert by_scenario(observed) == simulated


def by_scenario(found: Iterable[Happening]) -> dict[str, str]:
    """Return ``job+`` for an admission and ``job-`` for an eviction, in order, by part of the world."""
    queues = {each.name: each.queues[0] for each in WORLD.classes}
    order: dict[str, list[str]] = {name: [] for name in EXPECTED}
    for job, what in found:
        name = queues[job]
        order[name if name in order else "cohort"].append(job + what)
    return {name: " ".join(each) for name, each in order.items()}


def happenings(run: Run) -> Iterable[Happening]:
    for number, kind in zip(run.transitions.job, run.transitions.kind, strict=True):
        name = WORLD.classes[run.jobs.class_index[number]].name
        yield name, "+" if kind == Transition.ADMITTED else "-"


async def create_objects(world: cluster.World) -> None:
    kinds: tuple[Resource[Any], ...] = (
        RESOURCE_FLAVORS,
        CLUSTER_QUEUES,
        LOCAL_QUEUES,
        WORKLOAD_PRIORITY_CLASSES,
    )
    for resource in kinds:
        for obj in WORLD.of_kind(resource):
            await world.client.create(resource, obj, obj.metadata.namespace)


async def warm_up(world: cluster.World) -> None:
    """Run a job before the scenario: the first one of a process takes seconds, without ready pods."""
    await world.job("warm-up", queue="priority")
    await world.until_finished("warm-up")


async def submit_jobs(world: cluster.World) -> None:
    """Create each job at its time; after a late one all others are as much later, to keep their distance."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    for each in submissions(WORLD.scenario, WORLD.directory):
        due_s = started_s + each.at_ms / 1000
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        started_s += loop.time() - due_s
        await submit(world, each)


async def submit(world: cluster.World, submission: Submission) -> None:
    job_class = WORLD.classes[submission.class_index]
    (shape,) = job_class.pod_sets
    template = msgspec.json.decode(shape.template)
    (container,) = template["spec"]["containers"]
    await world.job(
        job_class.name,
        pods=submission.counts[0],
        cpu=container["resources"]["requests"]["cpu"],
        queue=job_class.queues[0],
        runs=f"{submission.runs_ms}ms",
        starts=f"{submission.starts_ms}ms",
        labels={PRIORITY_CLASS: job_class.priority_class} if job_class.priority_class else None,
    )


async def watch_workloads(world: cluster.World, observed: list[Happening]) -> None:
    """Add each admission and eviction of a watched workload, in the order of the API server."""
    listed = await world.client.list(WORKLOADS, cluster.NAMESPACE)
    known: dict[str, tuple[bool, bool]] = {}
    async for event in world.client.watch(WORKLOADS, listed.resource_version, cluster.NAMESPACE):
        if isinstance(event, Bookmark):
            continue
        assert isinstance(event, WatchEvent), event
        owner = event.object.metadata.controller
        assert owner is not None, event.object.metadata.key
        if owner.name == "warm-up":
            continue
        conditions = event.object.status.conditions
        now = is_true(conditions, "Admitted"), is_true(conditions, "Evicted")
        was_admitted, was_evicted = known.get(owner.name, (False, False))
        known[owner.name] = now
        if now[1] and not was_evicted:
            observed.append((owner.name, "-"))
        if now[0] and not now[1] and (not was_admitted or was_evicted):
            observed.append((owner.name, "+"))
