"""Health checks over HTTP, and addresses that cannot be used."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

import aiohttp
import pytest

from quorate.api.configuration.process import Address, Health
from quorate.api.configuration.webhooks import TlsOptions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.exposition import metrics_access
from quorate.observe.queueing_metrics import metrics
from quorate.observe.replica import Replica
from quorate.observe.serving import CannotListen, HttpsEndpoints, health_checks, serving
from tests.local.api_client import connect
from tests.local.clusters import RunningServer, api_server
from tests.local.server.test_access import ACCOUNTS, grant, token_of
from tests.observe.listening import free_port, listening

FIELD = "health.healthProbeBindAddress"

pytestmark = pytest.mark.slow


@asynccontextmanager
async def probes(
    health: Health, replica: Replica, parts: Mapping[str, asyncio.Event] = MappingProxyType({})
) -> AsyncIterator[str]:
    async with listening(FIELD, health_checks(health, replica.ready, parts)) as url:
        yield url


async def ask(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status


def test_a_replica_is_alive_at_once_and_ready_once_it_is_synced() -> None:
    async def story() -> None:
        replica = Replica("follower")
        async with probes(Health(), replica) as url:
            assert (await ask(f"{url}/healthz"), await ask(f"{url}/readyz")) == (200, 503)
            replica.ready.set()
            assert (await ask(f"{url}/healthz"), await ask(f"{url}/readyz")) == (200, 200)

    asyncio.run(story())


def test_a_replica_is_not_ready_before_all_its_servers_serve() -> None:
    async def story() -> None:
        replica, serves = Replica("follower"), asyncio.Event()
        replica.ready.set()
        async with probes(Health(), replica, {"webhooks": serves}) as url:
            async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as answer:
                assert (answer.status, await answer.text()) == (503, "webhooks: not served yet")
            serves.set()
            assert await ask(f"{url}/readyz") == 200

    asyncio.run(story())


def test_the_paths_are_configurable() -> None:
    async def story() -> None:
        async with probes(Health(liveness="alive", readiness="ready"), Replica("standalone")) as url:
            assert [await ask(f"{url}/{name}") for name in ("alive", "ready", "healthz")] == [200, 503, 404]

    asyncio.run(story())


def test_an_address_in_use_is_reported_with_its_field() -> None:
    async def story() -> None:
        app = health_checks(Health(), asyncio.Event(), {})
        async with listening(FIELD, app) as url:
            address = Address("127.0.0.1", int(url.rpartition(":")[2]))
            with pytest.raises(CannotListen) as refusal:
                async with serving(FIELD, address, health_checks(Health(), asyncio.Event(), {})):
                    pass
        assert str(refusal.value) == (
            f'{FIELD}: {address}: address already in use (write another address, or "0" for none)'
        )

    asyncio.run(story())


def test_nothing_listens_without_an_address() -> None:
    async def story() -> None:
        app = health_checks(Health(), asyncio.Event(), {})
        async with serving(FIELD, None, app):
            assert not app.frozen, "the application was set up to answer"

    asyncio.run(story())


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
