"""Runs with nodes: places in topologies and on required nodes, and nodes that fail."""

from pathlib import Path

import pytest

from quorate.quota.amount import FlavorResource
from quorate.simulate.engine.records import Outcome, Transition
from quorate.simulate.results.summary import summarize
from tests.simulate.inputs.test_world import findings_of
from tests.simulate.worlds import FLAVOR, HEAD, queue, run_of, spans

LARGE = queue("q", 99)
REQUIRE = """---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
nodeFit: {mode: Require}
"""
TWO_NODES = "nodes: [{name: n, count: 2, capacity: {cpu: 4}}]"


def test_jobs_wait_for_nodes_where_the_configuration_requires_them() -> None:
    scenario = f"""
{TWO_NODES}
jobs: [{{name: a, queue: q, pods: 2, requests: {{cpu: 3}}, runs: 10s, arrivals: {{count: 2}}}}]
"""
    assert spans(run_of(scenario, LARGE)) == {"a": (0, 20, 0, 20)}  # the jobs get a node each, twice
    run = run_of(scenario, LARGE, REQUIRE)
    assert spans(run) == {"a": (0, 10, 10, 20)}
    cpu = FlavorResource("", "cpu")
    assert [run.node_usage.samples[host, cpu][-1] for host in ("n-0", "n-1")] == [3_000 * 20_000] * 2
    (use, _) = summarize(run).nodes
    assert (use.resource, use.nodes, use.allocatable, use.mean) == ("cpu", 2, "8", "6")
    assert (use.share, use.least, use.most) == (0.75, 0.75, 0.75)


def test_the_reason_of_a_job_that_no_node_takes_has_the_amounts() -> None:
    run = run_of(
        f"{TWO_NODES}\njobs: [{{name: a, queue: q, pods: 3, requests: {{cpu: 3}}, runs: 10s}}]",
        LARGE,
        REQUIRE,
    )
    assert [each.reason for each in run.waiting] == [
        "couldn't assign flavors to pod set main: "
        "1 of 3 pods fits no node: cpu: need 3, have 1 on the best of 2 nodes"
    ]


TOPOLOGY = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
spec: {topologyName: racks, nodeLabels: {pool: n}}
"""


def test_a_job_waits_for_one_rack() -> None:
    """Three of the four pods that fit a rack run in each, and a job of two waits for room in one of them."""
    run = run_of(
        """
nodes: [{name: n, count: 4, labels: {pool: n}, labelsByIndex: {rack: 2}, capacity: {cpu: 4}}]
jobs:
- name: a
  queue: q
  arrivals: {count: 2}
  runs: 10s
  podSets:
  - name: main
    count: 3
    template:
      metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: rack}}
      spec: {containers: [{name: main, image: x, resources: {requests: {cpu: 1500m}}}], restartPolicy: Never}
- name: b
  queue: q
  arrivals: {at: [1s]}
  runs: 10s
  podSets:
  - name: main
    count: 2
    template:
      metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: rack}}
      spec: {containers: [{name: main, image: x, resources: {requests: {cpu: 1500m}}}], restartPolicy: Never}
