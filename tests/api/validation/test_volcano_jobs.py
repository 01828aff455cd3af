"""Validation of Volcano jobs beyond their schema."""

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest
import yaml

from quorate.api import codec
from quorate.api.validation.volcano_jobs import (
    volcano_job_findings,
    volcano_job_queue_findings,
    volcano_job_update_findings,
    volcano_job_warnings,
)
from quorate.api.volcano import Queue
from quorate.api.volcano.job import Job
from tests import fast_yaml

Json = dict[str, Any]

QUEUES = {
    name: codec.convert(
        Queue, {"metadata": {"name": name}, "spec": {"parent": parent}, "status": {"state": state}}
    )
    for name, parent, state in [
        ("root", "", "Open"), ("default", "root", "Open"), ("org", "root", "Open"), ("team", "org", "Open"),
        ("closed", "root", "Closed"),
    ]
}  # fmt: skip


def a_job(spec: str, name: str = "j") -> Job:
    """Return a job; a task without a template gets a plain one."""
    document = {"queue": "default", "minAvailable": 1, **fast_yaml.load(spec)}
    plain = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    document["tasks"] = [{"template": plain, **task} for task in document.get("tasks", ())]
    return codec.convert(Job, {"metadata": {"name": name, "namespace": "team"}, "spec": document})


def refusals(spec: str, name: str = "j") -> list[str]:
    job = a_job(spec, name)
    return [
        str(finding) for finding in (*volcano_job_findings(job), *volcano_job_queue_findings(job, QUEUES))
    ]


