"""Endpoints that other machines can reach have TLS and authorization."""

import asyncio
import random

import aiohttp
import pytest

from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import TlsOptions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.exposition import metrics_access
from quorate.observe.https_endpoints import HttpsEndpoints
from quorate.observe.queueing_metrics import metrics
from quorate.observe.replica import Replica
from tests.local.api_client import connect
from tests.local.clusters import RunningServer, api_server
from tests.local.server.test_access import ACCOUNTS, grant, token_of
from tests.observe.listening import free_port

pytestmark = pytest.mark.slow


def endpoints(client: Client) -> HttpsEndpoints:
    clock = WallClock()
    return HttpsEndpoints(DelegatedAuth(client, clock), TlsOptions())


def client_of(server: RunningServer) -> Client:
    return Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1))


@pytest.mark.parametrize(
    ("host", "scheme", "unknown"),
    [
        pytest.param("127.0.0.1", "http", 200, id="loopback"),
        pytest.param("0.0.0.0", "https", 401, id="all interfaces"),
    ],
)
def test_metrics_require_authorization_beyond_loopback(host: str, scheme: str, unknown: int) -> None:
    async def story() -> None:
        address, app = Address(host, free_port()), metrics(Replica("standalone"))
        async with (
            api_server() as server,
            client_of(server) as client,
            endpoints(client).serving("metrics.bindAddress", address, app, metrics_access),
            aiohttp.ClientSession(f"{scheme}://127.0.0.1:{address.port}") as session,
        ):
            async with session.get("/metrics", ssl=False) as answer:
                assert answer.status == unknown
            async with connect(server) as api_client:
                await api_client.create(ACCOUNTS, {"metadata": {"name": "robot"}})
                rule = {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}
                await grant(api_client, "metrics-reader", rule, everywhere=True)
                scraper = {"Authorization": f"Bearer {await token_of(api_client, 'robot')}"}
            async with session.get("/metrics", ssl=False, headers=scraper) as answer:
                assert answer.status == 200
                assert "kueue_build_info" in await answer.text()

    asyncio.run(story())
