"""``quorate local up --config`` serves and installs everything that the file asks for."""

import asyncio
import random
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from quorate.api.meta import Key
from quorate.install.controllers import IN_FORCE_KEY, NEEDS_RESTART
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import CONFIG_MAPS, JOBS, LEASES, QUEUES, Json, untyped
from quorate.kube.rest.config import load_rest_config
from quorate.webhooks.serving_certificate import MUTATING
from tests.e2e.commands import cluster, poll, quorate
from tests.observe.listening import free_port

pytestmark = pytest.mark.slow

WITHIN_S = 60.0
JSON_JOBS = untyped("batch", "v1", "jobs", "Job", True)
JSON_QUEUES = untyped(QUEUES.group, QUEUES.version, "queues", "Queue", False)
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train:1"}]}
JOB: Json = {
    "metadata": {"name": "train", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "main"}},
    "spec": {"suspend": False, "template": {"spec": POD}},
}


def write(path: Path, *lines: str) -> Path:
    head = ("apiVersion: config.kueue.x-k8s.io/v1beta2", "kind: Configuration")
    path.write_text("\n".join([*head, *lines, ""]))
    return path


def ask(data_dir: Path, question: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Client(await load_rest_config(data_dir / "kubeconfig"), random.Random(1)) as client:
            await question(client)

    asyncio.run(run())


def stored_in(data_dir: Path) -> dict[str, str]:
    """Return the data of the stored configuration; empty before it is stored."""
    found: dict[str, str] = {}

    async def read(client: Client) -> None:
        with suppress(NotFound):
            found.update((await client.get(CONFIG_MAPS, IN_FORCE_KEY)).data)

    ask(data_dir, read)
    return found


def test_every_server_and_webhook_of_the_file_is_there(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    webhooks, probes, metrics = free_port(), free_port(), free_port()
    path = write(
        tmp_path / "configuration.yaml",
        "namespace: batch-system",
        f"webhook: {{port: {webhooks}}}",
        f"health: {{healthProbeBindAddress: '127.0.0.1:{probes}', readinessEndpointName: ready}}",
        f"metrics: {{bindAddress: '127.0.0.1:{metrics}'}}",
        "leaderElection: {leaderElect: true, resourceName: elected}",
        "podGroupWebhooks: {failurePolicy: Fail, maxQueueDepth: 2}",
        "clientConnection: {qps: 500, burst: 500}  # not a secret",
    )

    async def installed(client: Client) -> None:
        job = await client.create(JSON_JOBS, JOB)
        assert job["spec"]["suspend"], "the webhook suspends a job before it is stored"
        for name, parent in (("a", "root"), ("b", "a")):
            await client.create(JSON_QUEUES, {"metadata": {"name": name}, "spec": {"parent": parent}})
        with pytest.raises(Forbidden, match="at most 2"):
            await client.create(JSON_QUEUES, {"metadata": {"name": "c"}, "spec": {"parent": "b"}})
        lease = await client.get(LEASES, Key("batch-system", "elected"))
        assert lease.spec.holder_identity

    async def removed(client: Client) -> None:
        assert (await client.list(MUTATING)).items == ()
        assert not (await client.get(JOBS, Key("default", "train"))).metadata.deletion_timestamp

    with cluster(data_dir, "--config", str(path)):
        ask(data_dir, installed)
        poll(lambda: stored_in(data_dir), bool, WITHIN_S)
        text = stored_in(data_dir)["controller_manager_config.yaml"]
        assert "maxQueueDepth: 2" in text
        assert "secret" not in text
        for port, page in ((probes, "ready"), (metrics, "metrics")):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=30) as answer:
                assert answer.status == 200
        options = ("--kubeconfig", str(data_dir / "kubeconfig"))
        explained = quorate("preflight", *options)
        origin = f"evaluated with ConfigMap {IN_FORCE_KEY} (stored by quorate"
        assert origin in explained.stdout.replace("\n", "")
    with cluster(data_dir, "--without-controllers"):
        ask(data_dir, removed)


def test_a_change_of_the_file_is_in_force_and_stored(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    path = write(tmp_path / "configuration.yaml", "manageJobsWithoutQueueName: false")

    with cluster(data_dir, "--config", str(path)):
        write(path, "manageJobsWithoutQueueName: true", "leaderElection: {leaderElect: true}")
        poll(
            lambda: stored_in(data_dir),
            lambda data: (
                "manageJobsWithoutQueueName: true" in data.get("controller_manager_config.yaml", "")
                and data[NEEDS_RESTART] == "leaderElection"
            ),
            WITHIN_S,
        )