W = "{name: w, replicas: 2, minAvailable: 1}"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(f"{{tasks: [{W}]}}", [], id="a plain job"),
        pytest.param(
            "{minAvailable: 0}", ["spec.tasks: [] is empty, must list at least one task"],
            id="no task",
        ),
        pytest.param(
            "{tasks: [{name: w, replicas: 1}, {name: W_1, replicas: 1}, {name: w, replicas: 1}]}",
            [
                "spec.tasks[1].name: 'W_1' is not the name of a task "
                "(at most 63 lower case letters, digits and '-')",
                "spec.tasks[2].name: 'w' is given already in spec.tasks[0] (name it otherwise)",
            ],
            id="names of tasks",
        ),
        pytest.param(
            "{minAvailable: 4, tasks: [{name: a, replicas: 2, minAvailable: 3}, "
            "{name: b, replicas: -1, minAvailable: -1}, {name: c, replicas: 2, minAvailable: 0}]}",
            [
                "spec.tasks[0].minAvailable: 3 is more than the replicas of the task, at most 2",
                "spec.tasks[1].replicas: -1 is negative, must be at least 0",
                "spec.tasks[1].minAvailable: -1 is negative, must be at least 0",
                "spec.minAvailable: 4 is more than the replicas of all tasks, at most 3",
            ],
            id="numbers of replicas",
        ),
        pytest.param(
            f"{{minAvailable: -1, maxRetry: -1, ttlSecondsAfterFinished: -1, tasks: [{W}]}}",
            [
                "spec.maxRetry: -1 is negative, must be at least 0",
                "spec.minAvailable: -1 is negative, must be at least 0",
                "spec.ttlSecondsAfterFinished: -1 is negative, must be at least 0",
            ],
            id="negative numbers",
        ),
        pytest.param(
            f"{{plugins: {{env: [], svc: [], tpu: []}}, tasks: [{W}]}}",
            ["spec.plugins.tpu: 'tpu' is not a plugin "
             "(known: env, hcclrank, mpi, pytorch, ray, ssh, svc, tensorflow)"],
            id="an unknown plugin",
        ),
        pytest.param(
            f"{{queue: root, tasks: [{W}]}}",
            ["spec.queue: 'root' is the root of all queues (name another one)"],
            id="the root queue",
        ),
        pytest.param(
            f"{{queue: org, tasks: [{W}]}}",
            ["spec.queue: 'org' is a parent of queues (name one of them: team)"], id="not a leaf queue",
        ),
        pytest.param(f"{{queue: team, tasks: [{W}]}}", [], id="a leaf queue"),
        pytest.param(
            f"{{queue: closed, tasks: [{W}]}}",
            ["spec.queue: 'closed' is a queue in state Closed, must be Open (open it, or name another one)"],
            id="a closed queue",
        ),
        pytest.param(
            f"{{queue: x, tasks: [{W}]}}",
            ["spec.queue: 'x' is a queue that does not exist "
             "(create it, or name another one)"], id="an absent queue",
        ),
        pytest.param(
            "{tasks: [{name: w, replicas: 4, partitionPolicy: {totalPartitions: 2, minPartitions: 3}}]}",
            [
                "spec.tasks[0].partitionPolicy.partitionSize: 0 is too small, must be at least 1",
                "spec.tasks[0].partitionPolicy.minPartitions: 3 is out of bounds "
                "(write 0 to 2, which is totalPartitions)",
            ],
            id="partitions",
        ),
        pytest.param(
            "{tasks: [{name: w, replicas: 5, minAvailable: 3, "
            "partitionPolicy: {totalPartitions: 3, partitionSize: 2, minPartitions: 1}}]}",
            [
                "spec.tasks[0].replicas: 5 is not totalPartitions * partitionSize of its partitionPolicy "
                "(write 6)",
                "spec.tasks[0].minAvailable: 3 is not minPartitions * partitionSize of its partitionPolicy "
                "(leave it out, or write 2)",
            ],
            id="products of partitions",
        ),
        pytest.param(
            "{tasks: [{name: w, replicas: 6, minAvailable: 5, "
            "partitionPolicy: {totalPartitions: 3, partitionSize: 2}}]}",
            [], id="without minPartitions, minAvailable is free",
        ),
        pytest.param(
            f"{{plugins: {{mpi: [--master=m]}}, tasks: [{W}]}}",
            ["spec.plugins.mpi: [\"--master=m\"] has no task 'm' for its master "
             "(name a task so, or pass --master=TASK)"],
            id="mpi without its master",
        ),
        pytest.param("{plugins: {mpi: []}, tasks: [{name: master, replicas: 1}]}", [], id="mpi"),
        pytest.param(
            f"{{tasks: [{W}], volumes: [{{mountPath: /a, volumeClaimName: A}}, {{mountPath: /a}}, "
            "{mountPath: '', volumeClaim: {accessModes: []}}, "
            "{mountPath: /b, volumeClaimName: b, volumeClaim: {accessModes: []}}]}",
            [
                "spec.volumes[0].volumeClaimName: 'A' is not the name of a claim "
                "(lower case letters, digits, '-' and '.')",
                "spec.volumes[1].mountPath: '/a' is given already in spec.volumes[0] (keep one of them)",
                "spec.volumes[1]: '/a' has neither volumeClaimName nor volumeClaim (give one of them)",
                "spec.volumes[2].mountPath: '' is missing (write where containers are to see the volume)",
                "spec.volumes[3].volumeClaimName: 'b' is given together with volumeClaim (keep one)",
            ],
            id="volumes",
        ),
    ],
)  # fmt: skip
def test_a_new_job(spec: str, want: list[str]) -> None:
    assert refusals(spec) == want


