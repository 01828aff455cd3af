"""Snapshots: what they keep, what they learn, and that they are played as the cluster would go on."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from quorate.api import codec
from quorate.api.configuration import Configuration, default_configuration
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.kube.resources import WORKLOADS, untyped
from quorate.local.nodes import NodePool
from quorate.simulate.engine.player import play
from quorate.simulate.engine.records import Outcome
from quorate.simulate.estimates.snapshot import documents, run_times, snapshot_world
from quorate.simulate.inputs.existing import existing_jobs
from quorate.simulate.inputs.world import read_world
from quorate.simulate.limits import MAX_RUN_TIMES
from tests.e2e.verbs import CommandLine
from tests.e2e.world import World, run_story

NOW = 1_767_571_200.0  # 2026-01-05T00:00:00Z
DEFINITIONS = untyped(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: more, labels: {kueue.x-k8s.io/queue-name: queue}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, resources: {requests: {cpu: 1}}}]
"""


def workload(
    name: str, queue: str = "a", ran_s: int | None = None, declared_s: int | None = None
) -> Workload:
    """A workload that finished after ``ran_s``, or waits."""
    conditions = []
    if ran_s is not None:
        ended = f"2026-01-04T{ran_s // 3600:02}:{ran_s // 60 % 60:02}:{ran_s % 60:02}Z"
        times = (("Admitted", "2026-01-04T00:00:00Z"), ("Finished", ended))
        conditions = [
            {"type": type_, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": time}
            for type_, time in times
        ]
    template = {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}},
        "spec": {
            "containers": [
                {
                    "name": "main", "image": "secret-image", "command": ["secret-command"],
                    "env": [{"name": "TOKEN", "value": "secret-value"}],
                    "resources": {"requests": {"cpu": "1"}},
                }
            ]
        },
    }  # fmt: skip
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "team", "annotations": {"secret-annotation": "secret"}},
        "spec": {"queueName": queue, "podSets": [{"name": "main", "count": 1, "template": template}]},
        "status": {"conditions": conditions},
    }
    if declared_s is not None:
        body["spec"]["maximumExecutionTimeSeconds"] = declared_s
    return codec.convert(Workload, body)


@pytest.mark.parametrize(
    ("workloads", "expected"),
    [
        pytest.param(
            [workload("1", "a", 60), workload("2", "a", 180), workload("3", "a")],
            [("a", (60, 180), "team/a: 2 finished workloads")],
            id="those of the queue",
        ),
        pytest.param(
            [*(workload(str(number), "a", 60) for number in range(3)), workload("4", "b")],
            [("b", (60,) * 3, "team/b: none has finished; those of the 3 finished workloads of all queues")],
            id="those of all queues",
        ),
        pytest.param(
            [workload("1", "a", 60), workload("2", "b")],
            [("b", (3600,), "team/b: workloads that have finished: only 1 in all queues; 3600 s is assumed")],
            id="too few of all queues",
        ),
        pytest.param(
            [workload("1", "a")],
            [("a", (3600,), "team/a: workloads that have finished: none; 3600 s is assumed")],
            id="assumed",
        ),
        pytest.param([workload("1", "a", declared_s=60)], [], id="declared"),
        pytest.param([workload("1", "a", 60)], [], id="none is left"),
    ],
)
def test_run_times_are_learned_from_finished_workloads(
    workloads: list[Workload], expected: list[tuple[str, tuple[float, ...], str]]
) -> None:
    found = [(each.kind.queue[1], each.seconds, each.origin) for each in run_times(workloads, 3600.0)]
    assert found == expected


def test_of_many_run_times_the_latest_are_kept() -> None:
    workloads = [workload(str(seconds), "a", seconds) for seconds in range(1000)]
    (learned, kind) = run_times([*workloads, workload("7", "a")], 1.0)
    assert learned.seconds == tuple(range(1000 - MAX_RUN_TIMES, 1000))
    assert kind.origin == f"team/a, Workload #: {MAX_RUN_TIMES} finished workloads"


def test_a_workload_of_a_known_kind_runs_as_the_others_of_its_kind() -> None:
    seen = [workload(f"short-{number}", "a", 60) for number in range(3)]
    seen += [workload(f"long-{number}", "a", 6000) for number in range(3)]
    waiting = [workload("short-9", "a"), workload("long-9", "a"), workload("other", "a", declared_s=30)]
    times = list(run_times([*seen, *waiting], 1.0))
    assert [str(each.kind) for each in times] == [
        "team/a",
        "team/a, Workload long-#",
        "team/a, Workload short-#",
    ]
    world = snapshot_world({WORKLOADS: waiting}, times, NOW, default_configuration())
    runs = {each.workload.metadata.name: each.submission.runs_ms / 1000 for each in existing_jobs(world)}
    assert runs == {"long-9": 6000, "short-9": 60, "other": 30}  # it is stopped at what it declares


def test_details_of_pods_are_left_out() -> None:
    text = "".join(documents({WORKLOADS: [workload("1"), workload("done", "a", 60)]}, (), NOW, ""))
    assert "secret" not in text
    assert "podset-required-topology" in text
    assert "done" not in text


