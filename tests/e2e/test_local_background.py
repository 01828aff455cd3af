"""``quorate local up --detach``: a cluster in the background, and the commands that act on it."""

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from quorate.api.configuration import Configuration
from quorate.processes.local.queueing_cluster import NODES_DEADLINE_S
from quorate.sdk.cluster import Cluster
from tests.e2e.commands import QUORATE, ROOT, poll
from tests.forked_command import forked_command
from tests.processes.local.test_queueing_cluster import NO_NODES

pytestmark = pytest.mark.slow


OTHERS = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}


class Home:
    """Run ``quorate local`` for a user with a home directory of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def local(
        self, *arguments: str, within_s: float = 200.0, program: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*(program or [str(forked_command())]), "local", *arguments],
            capture_output=True, text=True, check=False, cwd=ROOT,
            env={**OTHERS, "HOME": str(self.path), "COLUMNS": "200"}, timeout=within_s,
        )  # fmt: skip

    def directory(self, name: str = "local") -> Path:
        return self.path / ".quorate" / name

    def record(self, name: str = "local") -> dict[str, object]:
        record: dict[str, object] = json.loads((self.directory(name) / "running.json").read_text())
        return record


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    for directory in (tmp_path / ".quorate").glob("*"):
        home.local("down", "--name", directory.name)


def processes_of_session(session: int) -> list[str]:
    """Return the command lines of the processes in a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, *numbers = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(numbers[2]) == session and state != "Z":
            found.append(stat.with_name("cmdline").read_text().replace("\0", " "))
    return found


def test_a_cluster_in_the_background_is_ready_stopped_and_started_again(home: Home) -> None:
    up = home.local("up", "--detach", "--port", "0", "--nodes", "2", "--dashboard", "--dashboard-port", "0")
    assert up.returncode == 0, up.stderr
    assert up.stdout.startswith(f"export KUBECONFIG={home.directory() / 'kubeconfig'}\n# ")
    assert "# dashboard: open http://127.0.0.1:" in up.stdout
    assert "quorate local logs --follow, quorate local down" in up.stdout
    assert up.stderr.splitlines()[-1].startswith("# install the queueing kinds")

    status = home.local("status")
    rows = [line.split() for line in status.stdout.splitlines()]
    assert status.returncode == 0
    assert [row for row in rows if row[0] in ("cluster", "nodes")] == [["cluster", "running"], ["nodes", "2"]]
    (home.directory() / "kubeconfig").unlink()
    assert ["nodes", "2"] in [line.split() for line in home.local("status").stdout.splitlines()]
    (home.directory() / "kubeconfig").write_text("")
    assert home.local("kubeconfig").stdout == (home.directory() / "kubeconfig").read_text() != ""
    second = home.local("up", "--detach")
    assert second.returncode == 2
    assert "already runs a cluster here" in second.stderr
    assert len(home.local("logs", "--tail", "2").stdout.splitlines()) == 2

    session = int(str(home.record()["pid"]))
    down = home.local("down")
    assert down.stdout == f"stopped process {session}; the state stays in {home.directory()}\n"
    poll(lambda: processes_of_session(session), lambda found: not found, 60)
    assert home.local("status").returncode == 1
    assert "stopped; the state is kept" in home.local("logs", "--follow").stdout, "it ends with the cluster"

    again = home.local("up", "--detach", "--port", "0")
    assert again.returncode == 0, again.stderr
    assert ["nodes", "2"] in [line.split() for line in home.local("status").stdout.splitlines()]


@pytest.mark.long  # waits for the deadline; shorter in tests/processes/local/test_queueing_cluster.py
def test_a_stored_policy_that_denies_nodes_does_not_stop_the_start(home: Home) -> None:
    up = ("up", "--detach", "--port", "0", "--nodes", "1", "--without-controllers")
    assert home.local(*up).returncode == 0
    Cluster(home.directory() / "kubeconfig").apply(NO_NODES)
    assert home.local("down").returncode == 0
    again = home.local(*up, within_s=NODES_DEADLINE_S + 60)
    assert again.returncode == 0, again.stderr
    assert "not all nodes are registered yet" in home.local("logs").stdout


