"""Local API servers for tests: over HTTP, with an in-memory store."""

import asyncio
import atexit
import random
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from threading import Lock
from typing import Any

from quorate.api import codec
from quorate.kube.client import Client
from quorate.kube.clock import Clock, WallClock
from quorate.kube.resources import Json
from quorate.kube.rest.config import Connect, RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.certificates import new_server_keys
from quorate.local.server.apiserver import NO_CONVERTERS, ApiServer
from quorate.local.server.auth.authentication import User
from quorate.local.server.registry.version_conversion import Converter
from quorate.local.server.storage.store import Entry, Key, Store
from quorate.processes.local.apply import install_definitions

TOKEN = "let-me-in"
KEYS = new_server_keys(WallClock().now())  # shared by all servers, so that tokens survive a restart
ADMIN = User("admin", ("system:masters", "system:authenticated"))

_databases: dict[bytes, Path] = {}  # by the definitions that are installed in them
_lock = Lock()  # stories run in several threads


class RestorableStore(Store):
    """A store of which the objects can be read and written without the API."""

    def objects(self) -> dict[Key, Entry]:
        entries = (entry for resource in list(self._resources) for entry in self.entries(resource))
        return {entry.key: entry for entry in entries}

    async def written(self) -> None:
        """Return once all writes are committed that were queued before."""
        await self._write_queue.join()


@dataclass(frozen=True)
class RunningServer:
    url: str
    token: str
    port: int
    connect: Connect
    store: RestorableStore


@asynccontextmanager
async def api_server(
    path: Path | str = ":memory:",
    *,
    clock: Clock | None = None,
    tls: SSLContext | None = None,
    port: int = 0,
    keep: int = 10_000,
    converters: Mapping[str, Converter] = NO_CONVERTERS,
    kubelet_socket: Path | None = None,
    disabled_gates: Collection[str] = (),
) -> AsyncIterator[RunningServer]:
    """Run a server on a free loopback port; using the same path twice is a restart."""
    ids = random.Random()
    store = RestorableStore(path, keep)
    server = ApiServer(
        store,
        {TOKEN: ADMIN},
        clock or WallClock(),
        lambda: str(uuid.UUID(int=ids.getrandbits(128))),
        converters,
        KEYS,
        kubelet_socket=kubelet_socket,
        disabled_gates=frozenset(disabled_gates),
    )
    await server.start("127.0.0.1", port, tls)
    try:
        scheme = "https" if tls else "http"
        yield RunningServer(f"{scheme}://127.0.0.1:{server.port}", TOKEN, server.port, server.connect, store)
    finally:
        await server.stop()


@asynccontextmanager
async def api_server_with(definitions: Sequence[Json], **options: Any) -> AsyncIterator[RunningServer]:
    """Run a server on which ``definitions`` are installed; ``options`` are those of ``api_server``.

    To install them takes four times the processor time of a start.  That is done once a process, and each
    server starts with a copy of the database.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = shutil.copy(_database_with(definitions), Path(directory) / "objects.db")
        async with api_server(path, **options) as server:
            yield server


def _database_with(definitions: Sequence[Json]) -> Path:
    encoded = codec.encode(definitions)
    with _lock:
        if encoded not in _databases:
            directory = tempfile.mkdtemp()
            atexit.register(shutil.rmtree, directory)
            path = Path(directory) / "objects.db"
            with ThreadPoolExecutor(1) as thread:  # the event loop of the caller is running
                thread.submit(asyncio.run, install(path, definitions)).result()
            _databases[encoded] = path
        return _databases[encoded]


async def install(path: Path, definitions: Sequence[Json]) -> None:
    """Make a database in which ``definitions`` are installed."""
    async with (
        api_server(path) as server,
        Client(RestConfig(server.url, credentials=Token(TOKEN)), random.Random(1)) as client,
    ):
        await install_definitions(client, definitions)


class ListedLate(Client):
    """A server that at first does not list the kinds of groups with this name suffix."""

    def __init__(self, *args: Any, groups: str) -> None:
        super().__init__(*args)
        self._groups = groups
        self.late: set[str] = set()  # versions or groups that were requested too early
        self.was_asked = asyncio.Event()  # set at the first such request

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        answer = await super().request(method, path, **options)
        if (method, path) == ("GET", "/apis"):
            return self._without_late_groups(answer)
        group, _, version = path.removeprefix("/apis/").partition("/")
        if method != "GET" or not group.endswith(self._groups) or "/" in version or path in self.late:
            return answer
        self.late.add(path)
        self.was_asked.set()
        return b'{"resources": []}'

    def _without_late_groups(self, answer: bytes) -> bytes:
        """Leave out of aggregated discovery the groups that are listed for the first time."""
        document = codec.decode(dict[str, Any], answer)
        names = [item["metadata"]["name"] for item in document.get("items", ())]
        late = {name for name in names if name.endswith(self._groups)} - self.late
        if not late:
            return answer
        self.late |= late
        self.was_asked.set()
        items = [item for item in document["items"] if item["metadata"]["name"] not in late]
        return codec.encode({**document, "items": items})
