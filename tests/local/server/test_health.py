"""Health endpoints, and readiness of a server alone and of a whole cluster."""

import asyncio
import random
from pathlib import Path

import aiohttp
import pytest
from multidict import MultiDict

from quorate.kube.clock import WallClock
from quorate.kube.rest.config import RestConfig, load_rest_config
from quorate.kube.rest.kubeconfig import InvalidKubeconfig
from quorate.local.cluster import Settings
from quorate.local.directory import ClusterDirectory
from quorate.local.server.discovery.nonresource import HealthChecks
from quorate.processes.local.queueing_cluster import run_queueing_cluster
from tests.local.api_client import ApiClient, run_with_server

CHECKS = HealthChecks({"ping": lambda: True}, {"late": lambda: False, "good": lambda: True})


@pytest.mark.parametrize(
    ("path", "query", "want"),
    [
        ("livez", "", (200, "ok")),
        ("livez", "verbose", (200, "[+]ping ok\nlivez check passed\n")),
        ("healthz", "verbose", (200, "[+]ping ok\nhealthz check passed\n")),
        (
            "readyz",
            "",
            (500, "[+]ping ok\n[-]late failed: reason withheld\n[+]good ok\nreadyz check failed\n"),
        ),
        (
            "readyz",
            "verbose exclude=late",
            (200, "[+]ping ok\n[+]late excluded: ok\n[+]good ok\nreadyz check passed\n"),
        ),
        (
            "livez",
            "verbose exclude=x",
            (
                200,
                "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for"
                ' "x"\nlivez check passed\n',
            ),
        ),
    ],
)
def test_the_answer_of_all_checks(path: str, query: str, want: tuple[int, str]) -> None:
    parameters = MultiDict((term.partition("=")[0], term.partition("=")[2]) for term in query.split())
    response = CHECKS.respond(path, parameters)
    assert (response.code, response.body) == (want[0], want[1].encode())


@pytest.mark.parametrize(("name", "want"), [("good", 200), ("late", 500), ("none", None)])
def test_the_answer_of_one_check(name: str, want: int | None) -> None:
    response = CHECKS.respond_single("readyz", name)
    assert (response.code if response else None) == want


@pytest.mark.slow
def test_a_server_alone_is_ready() -> None:
    async def scenario(client: ApiClient) -> None:
        assert await client.send("GET", "/readyz") == (200, "ok")
        assert await client.send("GET", "/readyz/none") == (404, "404 page not found\n")
        code, text = await client.send("GET", "/readyz?verbose")
        assert (code, "[+]crd-informer-synced ok\n" in text) == (200, True)
        assert await client.send("GET", "/livez/ping") == (200, "ok")

    run_with_server(scenario)


@pytest.mark.slow
def test_a_cluster_is_ready_once_discovery_is_complete_and_default_objects_exist(tmp_path: Path) -> None:
    """What a client lists when /readyz answers with 200 for the first time is all that the cluster serves."""

    async def scenario() -> None:
        with ClusterDirectory(tmp_path).lock(0.0) as locked:
            cluster = run_queueing_cluster(locked, Settings(()), None, WallClock(), random.Random())
            first = asyncio.create_task(first_ready(ClusterDirectory(tmp_path)))
            async with cluster as client:
                codes, groups = await first
                assert 500 in codes, "the server listens before it is ready"
                assert {"kueue.x-k8s.io", "batch.volcano.sh"} <= groups
                assert await client.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")

    asyncio.run(scenario())


async def first_ready(directory: ClusterDirectory) -> tuple[set[int], set[str]]:
    """Poll /readyz from the moment that the server listens; return the codes and then the API groups."""
    codes: set[int] = set()
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        config = await read_config(directory)
        server, headers = config.server, {"Authorization": config.credentials.authorization()}
        while 200 not in codes:
            async with session.get(f"{server}/readyz", ssl=False) as response:
                codes.add(response.status)
        async with session.get(f"{server}/apis", ssl=False, headers=headers) as response:
            listed = await response.json()
        return codes, {group["name"] for group in listed["groups"]}


async def read_config(directory: ClusterDirectory) -> RestConfig:
    """Return the administrator's configuration once the server listens."""
    while True:
        try:
            return await load_rest_config(directory.kubeconfig)
        except InvalidKubeconfig:
            await asyncio.sleep(0.005)