def test_a_workload_with_an_unreadable_template_is_left_out() -> None:
    hostile = workload("hostile")
    (pod_set,) = hostile.spec.pod_sets
    unreadable = msgspec.structs.replace(
        pod_set, template=msgspec.Raw(b'{"spec": {"overhead": {"cpu": "lots"}}}')
    )
    spec = msgspec.structs.replace(hostile.spec, pod_sets=(unreadable,))
    hostile = msgspec.structs.replace(hostile, spec=spec)
    text = "".join(documents({WORKLOADS: [hostile, workload("other")]}, (), NOW, ""))
    assert ("hostile" in text, "other" in text) == (False, True)


@pytest.mark.slow
def test_a_snapshot_of_a_cluster_is_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "snapshot.yaml"

    async def story(world: World) -> None:
        await world.queues("2")
        await world.job("done", runs="50ms")
        await world.until_finished("done")
        await world.job("runs", runs="forever", cpu="2")
        await world.until_admitted("runs")
        await world.job("waits", cpu="2")
        await world.until_condition("waits", "QuotaReserved", "False")
        command = CommandLine(world, tmp_path, monkeypatch)
        done = await command("snapshot", "--file", str(file))
        assert done.code == 0, done.err
        assert "run times of default/queue: 1 finished workloads" in " ".join(done.err.split())
        pseudonymous = await command.output_of("snapshot", "--pseudonyms")
        assert "research" in file.read_text()
        assert "research" not in pseudonymous
        for name in ("lq/queue", "research", "cq/research"):
            table = await command.output_of("queue", "forecast", name, "--plays", "3")
            hours, _, rows = table.partition("\n\n")
            assert hours.splitlines()[-1].split()[1:] == ["1", "1", "0"]
            (row,) = [line.split() for line in rows.splitlines()[1:]]
            assert (row[0], row[2], row[-4:]) == ("default", "queue", ["3", "low", "Queued", "QuotaShort"])
        answer = json.loads(await command.output_of("queue", "forecast", "-o", "json", "--plays", "3"))
        (start,) = answer["workloads"]
        assert (start["runs"], start["confidence"]) == (3, "low")
        assert answer["at"] < start["p50"] <= start["p90"]
        change = tmp_path / "job.yaml"
        change.write_text(JOB)
        live = json.loads(await command.output_of("simulate", "--change", str(change), "-o", "json"))
        assert live["scenario"]["outcomes"]["succeeded"] == 2
        (compared,) = live["changes"]
        assert compared["after"]["outcomes"]["succeeded"] == 3
        change.write_text(JOB.replace("queue-name: queue", "queue-name: queu"))
        misspelt = await command("simulate", "--change", str(change))
        assert "is no LocalQueue of namespace default (did you mean queue?)" in misspelt.err
        misspelt = await command("queue", "forecast", "reserch")
        assert misspelt.err == "error: ClusterQueue reserch does not exist (did you mean research?)\n"
        once = await command.output_of("queue", "forecast", "--plays", "1")
        assert " in about " in once
        answer = json.loads(await command.output_of("queue", "forecast", "-o", "json", "--plays", "1"))
        assert answer["workloads"][0]["p90"] is None
        reserve = "reservation create night --start now --duration 3h --maintenance --amounts default:cpu=2"
        await command.output_of(*reserve.split())
        await command.output_of("snapshot", "--file", str(tmp_path / "reserved.yaml"))
        assert '"kind":"Reservation"' in (tmp_path / "reserved.yaml").read_text()
        await command.output_of("snapshot", "--pseudonyms", "--file", str(tmp_path / "pseudonyms.yaml"))
        change.write_text(JOB)
        live = json.loads(await command.output_of("simulate", "--change", str(change), "-o", "json"))
        assert live["scenario"]["durationS"] > 10_700  # what waits starts when the window ends
        definition = Key("", "reservations.quorate.dev")
        await world.client.delete(DEFINITIONS, definition)

        async def is_gone() -> bool:
            return await world.client.find(DEFINITIONS, definition) is None

        await world.until("the definition is gone", is_gone)
        assert '"kind":"Reservation"' not in await command.output_of("snapshot")
        refused = await command("queue", "forecast", "queue")
        assert refused.err == (
            "error: ClusterQueue queue does not exist (write lq/queue for a local queue)\n"
        )

    run_story(story, Configuration(), NodePool(1, cpu="4"))
    scenario = next(yaml.safe_load_all(file.read_text()))
    assert [each["queues"] for each in scenario["existing"]] == [["queue"]]
    run = play(read_world(file))
    assert [Outcome(each).name for each in run.jobs.outcome] == ["SUCCEEDED", "SUCCEEDED"]
    first, second = run.jobs.admitted_ms
    assert first <= 0 < second
    for name in ("reserved.yaml", "pseudonyms.yaml"):
        _, second = play(read_world(tmp_path / name)).jobs.admitted_ms
        assert second > 10_700_000
