"""Scenarios and their manifests: what is read, and what is refused with file, line and rule."""

import re
from pathlib import Path

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS
from quorate.simulate.engine.player import play
from quorate.simulate.inputs.changes import changed
from quorate.simulate.inputs.world import InvalidWorld, World, kinds, read_world
from tests.simulate.worlds import FLAVOR, HEAD, queue, world_of

JOBS = "jobs: [{name: a, queue: q, runs: 10s, requests: {cpu: 1}}]\n"


def findings_of(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "world.yaml"
    file.write_text(text)
    with pytest.raises(InvalidWorld) as refused:
        read_world(file)
    return [each.removeprefix(f"{file}:").strip() for each in refused.value.findings]


@pytest.mark.parametrize(
    ("jobs", "finding"),
    [
        ("{}", "1: jobs: is missing (describe at least one class of jobs)"),
        (
            "jobs: [{queue: q, runs: 1s}]",
            "3: jobs[0].name: is missing (write a short name, such as training)",
        ),
        ("jobs: [{name: a, runs: 1s}]", "3: jobs[0].queue: is missing (write the name of a LocalQueue)"),
        (
            "jobs: [{name: a, queue: q}]",
            "3: jobs[0].runs: is missing (write how long a job runs, such as 30m)",
        ),
        (
            "jobs: [{name: a, queue: q, runs: 1s}, {name: a, queue: q, runs: 2s}]",
            "3: jobs: [{'name': 'a', 'queue': 'q', 'runs': '1s'}, {'name': 'a', 'queue': 'q', 'runs': ... "
            "has two classes 'a' (give each a name of its own)",
        ),
        (
            "jobs: [{name: a, queue: q, runs: 1s, arrivals: {every: 1s}}]",
            "3: jobs[0].arrivals.count: is missing (write how many jobs, or every and until)",
        ),
        (
            "jobs: [{name: a, queue: q, runs: 1s, fails: {probability: 2}}]",
            "3: jobs[0].fails.probability: 2 is no probability (write 0 to 1)",
        ),
        (
            "jobs: [{name: a, queue: nowhere, runs: 1s}]",
            "a names the LocalQueue default/nowhere, which is in no manifest (add it beside the scenario)",
        ),
        (
            "jobs: [{name: a, queue: q, runs: 1s, priorityClass: high}]",
            "a names the WorkloadPriorityClass high, which is in no manifest (add it beside the scenario)",
        ),
    ],
)
def test_a_mistake_in_a_scenario_is_a_finding(tmp_path: Path, jobs: str, finding: str) -> None:
    text = HEAD + jobs if jobs != "{}" else HEAD
    (found,) = findings_of(tmp_path, text + "\n---\n" + FLAVOR + queue("q", 4))
    assert found.replace('"', "'") == finding


def test_every_document_has_its_findings(tmp_path: Path) -> None:
    found = findings_of(
        tmp_path,
        HEAD + JOBS + "---\nkind: Pod\napiVersion: v1\n---\n" + FLAVOR.replace("name: default", "name: ''")
        + queue("q", -4) + "---\n- 1\n",
    )  # fmt: skip
    assert [each.partition(" ")[0] for each in found] == ["5:", "10:", "18:", "26:"]


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: train, labels: {{kueue.x-k8s.io/queue-name: {queue}}}}}
spec:
  parallelism: 2
  completions: 2
  suspend: true
  template:
    metadata: {{annotations: {{{annotations}}}}}
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: busybox, resources: {{requests: {{cpu: 1}}}}}}]
"""
DURATION = "simulate.quorate.dev/duration: 5m"
CHANGES = (
    ("", f"{{file}}: changes nothing (write manifests of {kinds()}, or of a job)"),
    (
        JOB.format(queue="research-", annotations=DURATION),
        "{file}:4: metadata.labels[kueue.x-k8s.io/queue-name]: 'research-' is no LocalQueue of namespace "
        "default (did you mean research?)",
    ),
    (
        JOB.format(queue="research", annotations=""),
        "{file}:4: metadata.name: 'train' has no run time (annotate its pods with "
        "simulate.quorate.dev/duration)",
    ),
    (
        queue("reserch", 8).split("---")[1],
        "{file}: the ClusterQueue reserch is new, and no LocalQueue names it (did you mean research?)",
    ),
    (
        queue("other", 8).split("---")[2].replace("clusterQueue: other", "clusterQueue: researh"),
        "{file}: the LocalQueue default/other names the ClusterQueue researh, which does not exist "
        "(did you mean research?)",
    ),
)


def research(tmp_path: Path) -> World:
    file = tmp_path / "world.yaml"
    jobs = JOBS.replace("queue: q", "queue: research")
    file.write_text(HEAD + jobs + "---\n" + FLAVOR + queue("research", 4))
    return read_world(file)


@pytest.mark.parametrize(("text", "finding"), CHANGES)
def test_a_change_that_changes_nothing_is_a_finding(tmp_path: Path, text: str, finding: str) -> None:
    world, change = research(tmp_path), tmp_path / "change.yaml"
    change.write_text(text)
    with pytest.raises(InvalidWorld) as refused:
        changed(world, change)
    assert refused.value.findings == (finding.format(file=change),)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("metadata: {name", "metadata: train\nother: {name", "cannot be read: Expected `object`, got `str`"),
        ("queue-name: research", "queue-name: 5", "cannot be read: Expected `str`, got `int`"),
        ("cpu: 1", "cpu: -1", "'-1' is negative, must be at least 0"),
        ("parallelism: 2", "parallelism: -2", "has a negative number of pods (write 0 or more)"),
        ("batch/v1\nkind: Job", "ray.io/v1\nkind: RayJob", "cannot be queued: spec.rayClusterSpec"),
    ],
)
def test_a_job_that_no_api_server_accepts_is_a_finding(tmp_path: Path, old: str, new: str, rule: str) -> None:
    world, change = research(tmp_path), tmp_path / "change.yaml"
    job = JOB.format(queue="research", annotations=DURATION)
    assert old in job
    change.write_text(job.replace(old, new))
    with pytest.raises(InvalidWorld, match=re.escape(rule)):
        changed(world, change)


def test_a_job_is_submitted_when_the_run_begins(tmp_path: Path) -> None:
    world, change = research(tmp_path), tmp_path / "change.yaml"
    change.write_text(JOB.format(queue="research", annotations=DURATION))
    (workload,) = changed(world, change).of_kind(WORKLOADS)
    assert [pod_set.count for pod_set in workload.spec.pod_sets] == [2]
    assert workload.spec.maximum_execution_time_seconds == 300
    jobs = play(changed(world, change)).jobs
    assert len(jobs.admitted_ms) == 1 + len(play(world).jobs.admitted_ms)


def test_a_world_has_one_scenario(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(HEAD + JOBS)
    with pytest.raises(InvalidWorld, match=r"2 scenarios \(.*a.yaml, .*b.yaml\), must be one"):
        read_world(tmp_path)


def test_a_change_replaces_objects_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "world.yaml").write_text(HEAD + JOBS + "---\n" + FLAVOR + queue("q", 4))
    world = read_world(tmp_path / "world.yaml")
    (tmp_path / "change.yaml").write_text(queue("q", 8))
    after = changed(world, tmp_path / "change.yaml")
    key = (CLUSTER_QUEUES.api_version, "ClusterQueue", Key("", "q"))
    groups = [each.objects[key].spec.resource_groups[0] for each in (world, after)]
    quotas = [str(group.flavors[0].resources[0].nominal_quota) for group in groups]
    assert quotas == ["4", "8"]
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    with pytest.raises(InvalidWorld, match="changes nothing"):
        changed(world, tmp_path / "empty.yaml")


def test_a_scenario_annotates_cluster_queues() -> None:
    scenario = """
