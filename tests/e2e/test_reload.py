"""The configuration changes while the process runs: valid changes apply, invalid ones do not."""

import asyncio
import json
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import shared_clusters
from tests.e2e.test_controllers_command import WITHIN_S, controllers, kubeconfig
from tests.e2e.world import World, running_cluster

pytestmark = pytest.mark.slow

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
PATIENT = f"{HEAD}waitForPodsReady: {{timeout: 1h}}\n"
SHORT_RETENTION = f"{HEAD}waitForPodsReady: {{timeout: 1s}}\n"
WRONG = f"{HEAD}waitForPodsReady: {{timeout: soon}}\n"
ELSEWHERE = f"{SHORT_RETENTION}health: {{healthProbeBindAddress: '127.0.0.1:0'}}\n"


class Mounted:
    """A file as mounted from a ConfigMap: a symbolic link through a directory link that is replaced."""

    def __init__(self, directory: Path, text: str) -> None:
        self._directory = directory
        self._turn = 0
        self.file = directory / "configuration.yaml"
        self.swap(text)
        self.file.symlink_to("..data/configuration.yaml")

    def swap(self, text: str) -> None:
        self._turn += 1
        version = self._directory / f"..version-{self._turn}"
        version.mkdir()
        (version / "configuration.yaml").write_text(text)
        link = self._directory / "..data-next"
        link.symlink_to(version.name)
        link.replace(self._directory / "..data")


async def until_logged(process: Process, message: str) -> dict[str, Any]:
    """Return the next line of the log with ``message``; skip earlier lines."""
    assert process.stderr is not None
    async with asyncio.timeout(WITHIN_S):
        async for line in process.stderr:
            record: dict[str, Any] = json.loads(line)
            if record["message"] == message:
                return record
    raise AssertionError(f"the process ended without the message {message!r}")


def test_reloadable_settings_apply_without_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_cluster() as world:
            mounted = Mounted(tmp_path, PATIENT)
            async with controllers(*options(world, tmp_path, mounted.file)) as process:
                await until_logged(process, "ready")
                await world.queues(cpu="4")
                await world.job("stuck", starts="1h")
                await world.until_admitted("stuck")

                mounted.swap(WRONG)
                rejected = await until_logged(process, "invalid configuration ignored")
                assert "waitForPodsReady.timeout: 'soon' is not a duration" in rejected["finding"]

                mounted.swap(SHORT_RETENTION)
                await until_logged(process, "configuration reloaded")
                await world.until_condition("stuck", "Evicted", reason="PodsReadyTimeout")

                mounted.swap(ELSEWHERE)
                waiting = await until_logged(process, "configuration fields need a restart")
                assert waiting["fields"] == "health"

                process.terminate()
                async with asyncio.timeout(WITHIN_S):
                    assert await process.wait() == 0

    shared_clusters.run(story())


def options(world: World, directory: Path, file: Path) -> tuple[str | Path, ...]:
    cluster = world.client.config
    token = cluster.credentials.authorization().removeprefix("Bearer ")
    reach = kubeconfig(directory, cluster.server, token)
    return ("--kubeconfig", reach, "--log-format", "json", "--config", file)
