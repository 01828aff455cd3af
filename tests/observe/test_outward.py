"""Pages that other machines can reach are served over TLS, to those who may."""

import asyncio
import random
from functools import partial

import aiohttp
import pytest

from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import TlsOptions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.kube.serving.front_proxy import FrontProxyVerifier
from quorate.observe.metrics import metrics, right_to_metrics
from quorate.observe.outward import Outward
from quorate.observe.replica import Replica
from tests.local.api_client import connect
from tests.local.clusters import RunningServer, api_server
from tests.local.server.test_access import ACCOUNTS, grant, token_of
from tests.observe.listening import free_port

pytestmark = pytest.mark.slow


def outward(client: Client) -> Outward:
    clock = WallClock()
    return Outward(DelegatedAuth(client, clock), partial(FrontProxyVerifier, client), clock, TlsOptions())


def of_a_cluster(server: RunningServer) -> Client:
    return Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1))


@pytest.mark.parametrize(
    ("host", "scheme", "unknown"),
    [
        pytest.param("127.0.0.1", "http", 200, id="this machine only"),
        pytest.param("0.0.0.0", "https", 401, id="every interface"),
    ],
)
def test_metrics_are_for_who_may_see_them(host: str, scheme: str, unknown: int) -> None:
    async def story() -> None:
        address, app = Address(host, free_port()), metrics(Replica("standalone"))
        async with (
            api_server() as server,
            of_a_cluster(server) as client,
            outward(client).serving("metrics.bindAddress", address, app, right_to_metrics),
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
