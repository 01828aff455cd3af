"""Clusters for tests: what their methods return and refuse, and when they end."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.inspect.configuration_files import InvalidFiles
from quorate.kube.errors import NotFound, Unreachable
from quorate.sdk.cluster import NotWithin, UnknownKind
from quorate.testing.server import ClusterServer, ClusterSettings, LocalCluster
from tests.e2e.commands import needs_kubectl, poll

pytestmark = [pytest.mark.slow]
SETTINGS = ClusterSettings(nodes=1, cpu="8", memory="16Gi", pods=110, speed=10.0, configuration=None)
SECRETLESS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {size: '3'}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServer]:
    server = ClusterServer(tmp_path_factory.mktemp("server"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def cluster(server: ClusterServer) -> LocalCluster:
    return server.start(SETTINGS)


def test_objects_are_applied_read_and_deleted(cluster: LocalCluster, tmp_path: Path) -> None:
    team = cluster.in_namespace("team-a", labels={"team": "a"})
    file = tmp_path / "settings.yaml"
    file.write_text(SECRETLESS)
    for manifests in (SECRETLESS, file, str(file), tmp_path):
        (stored,) = team.apply(manifests)
        assert (stored["metadata"]["namespace"], stored["data"]) == ("team-a", {"size": "3"})
    assert team.get("cm", "settings")["data"] == {"size": "3"}
    assert "settings" in {each["metadata"]["name"] for each in team.list("configmaps")}
    assert team.list("ConfigMap", label_selector="absent=yes") == ()
    assert cluster.get("namespace", "team-a")["metadata"]["labels"]["team"] == "a"
    team.delete("configmap", "settings")
    assert team.wait_for("configmap", "settings", "delete") is None
    with pytest.raises(NotFound):
        team.get("configmap", "settings")


def test_the_referenced_objects_come_first(cluster: LocalCluster) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}}
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "later"}}
    generated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "new-"}}
    stored = cluster.apply([one, namespace, generated])
    assert [each["kind"] for each in stored] == ["Namespace", "ConfigMap", "ConfigMap"]
    assert stored[2]["metadata"]["name"].startswith("new-")


def test_every_refusal_is_reported(cluster: LocalCluster) -> None:
    bad_kinds = (
        "{apiVersion: v2, kind: ConfigMap, metadata: {name: a}}\n---\n"
        "{apiVersion: v1, kind: Rocket, metadata: {name: a}}"
    )
    with pytest.raises(InvalidFiles) as raised:
        cluster.apply(bad_kinds)
    assert [line.split(" (")[0] for line in raised.value.findings] == [
        "manifests:1: apiVersion: 'v2' is not served by this cluster",
        "manifests:3: kind: 'Rocket' is no kind of v1",
    ]
    with pytest.raises(InvalidFiles, match="no such file"):
        cluster.apply("absent.yaml")


def test_a_timeout_tells_the_state(cluster: LocalCluster) -> None:
    with pytest.raises(NotWithin) as raised:
        cluster.wait_for("node", "node-1", "Ready=False", timeout=0.2)
    assert str(raised.value).startswith("node/node-1: not Ready=False within 0.2 s: MemoryPressure=False")
    with pytest.raises(NotWithin, match="not Ready=False within 0 s: MemoryPressure=False"):
        cluster.wait_for("node", "node-1", "Ready=False", timeout=0)  # ends before the server can answer
    with pytest.raises(UnknownKind, match="serves no kind 'rocket'"):
        cluster.wait_for("rocket", "one", timeout=0.2)
    with pytest.raises(UnknownKind):
        cluster.list("rocket")


def test_calls_work_while_an_event_loop_runs(cluster: LocalCluster) -> None:
    async def names() -> list[str]:
        return [each["metadata"]["name"] for each in cluster.list("nodes")]

    assert asyncio.run(names()) == ["node-1"]


@needs_kubectl()
def test_the_environment_is_for_commands(cluster: LocalCluster) -> None:
    command = ["kubectl", "get", "nodes", "-o", "name"]
    done = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=True)
    assert done.stdout == "node/node-1\n"


def test_a_cluster_ends_with_the_server(tmp_path: Path) -> None:
    server = ClusterServer(tmp_path / "server")
    first, second = server.start(SETTINGS), server.start(SETTINGS)
    server.stop(first)
    assert not first.log.parent.exists()
    assert second.get("node", "node-1")
    server.close()
    poll(lambda: _answers(second), lambda answers: not answers, within_s=60)


def _answers(cluster: LocalCluster) -> bool:
    try:
        return bool(cluster.list("nodes"))
    except Unreachable:
        return False


def test_without_its_kubeconfig_a_cluster_tells_nothing_of_its_workloads(tmp_path: Path) -> None:
    assert LocalCluster(tmp_path / "absent").unstarted() == []