def test_the_record_of_a_killed_cluster_is_stale(home: Home) -> None:
    assert home.local("up", "--detach", "--port", "0", "--without-controllers").returncode == 0
    killed = int(str(home.record()["pid"]))
    os.kill(killed, signal.SIGKILL)
    poll(lambda: home.local("status").returncode, lambda code: code == 1, 60)
    down = home.local("down")
    assert down.returncode == 2
    assert "no cluster runs here" in down.stderr
    again = home.local("up", "--detach", "--port", "0", "--without-controllers", program=QUORATE)
    assert again.returncode == 0, again.stderr
    assert home.record()["pid"] != killed
    assert "# start the queueing controllers: quorate controllers --kubeconfig" in again.stdout
    deleted = home.local("down", "--delete")
    assert deleted.returncode == 0
    assert not home.directory().exists()


def test_a_second_cluster_and_a_context_in_the_kubeconfig_of_the_user(home: Home) -> None:
    config = home.path / ".kube" / "config"
    config.parent.mkdir()
    config.write_text("current-context: work\n")
    one = home.local("up", "--detach", "--name", "one", "--without-controllers", "--merge-kubeconfig")
    assert one.returncode == 0, one.stderr
    assert "context quorate-one is current: kubectl get nodes" in one.stdout
    assert yaml.safe_load(config.read_text())["current-context"] == "quorate-one"
    port = str(home.record("one")["server"]).rpartition(":")[2]
    two = home.local("up", "--detach", "--name", "two", "--port", port)
    assert two.returncode == 2
    assert two.stderr.splitlines()[-1].startswith(f"error: port {port}: another process listens there")
    assert home.local("down", "--name", "two").returncode == 2
    both = home.local("up", "--name", "two", "--data-dir", "elsewhere")
    assert "--name has no effect with --data-dir" in both.stderr

    own = home.local("kubeconfig", "--name", "one").stdout
    (user,) = yaml.safe_load(config.read_text())["users"]
    assert user["user"] == yaml.safe_load(own)["users"][0]["user"]
    deleted = home.local("down", "--name", "one", "--delete")
    assert f"{config}: context quorate-one removed" in deleted.stdout
    assert yaml.safe_load(config.read_text())["users"] == []


def test_a_manager_and_a_worker_are_connected_and_stop_together(home: Home) -> None:
    up = home.local("up", "--detach", "--port", "0", "--clusters", "2", "--merge-kubeconfig", within_s=200)
    assert up.returncode == 0, up.stderr
    assert "# worker clusters: kubectl --context quorate-worker-1\n" in up.stdout
    kubeconfig = home.path / ".kube" / "config"
    contexts = [each["name"] for each in yaml.safe_load(kubeconfig.read_text())["contexts"]]
    assert sorted(contexts) == ["quorate-local", "quorate-worker-1"]
    manager, worker = Cluster(kubeconfig), Cluster(kubeconfig, context="quorate-worker-1")
    stored = manager.get("secret", "worker-1", namespace=Configuration().namespace)["data"]["kubeconfig"]
    (user,) = yaml.safe_load(base64.b64decode(stored))["users"]
    assert user["user"]["token"] != (home.directory() / "worker-1" / "token").read_text()
    assert manager.wait_for("multikueuecluster", "worker-1", "Active")
    assert manager.get("multikueueconfig", "workers")["spec"]["clusters"] == ["worker-1"]
    check = {"name": "multikueue"}
    (queue,) = manager.list("clusterqueues")
    assert queue["spec"]["admissionChecksStrategy"]["admissionChecks"] == [check]
    (worker_queue,) = worker.list("localqueues")
    assert worker_queue["metadata"]["name"] == manager.list("localqueues")[0]["metadata"]["name"]
    manager.delete("clusterqueue", queue["metadata"]["name"])

    port = home.record("local/worker-1")["server"]
    os.kill(int(str(home.record()["pid"])), signal.SIGKILL)
    poll(lambda: home.local("status").returncode, lambda code: code == 1, 60)
    assert home.local("status").stdout.splitlines()[-1].split() == ["worker-1", "running", port]
    assert "already runs a cluster here" in home.local("reset", "--yes").stderr
    assert "of a worker of a cluster that was killed" in home.local("down").stdout
    assert home.local("status").stdout.splitlines()[-1].split() == ["worker-1", "stopped"]

    again = home.local("up", "--detach", within_s=200)
    assert again.returncode == 0, again.stderr
    assert home.local("status").stdout.splitlines()[-1].split() == ["worker-1", "running", port]
    assert not manager.list("clusterqueues"), "queues are created once"
    deleted = home.local("down", "--delete", within_s=60)
    assert deleted.returncode == 0, deleted.stderr
    assert not home.directory().exists()
    assert not yaml.safe_load(kubeconfig.read_text())["contexts"]
