"""A data directory has one owner process, keeps its identity, and is private."""

import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from quorate.kube.clock import WallClock
from quorate.kube.serving.certificates import new_server_certificate
from quorate.kube.serving.tls import KeyPair
from quorate.local.directory import ClusterDirectory, DirectoryInUse, DirectoryUnusable

NOW = WallClock().now()  # ssl compares certificates with the machine's clock
YEAR_S = 365 * 86_400.0

HOLDER = """
import sys, pathlib
from quorate.local.directory import ClusterDirectory
with ClusterDirectory(pathlib.Path(sys.argv[1])).lock(0.0):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> ClusterDirectory:
    return ClusterDirectory(tmp_path / "data")


def test_a_second_process_is_rejected_with_the_owner_s_pid(directory: ClusterDirectory) -> None:
    with directory.lock(NOW) as locked:
        locked.publish_address("https://127.0.0.1:6443", locked.credentials(NOW))
        first = r"process \d+ already runs a cluster here at https://127.0.0.1:6443"
        with pytest.raises(DirectoryInUse, match=first), directory.lock(NOW):
            pass
        running = directory.running()
        assert running is not None
        assert running.server == "https://127.0.0.1:6443"
    assert directory.running() is None


def test_the_lock_ends_with_the_process(directory: ClusterDirectory) -> None:
    command = [sys.executable, "-c", HOLDER, str(directory.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        running = directory.running()
        assert running is not None
        assert running.pid == process.pid
        process.kill()
    assert directory.running() is None
    with directory.lock(NOW):
        pass


def test_identity_survives_a_restart(directory: ClusterDirectory) -> None:
    with directory.lock(NOW) as locked:
        first = locked.credentials(NOW)
    with directory.lock(NOW) as locked:
        second = locked.credentials(NOW + 100 * 86_400)
    assert (first.token, first.authority) == (second.token, second.authority)


def test_an_expiring_server_certificate_is_renewed_alone(directory: ClusterDirectory) -> None:
    with directory.lock(NOW) as locked:
        first = locked.credentials(NOW)
        certificate = (directory.path / "server.crt").read_bytes()
        second = locked.credentials(NOW + YEAR_S)
        renewed = (directory.path / "server.crt").read_bytes()
    assert certificate != renewed
    assert (first.token, first.authority) == (second.token, second.authority)


def test_a_certificate_without_the_names_of_the_server_in_pods_is_replaced(
    directory: ClusterDirectory,
) -> None:
    with directory.lock(NOW) as locked:
        locked.credentials(NOW)
        authority = KeyPair(
            (directory.path / "ca.crt").read_bytes(), (directory.path / "ca.key").read_bytes()
        )
        old = new_server_certificate(authority, "quorate-local", ["127.0.0.1"], NOW)
        (directory.path / "server.crt").write_bytes(old.certificate)
        (directory.path / "server.key").write_bytes(old.key)
        locked.credentials(NOW)
        assert (directory.path / "server.crt").read_bytes() != old.certificate
        assert (directory.path / "ca.crt").read_bytes() == authority.certificate


def test_only_the_owner_can_read_the_files(directory: ClusterDirectory) -> None:
    with directory.lock(NOW) as locked:
        locked.publish_address("https://127.0.0.1:1", locked.credentials(NOW))
        assert locked.database.exists()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.path.iterdir()}
    assert set(modes) == {
        "ca.crt",
        "ca.key",
        "cluster.db",
        "kubeconfig",
        "running.json",
        "server.crt",
        "server.key",
        "token",
    }
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700


def test_the_kubeconfig_has_server_authority_and_token(directory: ClusterDirectory) -> None:
    with directory.lock(NOW) as locked:
        credentials = locked.credentials(NOW)
        locked.publish_address("https://127.0.0.1:7443", credentials)
    config = yaml.safe_load(directory.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:7443"
    ssl.create_default_context().load_verify_locations(cadata=credentials.authority.decode())
    assert config["users"][0]["user"] == {"token": credentials.token}
    assert config["current-context"] == config["contexts"][0]["name"] == "quorate-local"


@pytest.mark.parametrize("content", [None, "", "apiVersion: v1\nkind: Config\n"])
def test_a_lost_kubeconfig_of_a_running_cluster_is_written_again(
    directory: ClusterDirectory, content: str | None
) -> None:
    with directory.lock(NOW) as locked:
        locked.publish_address("https://127.0.0.1:7443", locked.credentials(NOW))
        whole = directory.kubeconfig.read_text()
        directory.kubeconfig.unlink()
        if content is not None:
            directory.kubeconfig.write_text(content)
        directory.restore_kubeconfig("https://127.0.0.1:7443")
        assert directory.kubeconfig.read_text() == whole
        (directory.path / "ca.crt").unlink()
        with pytest.raises(DirectoryUnusable, match=r"ca\.crt: no such file"):
            directory.restore_kubeconfig("https://127.0.0.1:7443")


def test_remove_deletes_only_known_files(directory: ClusterDirectory) -> None:
    with directory.lock(NOW) as locked:
        locked.credentials(NOW)
    (directory.path / "notes.txt").write_text("keep")
    removed = {path.name for path in directory.remove(NOW)}
    assert removed == {"running.json", "token", "ca.crt", "ca.key", "server.crt", "server.key"}
    assert [path.name for path in directory.path.iterdir()] == ["notes.txt"]
    (directory.path / "notes.txt").unlink()
    directory.remove(NOW)
    assert not directory.path.exists()


def test_a_locked_directory_is_not_removed(directory: ClusterDirectory) -> None:
    with directory.lock(NOW), pytest.raises(DirectoryInUse):
        directory.remove(NOW)


def test_a_file_cannot_be_a_data_directory(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    advice = "data: .*choose another with --data-dir"
    with pytest.raises(DirectoryUnusable, match=advice), ClusterDirectory(tmp_path / "data").lock(NOW):
        pass


def test_the_kubeconfig_has_a_context_of_each_worker(directory: ClusterDirectory) -> None:
    for number in (10, 2):
        worker = directory.worker(number)
        with worker.lock(NOW) as locked:
            locked.publish_address(f"https://127.0.0.1:{number}", locked.credentials(NOW))
    (directory.path / "worker-one").mkdir()
    with directory.lock(NOW) as locked:
        locked.publish_address("https://127.0.0.1:7443", locked.credentials(NOW))
    config = yaml.safe_load(directory.kubeconfig.read_text())
    servers = {each["name"]: each["cluster"]["server"] for each in config["clusters"]}
    assert servers == {
        "quorate-local": "https://127.0.0.1:7443",
        "quorate-worker-2": "https://127.0.0.1:2",
        "quorate-worker-10": "https://127.0.0.1:10",
    }
    tokens = {each["name"]: each["user"]["token"] for each in config["users"]}
    assert tokens["quorate-worker-2"] == (directory.worker(2).path / "token").read_text()
    assert config["current-context"] == "quorate-local"
    assert directory.last_port == 7443

    directory.worker(2).kubeconfig.write_text("changed: by hand")
    directory.restore_kubeconfig("https://127.0.0.1:7443")
    config = yaml.safe_load(directory.kubeconfig.read_text())
    assert [each["name"] for each in config["contexts"]] == ["quorate-local", "quorate-worker-10"]
    assert directory.worker(2).last_port == 0