@pytest.mark.parametrize(
    ("policies", "want"),
    [
        pytest.param(
            "[{event: PodFailed, action: RestartJob}, {exitCode: 3, action: AbortJob}]", [],
            id="plain",
        ),
        pytest.param(
            "[{events: [PodFailed, PodFailed], event: PodFailed, action: RestartJob}]", [],
            id="the same event three times",
        ),
        pytest.param(
            "[{event: Oops, action: Explode}]",
            [
                "[0].action: 'Explode' is not an action (known: AbortJob, CompleteJob, RestartJob, "
                "RestartPartition, RestartPod, RestartTask, ResumeJob, TerminateJob)",
                "[0].event: 'Oops' is not an event (known: *, JobUpdated, PodEvicted, PodFailed, PodPending, "
                "TaskCompleted, TaskFailed, Unknown)",
            ],
            id="an unknown event",
        ),
        pytest.param("[{event: PodRunning, action: SyncJob}]", ["[0].action", "[0].event"],
            id="an internal event"),
        pytest.param(
            "[{exitCode: 0, action: RestartJob}]",
            ["[0].exitCode: 0 is not a failure "
             "(write another code, or event TaskCompleted)"], id="exit code 0",
        ),
        pytest.param(
            "[{event: PodFailed, exitCode: 1, action: RestartJob}, {action: AbortJob}]",
            [
                "[0].exitCode: 1 is given together with an event (keep one)",
                "[1]: 'AbortJob' has neither an event nor an exitCode (give one)",
            ],
            id="both and neither",
        ),
        pytest.param(
            "[{event: PodFailed, action: RestartJob}, {events: [PodEvicted, PodFailed], action: AbortJob}]",
            ["[1].event: 'PodFailed' is given already in spec.policies[0] (keep one of them)"],
            id="a duplicate event",
        ),
        pytest.param(
            "[{exitCode: 3, action: RestartJob}, {exitCode: 3, action: AbortJob}]",
            ["[1].exitCode: 3 is given already in spec.policies[0] (keep one of them)"],
            id="a duplicate exit code",
        ),
        pytest.param(
            "[{event: PodFailed, action: RestartJob}, {event: '*', action: AbortJob}]",
            ["[1].event: '*' means every event, and there are policies for PodFailed "
             "(leave these out, or list events)"],
            id="any event and another",
        ),
        pytest.param(
            "[{event: PodPending, timeout: soon, action: AbortJob}]",
            ["[0].timeout: 'soon' is not a duration (write 10m, 1h30m or 500ms)"], id="not a duration",
        ),
    ],
)  # fmt: skip
def test_policies_of_a_job_and_of_a_task(policies: str, want: list[str]) -> None:
    def fits(got: list[str], path: str) -> bool:
        return len(got) == len(want) and all(
            one.startswith(f"{path}{other}".replace("spec.policies[0] (", f"{path}[0] ("))
            for one, other in zip(got, want, strict=True)
        )

    assert fits(refusals(f"{{policies: {policies}, tasks: [{W}]}}"), "spec.policies")
    of_a_task = refusals(f"{{tasks: [{{name: w, replicas: 1, policies: {policies}}}]}}")
    assert fits(of_a_task, "spec.tasks[0].policies")


@pytest.mark.parametrize(
    ("needs", "want"),
    [
        pytest.param({"b": "a", "c": "a, b"}, [], id="a tree"),
        pytest.param(
            {"a": "c", "b": "a", "c": "b"},
            ["spec.tasks: 'a, b, c' wait for each other in a circle (leave one of the dependencies out)"],
            id="a cycle",
        ),
        pytest.param(
            {"a": "a"},
            ["spec.tasks: 'a' wait for each other in a circle (leave one of the dependencies out)"],
            id="a self-dependency",
        ),
        pytest.param(
            {"a": "x"}, ["spec.tasks[0].dependsOn.name[0]: 'x' is not a task of this job (known: a, b, c)"],
            id="an unknown task",
        ),
    ],
)  # fmt: skip
def test_dependencies(needs: dict[str, str], want: list[str]) -> None:
    tasks = ", ".join(
        f"{{name: {name}, replicas: 1, dependsOn: {{name: [{needs.get(name, '')}]}}}}" for name in "abc"
    )
    assert refusals(f"{{tasks: [{tasks}]}}") == want


def test_names_that_are_too_long_for_pods() -> None:
    assert refusals(f"{{tasks: [{W}]}}", "x" * 64)[0].startswith("metadata.name: ")
    (got,) = refusals("{tasks: [{name: worker, replicas: 101}]}", "x" * 53)
    assert got.endswith("which exceed 63 characters")
    assert refusals("{tasks: [{name: worker, replicas: 101}]}", "x" * 52) == []


