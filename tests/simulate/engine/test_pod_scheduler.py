"""Runs in which sessions of the gang core bind the pods: plain jobs, gangs, and jobs of Volcano's queues."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.simulate.engine.recorder import Run
from quorate.simulate.engine.records import Outcome
from quorate.simulate.results.summary import summarize
from tests.search import examples
from tests.simulate.engine.test_nodes import FAILING, LARGE
from tests.simulate.worlds import queue, run_of, spans

TWO_NODES = "nodes: [{name: n, count: 2, capacity: {cpu: 4}}]"

VOLCANO_QUEUE = """---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: %s}
spec: {weight: %d}
"""


def test_a_gang_gets_all_nodes_or_none() -> None:
    run = run_of(
        f"""
{TWO_NODES}
jobs: [{{name: a, queue: q, gang: true, pods: 2, requests: {{cpu: 3}}, runs: 10s, arrivals: {{count: 2}}}}]
""",
        LARGE,
    )
    assert spans(run) == {"a": (0, 10, 0, 20)}  # admitted at once: quota is no limit here
    assert run.node_usage.waiting[8] == 2  # pods


@pytest.mark.parametrize(
    "claim",
    [
        "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]",
        "volumes: [{name: data, ephemeral: {volumeClaimTemplate: {spec: {}}}}]",
    ],
)
def test_pods_start_although_what_they_claim_is_not_in_the_scenario(claim: str) -> None:
    containers = "containers: [{name: main, resources: {requests: {cpu: 1}}}]"
    template = f"template: {{spec: {{{containers}, {claim}}}}}"
    run = run_of(f"{TWO_NODES}\njobs: [{{name: a, queue: q, {template}, runs: 10s}}]", LARGE)
    assert spans(run) == {"a": (0, 10)}


def test_pods_that_claim_devices_start_in_volcano_queues() -> None:
    """In a cluster queue their devices need quota."""
    containers = "containers: [{name: main, resources: {requests: {cpu: 1}}}]"
    claims = "resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]"
    template = f"template: {{spec: {{{containers}, {claims}}}}}"
    job = f"{{name: a, queue: v, api: volcano, {template}, runs: 10s}}"
    run = run_of(f"{TWO_NODES}\njobs: [{job}]", VOLCANO_QUEUE % ("v", 1))
    assert spans(run) == {"a": (0, 10)}


def test_the_reason_of_pods_without_a_node_is_that_of_the_scheduler() -> None:
    run = run_of(
        f"until: 1m\n{TWO_NODES}\njobs: [{{name: a, queue: q, pods: 3, requests: {{cpu: 5}}, runs: 10s}}]",
        LARGE,
    )
    assert list(run.jobs.outcome) == [Outcome.WAITING]
    (left,) = run.waiting
    assert "2 Insufficient cpu (need 5, 4 at most)" in left.reason


def test_a_run_ends_although_a_job_is_evicted_and_admitted_for_ever() -> None:
    """Its pods are not ready in time, again and again."""
    jobs = "jobs: [{name: a, queue: q, pods: 3, requests: {cpu: 5}, runs: 10s}]"
    run = run_of(f"{TWO_NODES}\n{jobs}", LARGE)
    assert run.jobs.evictions[0] > 10
    assert list(run.jobs.outcome) == [Outcome.WAITING]


def test_jobs_of_volcano_queues_need_no_quota() -> None:
    run = run_of(
        f"""
{TWO_NODES}
jobs: [{{name: a, queue: v, api: volcano, pods: 2, requests: {{cpu: 3}}, runs: 10s, arrivals: {{count: 2}}}}]
""",
        VOLCANO_QUEUE % ("v", 1),
    )
    assert spans(run) == {"a": (0, 10, 10, 20)}
    assert list(run.jobs.outcome) == [Outcome.SUCCEEDED] * 2


PREEMPTING = """
scheduler:
  actions: "enqueue, allocate, preempt, backfill"
  tiers:
  - plugins: [{name: priority}, {name: gang}, {name: conformance}]
  - plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def test_a_gang_of_higher_priority_evicts_one_of_its_queue() -> None:
    run = run_of(
        f"""
{TWO_NODES}
{PREEMPTING}
jobs:
- {{name: low, queue: v, api: volcano, priority: 1, pods: 2, requests: {{cpu: 3}}, runs: 30s}}
- name: high
  queue: v
  api: volcano
  priority: 9
  pods: 2
  requests: {{cpu: 3}}
  runs: 10s
  arrivals: {{at: [5s]}}
""",
        VOLCANO_QUEUE % ("v", 1),
    )
    assert sum(run.jobs.preemptions) >= 1
    found = spans(run)
    assert found["high"][1] < found["low"][1]
    assert list(run.jobs.outcome) == [Outcome.SUCCEEDED] * 2


