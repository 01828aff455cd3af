"""The output of every command with ``-o json`` can be parsed: one document, or a line for each item."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from quorate.install.multikueue_worker import ACCOUNT
from quorate.kube.resources import MULTIKUEUE_CLUSTERS, POD_GROUPS, TOPOLOGIES, untyped
from tests.cli.test_json_output import BY_NAME, PROCESSES, WRITERS
from tests.e2e.bare_workloads import submit
from tests.e2e.commands import ROOT
from tests.e2e.verbs import CommandLine
from tests.e2e.volcano import Gangs, run_story
from tests.e2e.world import NAMESPACE
from tests.forked_command import forked_command

pytestmark = pytest.mark.slow

# By command: the words after it.  They are run in this order on one cluster.
ON_A_CLUSTER = {
    "version": "",
    "preflight": "",
    "status": "--all-namespaces",
    "queue list": "",
    "queue create": "cq/spare",
    "queue describe": "research spare",
    "queue stop": "--yes research spare",
    "queue resume": "research spare",
    "queue forecast": "research",
    "flavor list": "",
    "flavor create": "spot",
    "topology list": "",
    "topology describe": "racks",
    "submit": f"-n {NAMESPACE} -q queue --name train -- ./run",
    "logs": f"-n {NAMESPACE} job/train",
    "explain": f"-n {NAMESPACE} cq/research lq/queue",
    "workload list": "--all-namespaces",
    "workload describe": f"-n {NAMESPACE} prepare evaluate",
    "workload explain": f"-n {NAMESPACE} prepare evaluate",
    "workload stop": f"-n {NAMESPACE} prepare evaluate",
    "workload resume": f"-n {NAMESPACE} prepare evaluate",
    "workload pods": f"-n {NAMESPACE} job/train",
    "workload delete": f"-n {NAMESPACE} --yes prepare evaluate",
    "podgroup list": f"-n {NAMESPACE}",
    "podgroup explain": f"-n {NAMESPACE} one two",
    "vcjob run": f"-n {NAMESPACE} together",
    "vcjob list": f"-n {NAMESPACE}",
    "vcjob view": f"-n {NAMESPACE} together",
    "vcjob suspend": f"-n {NAMESPACE} together",
    "vcjob resume": f"-n {NAMESPACE} together",
    "vcjob delete": f"-n {NAMESPACE} together",
    "vcqueue list": "",
    "vcqueue create": "lab --state Closed",
    "vcqueue get": "lab",
    "vcqueue operate": "lab --action open",
    "vcqueue delete": "lab",
    "reservation list": "",
    "reservation create": "training --duration 2h --amounts default:cpu=1 --cluster-queues research",
    "reservation describe": "training",
    "reservation delete": "training",
    "cluster list": "",
    "cluster describe": "east",
    "cluster kubeconfig": f"-n {NAMESPACE} --server https://10.0.0.7:6443",
    "snapshot": "",
    "simulate": "examples/simulate/all-or-nothing.yaml",
    "simulate backtest": "examples/simulate/all-or-nothing.yaml",
    "examples list": "",
    "cancel": f"-n {NAMESPACE} job/train",
}
ON_THIS_MACHINE = {
    "local up": "--detach --port 0 --nodes 1 --without-controllers",
    "local status": "",
    "local import": "",  # of what the command kubectl would print
    "local logs": "--tail 3",
    "local kubeconfig": "--merge",
    "local down": "",
    "local reset": "--yes",
    "local run": "examples/all-or-nothing --speed 20 --timeout 1",
}
LINES = ("logs", "local logs")
FAILS = {"local run": 4}  # exit codes that are results


def test_the_tables_name_every_command() -> None:
    assert ON_A_CLUSTER.keys() | ON_THIS_MACHINE.keys() | {"demo"} == BY_NAME.keys() - PROCESSES - WRITERS


def parsed(name: str, text: str) -> Any:
    """Return the document, or the lines as a list."""
    try:
        return [json.loads(line) for line in text.splitlines()] if name in LINES else json.loads(text)
    except json.JSONDecodeError as error:
        pytest.fail(f"{name}: {error}: {text}")


def names_in(document: Any) -> list[str]:
    """Return the name of the object, or the names of the objects of a List."""
    return [item["metadata"]["name"] for item in document.get("items", [document])]


def test_each_command_on_a_cluster_prints_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(gangs: Gangs) -> None:
        world, command = gangs.world, CommandLine(gangs.world, tmp_path, monkeypatch)
        monkeypatch.chdir(ROOT)
        await world.queues(cpu="4")
        await world.create(TOPOLOGIES, "racks", spec={"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})
        source = {"kubeConfig": {"location": "east"}}
        await world.create(MULTIKUEUE_CLUSTERS, "east", spec={"clusterSource": source})
        account = {"metadata": {"name": ACCOUNT}, "data": {"token": "dG9rZW4=", "ca.crt": "Y2E="}}
        await world.client.create(untyped("", "v1", "secrets", "Secret", True), account, NAMESPACE)
        for name in ("prepare", "evaluate"):
            await submit(world, name)
        for name in ("one", "two"):
            await world.create(POD_GROUPS, name, NAMESPACE, spec={"minMember": 1})
        for name, words in ON_A_CLUSTER.items():
            done = await command(*name.split(), *shlex.split(f"-o json {words}"))
            assert done.code == FAILS.get(name, 0), (name, done.err)
            document = parsed(name, done.out)
            assert '"managedFields"' not in done.out, name  # which kubectl shows only on demand
            if name in ("workload stop", "workload delete"):
                assert names_in(document) == ["prepare", "evaluate"], name
            if name in ("vcjob suspend", "vcjob delete", "vcqueue delete", "cancel"):
                assert names_in(document) == [words.split()[-1].removeprefix("job/")], name

    run_story(story)


def test_each_command_for_a_local_cluster_prints_json(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE]}))
    environment = {**os.environ, "HOME": str(tmp_path), "COLUMNS": "200"}
    environment.pop("KUBECONFIG", None)

    def run(name: str, words: str) -> Any:
        done = subprocess.run(
            [forked_command(), *name.split(), "-o", "json", *words.split()],
            capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=100,
        )  # fmt: skip
        assert done.returncode == FAILS.get(name, 0), (name, done.stderr)
        return parsed(name, done.stdout)

    try:
        results = {
            name: run(name, str(nodes) if name == "local import" else words)
            for name, words in ON_THIS_MACHINE.items()
        }
    finally:
        subprocess.run([forked_command(), "local", "down"], env=environment, capture_output=True, check=False)
    up, status = results["local up"], results["local status"]
    assert (up["server"], up["process"]) == (status["server"], status["process"])
    assert status["objects"]["nodes"] == {"total": 1}
    assert results["local import"] == {"imported": {"Node": 1}, "skipped": {}}
    assert len(results["local logs"]) == 3
    assert results["local down"]["process"] == up["process"]
    assert results["local reset"]["deletedFiles"] > 0
    assert {job["name"] for job in results["local run"]["jobs"]} == {"job1", "job2", "quick-job"}


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "imported"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}


@pytest.mark.long  # it plays the whole demo
def test_the_demo_prints_its_results_as_json() -> None:
    done = subprocess.run(
        [forked_command(), "demo", "--speed", "20", "--simulated", "-o", "json"],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["asDocumented"]
    assert [run["ending"] for run in document["runs"].values()] == ["Deadlocked", "Completed", "Completed"]
    assert document["withMoreNodes"][1] == {
        "job": "job2", "endsSeconds": 24.0, "endsWithTwoMoreNodesSeconds": 12.0
    }  # fmt: skip