@pytest.mark.parametrize(
    ("policy", "partitioned", "says"),
    [
        ("{event: Unknown, action: RestartPod}", False, "concerns no pod"),
        ("{events: [PodFailed, Unknown], action: RestartTask}", False, "concerns no pod"),
        ("{event: Unknown, action: RestartJob}", False, ""),
        ("{event: PodFailed, action: RestartPartition}", False, "without a partitionPolicy"),
        ("{event: PodFailed, action: RestartPartition}", True, ""),
    ],
)
def test_an_action_without_a_target_produces_a_warning(policy: str, partitioned: bool, says: str) -> None:
    policies, parts = f"policies: [{policy}]", ", partitionPolicy: {partitionSize: 1}" if partitioned else ""
    for spec in (
        f"{{{policies}, tasks: [{{name: v}}, {{name: w{parts}}}]}}",
        f"{{tasks: [{{name: w, {policies}{parts}}}]}}",
    ):
        got = list(volcano_job_warnings(a_job(spec)))
        assert len(got) == bool(says)
        assert all(says in one for one in got)


def test_a_policy_that_never_acts_produces_a_warning() -> None:
    waits = "{event: PodPending, action: RestartPod}"
    assert list(volcano_job_warnings(a_job(f"{{policies: [{waits}], tasks: [{W}]}}"))) == [
        "spec.policies[0]: event PodPending without a timeout never acts (set one, such as 10m)"
    ]
    in_time = "{event: PodPending, timeout: 10m, action: RestartPod}"
    assert list(volcano_job_warnings(a_job(f"{{tasks: [{{name: w, policies: [{in_time}]}}]}}"))) == []


@pytest.mark.parametrize(
    ("least", "master", "worker", "says"),
    [
        pytest.param(3, "1", "10", "", id="the workers suffice"),
        pytest.param(
            11, "1", "10", "write at most 10", id="the master is required and waits for the workers"
        ),
        pytest.param(10, "0/1", "10", "", id="the master is not required to start"),
        pytest.param(5, "1", "1/10", "give them minAvailable 0", id="its own minimum is required"),
    ],
)
def test_a_gang_that_waits_for_itself_produces_a_warning(
    least: int, master: str, worker: str, says: str
) -> None:
    def a_task(name: str, counts: str, more: str) -> str:
        minimum, _, replicas = counts.rpartition("/")
        return f"{{name: {name}, replicas: {replicas}, minAvailable: {minimum or replicas}{more}}}"

    tasks = f"{a_task('m', master, ', dependsOn: {name: [w]}')}, {a_task('w', worker, '')}"
    got = list(volcano_job_warnings(a_job(f"{{minAvailable: {least}, tasks: [{tasks}]}}")))
    assert len(got) == bool(says)
    assert all(says in one for one in got)


STORED = """
queue: default
schedulerName: volcano
minAvailable: 2
priorityClassName: low
maxRetry: 3
tasks:
- name: w
  replicas: 2
  minAvailable: 2
  template:
    spec:
      containers:
      - {name: c, image: busybox, resources: {requests: {cpu: 1000m}}, env: [{name: A, value: "1"}]}
volumes: [{mountPath: /a, volumeClaim: {accessModes: [ReadWriteOnce]}}]
"""