def test_pods_of_a_failed_node_are_bound_to_another_one() -> None:
    run = run_of(FAILING % (1, 2, ""), LARGE)
    assert list(run.jobs.outcome) == [Outcome.SUCCEEDED] * 2
    assert max(run.jobs.ended_ms) > 120_000
    other = run_of(FAILING % (1, 2, ""), LARGE)
    assert run.jobs.ended_ms == other.jobs.ended_ms


def test_places_of_a_topology_and_pods_without_places_share_nodes() -> None:
    """The node of the job with places is full, and the other pods wait for the other node."""
    run = run_of(
        f"""
{TWO_NODES}
jobs:
- {{name: placed, queue: q, requests: {{cpu: 4}}, runs: 20s}}
- {{name: free, queue: r, requests: {{cpu: 4}}, runs: 10s, arrivals: {{at: [1s, 1s]}}}}
- {{name: later, queue: q, requests: {{cpu: 4}}, runs: 10s, arrivals: {{at: [2s]}}}}
""",
        LARGE,
        queue("r", 99).replace("name: default, res", "name: other, res"),
        "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata:\n  name: default\n"
        "  annotations: {quorate.dev/node-fit: Require}\n",
        "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: other}\n",
    )
    found = spans(run)
    assert found["placed"] == (0, 20)
    assert found["free"] == (1, 11, 1, 21)
    assert found["later"] == (20, 30)


POOLS = (
    "- {name: b, count: 2, capacity: {cpu: 4}, fails: {meanTimeBetween: 5m, repair: 30s}}",
    "- {name: a, count: 1, capacity: {cpu: 8}}",
)
CLASSES = (
    "- {name: gang, queue: v, api: volcano, pods: {choice: [2, 3]}, requests: {cpu: 2}, runs: 40s,"
    " arrivals: {every: {choice: [30s, 1m]}, count: 6}}",
    "- {name: free, queue: q, pods: 2, requests: {cpu: 1}, runs: {uniform: [20s, 1m]},"
    " arrivals: {every: 30s, count: 10}}",
)


@examples(8)
@given(st.integers(0, 100), st.permutations(POOLS), st.permutations(CLASSES))
def test_a_run_with_nodes_does_not_depend_on_the_order_of_its_input(
    seed: int, pools: list[str], classes: list[str]
) -> None:
    def run(pools: Sequence[str], classes: Sequence[str], *documents: str) -> Run:
        nodes, jobs = "\n".join(pools), "\n".join(classes)
        return run_of(f"seed: {seed}\nnodes:\n{nodes}\njobs:\n{jobs}", *documents)

    first = run(POOLS, CLASSES, LARGE, VOLCANO_QUEUE % ("v", 1))
    second = run(pools, classes, VOLCANO_QUEUE % ("v", 1), LARGE)
    assert summarize(first) == summarize(second)
    assert first.transitions.job == second.transitions.job
    assert first.node_usage.samples == second.node_usage.samples
    assert Outcome.WAITING not in first.jobs.outcome


@examples(8)
@given(st.integers(0, 100))
def test_no_node_is_used_beyond_its_capacity(seed: int) -> None:
    nodes, jobs = "\n".join(POOLS), "\n".join(CLASSES)
    run = run_of(f"seed: {seed}\nnodes:\n{nodes}\njobs:\n{jobs}", LARGE, VOLCANO_QUEUE % ("v", 1))
    for (host, pair), series in run.node_usage.samples.items():
        most = {"cpu": 8_000 if host == "a-0" else 4_000, "pods": 110}[pair.resource]
        between = zip(
            [0, *run.node_usage.sampled_ms], run.node_usage.sampled_ms, [0, *series], series, strict=False
        )
        assert all(after - before <= most * (end - start) for start, end, before, after in between)
