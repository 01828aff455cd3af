"""``quorate preflight`` checks a cluster over HTTP."""

import asyncio
import json
import random
from pathlib import Path

import pytest

from quorate.api.configuration import default_configuration
from quorate.inspect.preflight import Preflight
from quorate.install.preflight.findings import Severity
from quorate.kube.client import Client
from tests.e2e import shared_clusters
from tests.e2e.verbs import CommandLine
from tests.e2e.world import api_server_with, running_cluster

pytestmark = pytest.mark.slow


def test_a_valid_cluster_passes_and_an_error_sets_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with running_cluster() as world:
            command = CommandLine(world, tmp_path, monkeypatch)
            await world.queues(cpu="4")
            done = await command("preflight")
            assert done.code == 0, done.out
            assert "Quorate's; serve v1beta2, v1beta1, store v1beta2" in done.out
            assert "your permissions" in done.out

            await world.cluster_queue("4", name="teaching", flavor="missing")
            done = await command("preflight", "-o", "json")
            assert done.code == 1
            report = json.loads(done.out)
            assert report["errors"] == 1
            assert report["remarks"][0] == {
                "severity": "error",
                "about": "cluster queue teaching",
                "says": "references missing ResourceFlavor(s): missing, so it admits nothing",
                "remedy": "create the ResourceFlavors missing, or remove them from the queue",
            }
            done = await command("preflight", "--service-account", "no-such-account")
            assert (done.code, done.out) == (2, "")
            assert "is not NAMESPACE/NAME" in done.err

    shared_clusters.run(story())


def test_on_a_cluster_without_definitions_no_other_finding_is_a_problem() -> None:
    async def findings() -> list[str]:
        async with api_server_with(()) as (cluster, _), Client(cluster, random.Random(1)) as client:
            found = await Preflight(client, default_configuration(), "").run()
        return [finding.about for finding in found if finding.severity is not Severity.INFO]

    abouts = asyncio.run(findings())
    assert [about for about in abouts if not about.startswith("definition ")] == []
    assert "definition workloads.kueue.x-k8s.io" in abouts