def changed(*changes: tuple[str, str]) -> list[str]:
    text = STORED
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    old, new = fast_yaml.load(STORED), fast_yaml.load(text)
    findings = volcano_job_update_findings({"spec": old}, {"spec": new}, a_job(text))
    return [str(finding) for finding in findings]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("replicas: 2", "replicas: 5"), id="replicas"),
        pytest.param(("minAvailable: 2\npriority", "minAvailable: 1\npriority"), id="minimum"),
        pytest.param(("minAvailable: 2\n  template", "minAvailable: 1\n  template"), id="minimum of a task"),
        pytest.param(("low", "high"), id="priority class"),
        pytest.param(("1000m", '"1"'), id="an equal amount in another notation"),
        pytest.param(
            ("template:\n", "template:\n    metadata: {creationTimestamp: null}\n"),
            id="explicit empty values",
        ),
        pytest.param(
            ("{mountPath: /a,", "{mountPath: /a, volumeClaimName: made,"),
            id="the claim created for the job",
        ),
    ],
)  # fmt: skip
def test_mutable_fields(change: tuple[str, str]) -> None:
    assert changed(change) == []


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            ("queue: default", "queue: team"),
            "spec.queue: 'team' cannot change (it was 'default'; make another job instead)", id="queue",
        ),
        pytest.param(
            ("maxRetry: 3", "maxRetry: 4"),
            "spec.maxRetry: 4 cannot change (it was 3; make another job instead)",
            id="retries",
        ),
        pytest.param(
            ("busybox", "debian"),
            "spec.tasks[0].template.spec.containers[0].image: 'debian' cannot change "
            "(it was 'busybox'; make another job instead)", id="template",
        ),
        pytest.param(
            ('value: "1"', 'value: "1.0"'),
            "spec.tasks[0].template.spec.containers[0].env[0].value: '1.0' cannot change "
            "(it was '1'; make another job instead)", id="a text that looks like an amount",
        ),
        pytest.param(
            ("1000m", "2"),
            "spec.tasks[0].template.spec.containers[0].resources.requests.cpu: 2 cannot change "
            "(it was '1000m'; make another job instead)", id="another amount",
        ),
        pytest.param(
            ("low\n", "low\nplugins: {env: [a]}\n"),
            'spec.plugins.env: ["a"] cannot change (it was not set; make another job instead)', id="plugins",
        ),
        pytest.param(
            ("low\n", "low\nplugins: {env: []}\n"),
            "spec.plugins.env: 'without arguments' cannot change (it was not set; make another job instead)",
            id="a plugin without arguments",
        ),
        pytest.param(
            ("replicas: 2", "replicas: 1"),
            "spec.tasks[0].minAvailable: 2 is more than the replicas of the task, at most 1",
            id="too few tasks",
        ),
    ],
)  # fmt: skip
def test_immutable_fields(change: tuple[str, str], want: str) -> None:
    assert changed(change)[0] == want


def test_tasks_cannot_be_added_or_removed() -> None:
    (got,) = changed(("volumes:", "- {name: x, replicas: 1}\nvolumes:"))
    assert got.startswith("spec.tasks: [{")


def test_an_invalid_stored_job_can_be_labelled() -> None:
    wrong = {"spec": {"minAvailable": 9, "tasks": []}}
    assert (
        list(volcano_job_update_findings(wrong, {**wrong, "metadata": {}}, a_job("{minAvailable: 9}"))) == []
    )


def steps_of(function: Callable[[Job], Iterable[object]], job: Job) -> int:
    """Return how many instructions of the interpreter a validation takes, with all its findings."""
    steps = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return count

    sys.settrace(count)
    try:
        for _ in function(job):
            pass
    finally:
        sys.settrace(None)
    return steps


def test_a_chain_of_twice_the_tasks_takes_twice_the_work() -> None:
    def chain(length: int) -> Job:
        last = length - 1
        tasks = [
            {"name": f"t{at}", "replicas": 1, "dependsOn": {"name": [f"t{at + 1}"] if at < last else []}}
            for at in range(length)
        ]
        return a_job(yaml.safe_dump({"tasks": tasks}))

    assert steps_of(volcano_job_findings, chain(100)) <= 2.1 * steps_of(volcano_job_findings, chain(50))


def test_the_names_of_many_tasks_are_not_all_listed() -> None:
    tasks = ", ".join(f"{{name: t{at:03}, replicas: 1, dependsOn: {{name: [x]}}}}" for at in range(300))
    found = refusals(f"{{tasks: [{tasks}]}}")
    assert len(found) == 300
    assert all(text.endswith(", t049 and 250 more)") for text in found)
