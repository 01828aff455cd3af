"""Worker clusters of a MultiKueue manager: API servers without controllers, and their kubeconfigs."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from quorate.api.configuration import Configuration
from quorate.api.meta import Condition, Key, find_condition
from quorate.api.names.multikueue import CONTROLLER
from quorate.install.crds import queueing_definitions
from quorate.kube.cancellation import end_tasks
from quorate.kube.client import Client
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    KUBECONFIG_SECRETS,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    Resource,
)
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from tests.e2e.world import World
from tests.local.clusters import TOKEN, api_server_with

CONTROLLERS = Configuration().namespace  # where the kubeconfigs of worker clusters are


@dataclass(frozen=True)
class WorkerCluster:
    url: str
    client: Client


_definitions = cache(queueing_definitions)


@asynccontextmanager
async def worker_cluster(**options: Any) -> AsyncIterator[WorkerCluster]:
    """Run a worker cluster; ``options`` are those of ``api_server``."""
    async with (
        api_server_with(_definitions(), **options) as server,
        Client(RestConfig(server.url, credentials=Token(TOKEN)), random.Random(2)) as client,
    ):
        yield WorkerCluster(server.url, client)


def kubeconfig(
    url: str, user: Mapping[str, Any] | None = None, *, proxy: str = "", authority: str = ""
) -> str:
    cluster = {"server": url, "proxy-url": proxy, "certificate-authority-data": authority}
    document = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "worker", "user": "manager"}}],
        "clusters": [{"name": "worker", "cluster": cluster}],
        "users": [{"name": "manager", "user": {"token": TOKEN} if user is None else dict(user)}],
    }
    return yaml.safe_dump(document)


async def create_secret(world: World, name: str, content: str) -> None:
    body = {"metadata": {"name": name}, "stringData": {"kubeconfig": content}}
    await world.client.create(KUBECONFIG_SECRETS, body, CONTROLLERS)


async def create_namespace(world: World) -> None:
    await world.create(NAMESPACES, CONTROLLERS)


async def create_cluster(world: World, name: str, **kube_config: str) -> None:
    """Create a MultiKueueCluster with the Secret of its name, unless ``kube_config`` is another source."""
    source = kube_config or {"locationType": "Secret", "location": name}
    await world.create(MULTIKUEUE_CLUSTERS, name, spec={"clusterSource": {"kubeConfig": source}})


async def create_check(world: World, *clusters: str, name: str = "remote") -> None:
    await world.create(MULTIKUEUE_CONFIGS, name, spec={"clusters": clusters})
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
    await world.create(ADMISSION_CHECKS, name, spec={"controllerName": CONTROLLER, "parameters": parameters})


async def until_active(
    world: World,
    resource: Resource[Any],
    name: str,
    status: str,
    reason: str,
    message: str = "",
    within_s: float = 30.0,
) -> Condition:
    """Return condition Active once it has status, reason and a message that begins with ``message``."""
    found: Condition | None = None

    async def find() -> Condition | None:
        nonlocal found
        stored = await world.client.get(resource, Key("", name))
        found = find_condition(stored.status.conditions, "Active")
        if found is None or (found.status, found.reason) != (status, reason):
            return None
        return found if found.message.startswith(message) else None

    try:
        return await world.until(f"{name} has Active={status} {reason} {message!r}", find, within_s)
    except AssertionError:
        raise AssertionError(f"{name}: {found}") from None


@asynccontextmanager
async def forwarder(url: str) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """Forward to a server; yield the address, and a function after which nothing is forwarded any more."""
    target, frozen = int(url.rpartition(":")[2]), False
    pumps: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if not frozen:
                    writer.write(data)
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        pumps.update((asyncio.create_task(pump(reader, back)), asyncio.create_task(pump(there, writer))))

    def freeze() -> None:
        nonlocal frozen
        frozen = True

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", freeze
    finally:
        server.close()
        await end_tasks(pumps)
