"""``quorate controllers`` is ready once it serves webhooks over TLS."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from quorate.api.configuration.webhooks import TlsOptions
from quorate.kube.serving.tls import KeyPair, server_context
from tests.e2e import shared_clusters
from tests.e2e.test_controllers_command import WITHIN_S, controllers, kubeconfig, outcome
from tests.e2e.world import running_cluster
from tests.observe.listening import free_port
from tests.webhooks.served_webhooks import Served, a_pair
from tests.webhooks.test_conversion_review import NEWER, OLDER, a_queue, a_review

pytestmark = pytest.mark.slow


def configuration(directory: Path, port: int, probes: int, pair: KeyPair | None) -> Path:
    if pair is not None:
        (directory / "tls.crt").write_bytes(pair.certificate)
        (directory / "tls.key").write_bytes(pair.key)
    path = directory / "configuration.yaml"
    path.write_text(
        f"""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
webhook: {{host: 127.0.0.1, port: {port}, certDir: {directory}}}
internalCertManagement: {{enable: false}}
health: {{healthProbeBindAddress: '127.0.0.1:{probes}'}}
""",
        encoding="utf-8",
    )
    return path


async def readiness(url: str) -> tuple[int, str]:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
            return response.status, await response.text()
    except aiohttp.ClientConnectionError:
        return 0, "the port is not open yet"


async def until_ready_is(url: str, want: tuple[int, str]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while (found := await readiness(url)) != want:
            assert found[0] != 500, found
            await asyncio.sleep(0.05)


def test_the_process_is_ready_once_it_serves_webhooks(tmp_path: Path) -> None:
    async def scenario() -> None:
        port, probes = free_port(), free_port()
        async with running_cluster() as world:
            cluster = world.client.config
            token = cluster.credentials.authorization().removeprefix("Bearer ")
            config = configuration(tmp_path, port, probes, None)
            options = ("--kubeconfig", kubeconfig(tmp_path, cluster.server, token), "--config", config)
            async with controllers(*options) as process:
                url = f"http://127.0.0.1:{probes}"
                await until_ready_is(url, (503, "webhooks: not served yet"))
                pair, authority = a_pair()
                configuration(tmp_path, port, probes, pair)
                await until_ready_is(url, (200, "ok"))
                served = Served(f"https://127.0.0.1:{port}", server_context(TlsOptions()), authority)
                status, body = await served.post("/convert", a_review(NEWER, a_queue(OLDER, cohort="c")))
                assert (status, b'"cohortName":"c"' in body) == (200, True)
                process.terminate()
                async with asyncio.timeout(WITHIN_S):
                    await process.communicate()
            assert process.returncode == 0

    shared_clusters.run(scenario())


@pytest.mark.parametrize("has_certificate", [True, False])
def test_an_address_in_use_ends_the_process_and_names_the_field(
    tmp_path: Path, has_certificate: bool
) -> None:
    async def scenario() -> None:
        port, probes = free_port(), free_port()
        async with running_cluster() as world:
            cluster = world.client.config
            token = cluster.credentials.authorization().removeprefix("Bearer ")
            taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
            config = configuration(tmp_path, port, probes, a_pair()[0] if has_certificate else None)
            async with taken:
                code, output = await outcome(
                    "--kubeconfig", kubeconfig(tmp_path, cluster.server, token), "--config", config
                )
        assert code != 0
        assert f"error: webhook.port: 127.0.0.1:{port}: address already in use (write a free port)" in output
        assert "Traceback" not in output

    shared_clusters.run(scenario())
