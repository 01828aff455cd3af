"""``quorate controllers`` as a process: it runs on any cluster, reports errors and stops on SIGTERM."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e import shared_clusters
from tests.e2e.world import running_cluster
from tests.forked_command import forked_command
from tests.local.clusters import api_server

pytestmark = pytest.mark.slow

WITHIN_S = 30.0


def kubeconfig(directory: Path, server: str, token: str = "") -> Path:
    """Return a kubeconfig as JSON, which is YAML; it does not verify the server's certificate."""
    path = directory / "kubeconfig"
    cluster = {"server": server} | ({"insecure-skip-tls-verify": True} if server.startswith("https") else {})
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": token}}],
    }
    path.write_text(json.dumps(content))
    return path


@asynccontextmanager
async def controllers(*options: str | Path, program: Sequence[str] = ()) -> AsyncIterator[Process]:
    """Run the command while the block lasts; ``program`` starts it, by default the forked one."""
    command = [*(program or [str(forked_command())]), "controllers", *map(str, options)]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def outcome(*options: str | Path) -> tuple[int | None, str]:
    """Return the exit code and the standard error of the command."""
    async with controllers(*options) as process, asyncio.timeout(WITHIN_S):
        _, output = await process.communicate()
        return process.returncode, output.decode()


def test_the_controllers_admit_jobs_and_exit_with_0_on_sigterm(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_cluster() as world:
            cluster = world.client.config
            token = cluster.credentials.authorization().removeprefix("Bearer ")
            options = ("--kubeconfig", kubeconfig(tmp_path, cluster.server, token), "--log-format", "json")
            async with controllers(*options) as process:
                await world.queues(cpu="1")
                await world.job("train")
                await world.until_admitted("train")
                process.terminate()
                async with asyncio.timeout(WITHIN_S):
                    _, output = await process.communicate()
            lines = [json.loads(line) for line in output.splitlines()]
            assert process.returncode == 0
            assert [line["message"] for line in lines if line["level"] not in ("info", "debug")] == []
            assert "stopping" in [line["message"] for line in lines]  # writes in flight are logged after it

    shared_clusters.run(story())


def test_missing_crds_end_the_controllers_with_the_command_that_installs_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with api_server() as server:
            code, output = await outcome("--kubeconfig", kubeconfig(tmp_path, server.url, server.token))
            assert code != 0
            assert output.startswith(
                f"error: {server.url} does not serve workloads, localqueues, clusterqueues, resourceflavors, "
                "cohorts, admissionchecks, workloadpriorityclasses of kueue.x-k8s.io/v1beta2"
            )
            assert "quorate crds --output crds" in output
            assert "Traceback" not in output

    asyncio.run(story())


@pytest.mark.parametrize(
    ("configuration", "want"),
    [
        pytest.param(
            "apiVersion: config.kueue.x-k8s.io/v1beta2\n"
            "kind: Configuration\n"
            "waitForPodsReady: {timeout: 5m, requeuingStrategy: {backoffLimitCount: -1}}\n",
            "waitForPodsReady.requeuingStrategy.backoffLimitCount: -1",
            id="invalid value",
        ),
        pytest.param("kind: [\n", "configuration.yaml:", id="not YAML"),
        pytest.param(None, "configuration.yaml: no such file", id="no file"),
    ],
)
def test_an_invalid_configuration_ends_the_process_before_controllers_start(
    tmp_path: Path, configuration: str | None, want: str
) -> None:
    path = tmp_path / "configuration.yaml"
    if configuration is not None:
        path.write_text(configuration)
    code, output = asyncio.run(outcome("--config", path, "--kubeconfig", tmp_path / "none"))
    assert code != 0
    assert want in output
    assert "Traceback" not in output


def test_the_error_for_an_unreachable_server_contains_its_address(tmp_path: Path) -> None:
    async def story() -> None:
        async with api_server() as server:
            stopped = server.url  # its port is free once it has stopped
        code, output = await outcome("--kubeconfig", kubeconfig(tmp_path, stopped))
        assert code != 0
        assert f"no answer from {stopped}" in output
        assert "Traceback" not in output

    asyncio.run(story())


def test_an_invalid_token_is_reported_as_unauthorized(tmp_path: Path) -> None:
    async def story() -> None:
        async with api_server() as server:
            code, output = await outcome("--kubeconfig", kubeconfig(tmp_path, server.url, "wrong"))
            assert code != 0
            assert "does not know these credentials" in output

    asyncio.run(story())
