"""The connection of a command to the cluster that its options select."""

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import uvloop

from quorate.api.meta import ObjectMeta, Struct
from quorate.api.suggestions import suggestion
from quorate.inspect.errors import UsageError
from quorate.kube.client import Client
from quorate.kube.errors import (
    AlreadyExists,
    Forbidden,
    Invalid,
    NotFound,
    RequestFailed,
)
from quorate.kube.resources import NAMESPACES
from quorate.kube.rest.config import load_rest_config

T = TypeVar("T")

_MAX_NAMES: Final = 1000  # that are compared with one that does not exist


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster and the namespaces that the command line selects."""

    kubeconfig: Path | None
    context: str
    namespace: str = ""
    all_namespaces: bool = False

    def __post_init__(self) -> None:
        if self.namespace and self.all_namespaces:
            raise UsageError("-n and -A exclude each other (drop one of the two)")

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Connection"]:
        cluster = await load_rest_config(self.kubeconfig, self.context)
        namespace = "" if self.all_namespaces else self.namespace or cluster.namespace
        async with Client(cluster, random.Random(), field_manager="quorate-cli") as client:
            yield Connection(client, namespace)


@dataclass(frozen=True, slots=True)
class Connection:
    client: Client
    namespace: str  # empty: all namespaces

    @property
    def scope(self) -> str:
        """Return ``namespace NAME`` or ``any namespace``, for messages."""
        return f"namespace {self.namespace}" if self.namespace else "any namespace"

    async def require_namespace(self) -> None:
        """Raise ``UsageError`` if the namespace certainly does not exist."""
        if missing := await missing_namespace(self.client, self.namespace):
            raise UsageError(missing)


class _Named(Struct):
    metadata: ObjectMeta


class _List(Struct):
    items: tuple[_Named, ...] = ()


async def not_found_message(client: Client, error: NotFound) -> str:
    """Return a sentence about an object or namespace that does not exist, with a similar name of its kind."""
    name, path = error.details.name, error.request.rpartition(" ")[2]
    _, has_namespace, rest = path.partition("/namespaces/")
    namespace = rest.partition("/")[0] if has_namespace and "/" in rest else ""
    if missing := await missing_namespace(client, namespace):
        return missing
    collection = path.rpartition(f"/{quote(name)}")[0]  # the name may be that of its namespace, too
    where = f" in namespace {namespace}" if namespace else ""
    return f"{error.message}{where}{suggestion(name, await _names(client, collection))}"


async def missing_namespace(client: Client, namespace: str) -> str:
    """Return that the namespace does not exist, with a similar name; empty if it does, or may not be read."""
    try:
        if namespace:
            await client.request("GET", NAMESPACES.path("", namespace))
    except NotFound:
        similar = suggestion(namespace, await _names(client, NAMESPACES.path()))
        return f"namespace {namespace} does not exist{similar}"
    except RequestFailed:
        pass
    return ""


async def _names(client: Client, collection: str) -> list[str]:
    """Return names of objects to compare with one that does not exist; none if they may not be listed."""
    with suppress(RequestFailed):
        return [metadata.name for metadata in await listed_metadata(client, collection, _MAX_NAMES)]
    return []


async def listed_metadata(client: Client, collection: str, most: int) -> list[ObjectMeta]:
    """Return the metadata of at most ``most`` objects at the path ``collection``."""
    listed = await client.request_as(_List, "GET", collection, query={"limit": str(most)})
    return [item.metadata for item in listed.items]


def with_cluster(cluster_options: ClusterOptions, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
    """Run ``work`` connected to the cluster and return its result."""

    async def connected() -> T:
        async with cluster_options.connect() as connection:
            try:
                return await work(connection)
            except NotFound as error:
                if error.details.name:
                    raise UsageError(await not_found_message(connection.client, error)) from error
                if error.details.kind:  # the message says it without a name
                    raise UsageError(error.message) from error
                raise UsageError(
                    f"{error} (quorate preflight shows what is missing in the cluster)"
                ) from error
            except (AlreadyExists, Forbidden, Invalid) as error:
                if not error.message:
                    raise
                raise UsageError(error.refusal) from error

    return uvloop.run(connected())
