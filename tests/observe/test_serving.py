"""Health checks over HTTP, and addresses that cannot be used."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

import aiohttp
import pytest

from quorate.api.configuration.process import Address, Health
from quorate.observe.replica import Replica
from quorate.observe.serving import CannotListen, health_checks, serving
from tests.observe.listening import listening

FIELD = "health.healthProbeBindAddress"


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
