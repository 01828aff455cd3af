"""``quorate local``: one cluster per directory, with durable data, clean shutdown and authentication."""

import socket
import ssl
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import yaml

from tests.e2e.commands import cluster, quorate

pytestmark = pytest.mark.slow


def response_code(data_dir: Path, path: str, token: str | None, method: str = "GET", body: str = "") -> int:
    """Return the status code of one request."""
    config = yaml.safe_load((data_dir / "kubeconfig").read_text())
    host, port = config["clusters"][0]["cluster"]["server"].removeprefix("https://").split(":")
    trusting = ssl.create_default_context(cafile=data_dir / "ca.crt")
    connection = HTTPSConnection(host, int(port), context=trusting, timeout=60)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request(method, path, body, headers | {"Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_local_cluster_starts_keeps_its_data_and_is_reset(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    map_ = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}'
    maps = "/api/v1/namespaces/default/configmaps"

    with cluster(data_dir, "--nodes", "3", is_new=True):
        token = (data_dir / "token").read_text()
        assert response_code(data_dir, maps, None) == 403
        assert response_code(data_dir, maps, "wrong") == 401
        assert response_code(data_dir, maps, token, "POST", map_) == 201

        second = quorate("local", "up", "--data-dir", str(data_dir))
        assert second.returncode == 2
        assert "already runs a cluster here at https://127.0.0.1:" in second.stderr

        status = quorate("local", "status", "--data-dir", str(data_dir))
        assert status.returncode == 0
        assert ["nodes", "3"] in [line.split() for line in status.stdout.splitlines()]

    topologies = "/apis/kueue.x-k8s.io/v1beta2/topologies"
    with cluster(data_dir, "--topology", "rack=3,host=1") as process:
        assert (data_dir / "token").read_text() == token
        assert response_code(data_dir, f"{maps}/kept", token) == 200
        assert response_code(data_dir, f"{topologies}/default", token) == 200
        down = quorate("local", "down", "--data-dir", str(data_dir))
        assert down.returncode == 0, down.stderr
        assert process.wait(timeout=60) == 0

    # The levels of a topology may change as long as hosts are the lowest.
    with cluster(data_dir, "--topology", "host=3"):
        assert response_code(data_dir, f"{topologies}/default", token) == 200

    assert quorate("local", "reset", "--data-dir", str(data_dir), "--yes").returncode == 0
    assert not data_dir.exists()


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = quorate("local", "up", "--data-dir", str(tmp_path / "data"), "--port", str(port))
    assert done.returncode == 2
    refusal = f"error: port {port}: another process listens there"
    assert done.stderr == f"{refusal} (choose another with --port; 0 takes any that is free)\n"
    assert done.stdout == ""