clusterQueues:
  q: {backfill: Conservative, backfillDepth: 3, priorityAging: {every: 10m, atMost: 5}}
jobs: [{name: a, queue: q, runs: 1s}]
"""
    (cluster_queue,) = world_of(scenario.lstrip(), queue("q", 1)).of_kind(CLUSTER_QUEUES)
    assert cluster_queue.metadata.annotations == {
        "quorate.dev/backfill": "Conservative",
        "quorate.dev/backfill-depth": "3",
        "quorate.dev/priority-aging": '{"every":"10m","atMost":5}',
    }


@pytest.mark.parametrize(
    ("rules", "finding"),
    [
        ("{r: {backfill: EASY}}", "clusterQueues names the ClusterQueue r, which is in no manifest"),
        ("{q: {backfill: easy}}", "clusterQueues.q.backfill: 'easy' is not allowed here"),
        ("{q: {priorityAging: {every: 1m}}}", "clusterQueues.q.priorityAging.atMost: is missing"),
        ("{q: {reserveAfter: 5}}", "clusterQueues.q.reserveAfter: 5 is not text"),
    ],
)
def test_rules_of_cluster_queues_are_checked(rules: str, finding: str) -> None:
    with pytest.raises(InvalidWorld) as error:
        world_of(f"clusterQueues: {rules}\njobs: [{{name: a, queue: q, runs: 1s}}]", queue("q", 1))
    assert finding in str(error.value)
