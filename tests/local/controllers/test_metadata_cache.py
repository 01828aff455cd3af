"""Discovery of the kinds that garbage collection, namespaces and quotas handle."""

import asyncio
import random
from typing import Any

import pytest

from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.controllers.metadata_cache import MetadataCache, discover
from quorate.processes.local.apply import DEFINITIONS, install_definitions
from tests.kube.unawaited import unawaited
from tests.local.clusters import ListedLate, api_server

pytestmark = pytest.mark.slow


def definition(plural: str, kind: str, *versions: str) -> dict[str, object]:
    """Return a kind of example.com that is stored in the last of its versions."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[-1],
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
                for version in versions
            ],
        },
    }


def test_a_kind_outside_the_preferred_version_is_discovered() -> None:
    async def story() -> None:
        async with api_server() as server:
            cluster = RestConfig(server.url, credentials=Token(server.token))
            async with Client(cluster, random.Random(1)) as client:
                kinds = [definition("apples", "Apple", "v1"), definition("pears", "Pear", "v2beta1")]
                await install_definitions(client, [*kinds, definition("plums", "Plum", "v2beta1", "v1")])
                found = [(each.plural, each.version) for each in await discover(client)]
        assert sorted(each for each in found if each[0] in ("apples", "pears", "plums")) == [
            ("apples", "v1"),
            ("pears", "v2beta1"),
            ("plums", "v1"),
        ]

    asyncio.run(story())


def test_a_kind_that_is_listed_after_its_crd_is_discovered() -> None:
    async def story() -> None:
        async with api_server() as server:
            cluster = RestConfig(server.url, credentials=Token(server.token))
            async with ListedLate(cluster, random.Random(1), groups="example.com") as client:
                inventory = MetadataCache(client, WallClock())
                seen = asyncio.Event()
                inventory.subscribe(
                    lambda change: (
                        seen.set() if change.new and change.new.resource.plural == "plums" else None
                    )
                )
                running = asyncio.create_task(inventory.run())
                await inventory.synced.wait()
                await client.create(DEFINITIONS, definition("plums", "Plum", "v1"))
                plums = untyped("example.com", "v1", "plums", "Plum", namespaced=True)
                async with asyncio.timeout(30):
                    await client.was_asked.wait()
                    await client.create(plums, {"metadata": {"name": "one"}}, "default")
                    await seen.wait()
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())


class EndedByDiscovery(Client):
    """Cancels a task with the last answer of a discovery, and continues ``steps`` steps of the loop later."""

    running: asyncio.Task[None]
    steps: int

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        answer = await super().request(method, path, **options)
        if path == "/apis":
            self.running.cancel()
            for _ in range(self.steps):
                await asyncio.sleep(0)
        return answer


@pytest.mark.parametrize("steps", range(4))
def test_a_discovery_that_completes_while_its_cache_ends_leaves_no_coroutine(steps: int) -> None:
    async def story() -> None:
        async with api_server() as server:
            cluster = RestConfig(server.url, credentials=Token(server.token))
            async with EndedByDiscovery(cluster, random.Random(1)) as client:
                client.steps = steps
                client.running = asyncio.create_task(MetadataCache(client, WallClock()).run())
                await asyncio.wait([client.running], timeout=30)
                assert client.running.cancelled()

    with unawaited() as coroutines:
        asyncio.run(story())
    assert coroutines == []