""",
        LARGE,
        TOPOLOGY,
    )
    assert spans(run) == {"a": (0, 10, 0, 10), "b": (10, 20)}


FAILING = """
seed: %d
nodes:
- {name: n, count: 2, capacity: {cpu: 4}, fails: {meanTimeBetween: 1m, repair: 20s}}
- {name: spare, count: %d, capacity: {cpu: 4}}
jobs: [{name: a, queue: q, requests: {cpu: 3}, runs: 2m, arrivals: {count: 2}%s}]
"""


def test_the_pods_of_a_failed_node_get_another_one_and_their_work_starts_again() -> None:
    run = run_of(FAILING % (1, 2, ""), LARGE, REQUIRE)
    assert Transition.EVICTED not in run.transitions.kind
    assert list(run.jobs.outcome) == [Outcome.SUCCEEDED] * 2
    assert max(run.jobs.ended_ms) > 120_000
    kept = run_of(FAILING % (1, 2, ", checkpointEvery: 1s"), LARGE, REQUIRE)
    assert max(kept.jobs.ended_ms) < 130_000


def test_a_job_without_another_node_is_evicted_and_starts_after_the_repair() -> None:
    run = run_of(FAILING % (1, 1, ""), LARGE, REQUIRE)
    assert sum(run.jobs.evictions) >= 1
    assert list(run.jobs.outcome) == [Outcome.SUCCEEDED] * 2
    other = run_of(FAILING % (1, 1, ""), LARGE, REQUIRE)
    assert run.jobs.ended_ms == other.jobs.ended_ms


def test_a_run_ends_although_nodes_could_fail_for_ever() -> None:
    scenario = FAILING.replace("requests: {cpu: 3}", "requests: {cpu: 5}")
    assert spans(run_of(scenario % (1, 1, ""), LARGE, REQUIRE)) == {"a": (-1, -1, -1, -1)}


@pytest.mark.parametrize(
    ("nodes", "finding"),
    [
        (
            "[{count: 2, capacity: {cpu: 1}}]",
            "nodes[0].name: is missing (write a short name, such as gpu)",
        ),
        ("[{name: n}]", "nodes[0].capacity: is missing (write capacity: {cpu: 64, memory: 256Gi})"),
        (
            "[{name: n, capacity: {cpu: 1}, fails: {repair: 1h}}]",
            "nodes[0].fails.meanTimeBetween: is missing (write meanTimeBetween: 720h)",
        ),
        (
            "[{name: n, capacity: {cpu: 1}, fails: {meanTimeBetween: 1h}}]",
            "nodes[0].fails.repair: is missing (write repair: 2h)",
        ),
        (
            "[{name: n, capacity: {cpu: 1}, taints: [{key: a, effect: Never}]}]",
            "nodes[0].taints[0].effect: 'Never' is not allowed here "
            "(write NoSchedule or PreferNoSchedule or NoExecute)",
        ),
        (
            "[{name: n, capacity: {cpu: 1}, taints: [{key: a}]}]",
            "nodes[0].taints[0].effect: is missing (write key: example.com/gpu, effect: NoSchedule)",
        ),
        (
            "[{name: n, capacity: {cpu: 1}, labels: {rack/a/b: x}}]",
            "nodes[0].labels[rack/a/b]: 'x' is not under the key of a label (write name or example.com/name)",
        ),
        (
            "[{name: n, capacity: {cpu: 1}}, {name: n, capacity: {cpu: 1}}]",
            "nodes: [{'name': 'n', 'capacity': {'cpu': 1}}, {'name': 'n', 'capacity': {'cpu': 1}}] "
            "has two pools named n (give each a name of its own)",
        ),
    ],
)
def test_a_mistake_in_nodes_is_a_finding(tmp_path: Path, nodes: str, finding: str) -> None:
    jobs = "jobs: [{name: a, queue: q, runs: 1s}]"
    text = f"{HEAD}nodes: {nodes}\n{jobs}\n---\n{FLAVOR}{queue('q', 4)}"
    (found,) = findings_of(tmp_path, text)
    assert found.partition(": ")[2].replace('"', "'") == finding


def test_two_nodes_of_one_name_are_a_finding(tmp_path: Path) -> None:
    node = "---\napiVersion: v1\nkind: Node\nmetadata: {name: n-1}\nstatus: {capacity: {cpu: 4}}\n"
    text = f"{HEAD}{TWO_NODES}\njobs: [{{name: a, queue: q, runs: 1s}}]\n---\n{FLAVOR}{queue('q', 4)}{node}"
    assert findings_of(tmp_path, text) == [
        "two nodes are called n-1 (give the pool or the Node another name)"
    ]
