"""A client of a cluster without a server: objects are generated when they are listed, and writes are echoed.

Everything above the HTTP exchange is that of ``kube.client``: pages are decoded as they arrive, and each
change is a line of a watch.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from time import thread_time
from typing import Any, NamedTuple

import msgspec

from quorate.kube.client import Client
from quorate.kube.errors import error_from_answer
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import Json, Resource, T
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.decoding import Bookmark, WatchEvent, decode_frame

Body = Callable[[int, int], bytes]  # the JSON of an object, by its number and its resource version
OnWrite = Callable[[str, str, Any], None]  # path, verb, and the decoded body


class Series(NamedTuple):
    """Objects of one kind with the names ``PREFIX-0``, ``PREFIX-1``, and so on."""

    resource: Resource[Any]
    prefix: str
    body: Body
    initial: int  # number of objects that exist from the start


class SyntheticClient(Client):
    def __init__(self, series: Iterable[Series], served: Iterable[Resource[Any]], on_write: OnWrite) -> None:
        super().__init__(RestConfig("http://synthetic.example"), random.Random(1))
        self.own_cpu_s = 0.0  # of the generation of objects, in place of a server
        self._series = {(each.resource.path(), each.prefix): each for each in series}
        self._served = tuple(served)
        self._on_write = on_write
        self._version = 1
        self._written: dict[tuple[str, str], bytes] = {}  # by path of the collection and name
        self._watches: dict[str, list[asyncio.Queue[bytes]]] = {}
        self._pages: dict[str, Iterator[bytes]] = {}  # of lists that have not ended, by continue token

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        await asyncio.sleep(0)
        with self._generating():
            collection, name, subresource = _parsed(path)
            if method == "GET":
                return self._read(path, collection, name, query or {})
            content = None if body is None else msgspec.json.decode(body)
            self._on_write(path, method, content)
            if method == "DELETE" or content is None:
                return b"{}"
            if method == "POST" and subresource == "binding":
                self.change(collection, name, {"spec": {"nodeName": content["target"]["name"]}})
                return b'{"kind":"Status","status":"Success"}'
            if method == "PATCH" and isinstance(content, dict):
                return self.change(collection, name, content)
            if isinstance(content, dict):
                content.setdefault("metadata", {})["resourceVersion"] = str(self._next_version())
            return msgspec.json.encode(content)

    async def watch(
        self,
        resource: Resource[T],
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        *,
        batched: bool = False,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[WatchEvent[T] | Bookmark | ObjectFault]:
        on_open()
        path = resource.path()
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches.setdefault(path, []).append(lines)
        while True:
            line = await lines.get()
            yield decode_frame(resource, f"WATCH {path}", line)
            lines.task_done()

    async def add(self, resource: Resource[Any], prefix: str, numbers: Iterable[int]) -> None:
        """Create objects of a series, as fast as the watches take them."""
        body = self._series[resource.path(), prefix].body
        await self._send(resource, (("ADDED", body, number) for number in numbers))

    async def modify(self, resource: Resource[Any], body: Body, numbers: Iterable[int]) -> None:
        """Change objects, as fast as the watches take the changes."""
        await self._send(resource, (("MODIFIED", body, number) for number in numbers))

    async def _send(self, resource: Resource[Any], changes: Iterator[tuple[str, Body, int]]) -> None:
        path = resource.path()
        while True:
            with self._generating():
                batch = list(islice(changes, 100))
                for type_, body, number in batch:
                    self._publish(path, type_, body(number, self._next_version()))
            if not batch:
                return
            for lines in self._watches.get(path, ()):
                await lines.join()

    def change(self, path: str, name: str, patch: Json) -> bytes:
        """Apply a merge patch, publish the object as stored, and return it."""
        stored = self._stored(path, name)
        obj = _merged(
            msgspec.json.decode(stored) if stored is not None else {"metadata": {"name": name}}, patch
        )
        obj["metadata"]["resourceVersion"] = str(self._next_version())
        encoded = self._written[path, name] = msgspec.json.encode(obj)
        self._publish(path, "MODIFIED", encoded)
        return encoded

    @property
    def written_bytes(self) -> int:
        """The memory of what has been written, which a server would have."""
        return sum(len(encoded) + 250 for encoded in self._written.values())

    def _read(self, path: str, collection: str, name: str, query: Mapping[str, str]) -> bytes:
        if not collection:
            return self._discovery(path)
        if name:
            stored = self._stored(collection, name)
            if stored is None:
                raise error_from_answer(f"GET {path}", 404, b"{}", None)
            return stored
        if "continue" in query:
            pages = self._pages.pop(query["continue"])
        else:
            pages = iter(()) if "labelSelector" in query or "fieldSelector" in query else self._objects(path)
        items = list(islice(pages, int(query.get("limit", 500))))
        token = ""
        if len(items) == int(query.get("limit", 500)):
            token = f"{path}:{self._next_version()}"
            self._pages[token] = pages
        head = msgspec.json.encode({"continue": token, "resourceVersion": str(self._version)})
        return b'{"metadata":' + head + b',"items":[' + b",".join(items) + b"]}"

    def _objects(self, path: str) -> Iterator[bytes]:
        for (collection, prefix), series in self._series.items():
            if collection == path:
                for number in range(series.initial):
                    yield self._written.get((path, f"{prefix}-{number}")) or series.body(number, 1)

    def _stored(self, path: str, name: str) -> bytes | None:
        written = self._written.get((path, name))
        prefix, _, number = name.rpartition("-")
        series = self._series.get((path, prefix))
        if written is not None or series is None:
            return written
        return series.body(int(number), 1)

    def _discovery(self, path: str) -> bytes:
        version = path.removeprefix("/apis/").removeprefix("/api/")
        resources = [
            {"name": served.plural + subresource, "kind": served.kind}
            for served in self._served
            if served.api_version == version
            for subresource in ("", "/status")
        ]
        if not resources:
            raise error_from_answer(f"GET {path}", 404, b"{}", None)
        return msgspec.json.encode({"resources": resources})

    def _publish(self, path: str, type_: str, obj: bytes) -> None:
        line = b'{"type":"' + type_.encode() + b'","object":' + obj + b"}"
        for lines in self._watches.get(path, ()):
            lines.put_nowait(line)

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    @contextmanager
    def _generating(self) -> Iterator[None]:
        began = thread_time()
        try:
            yield
        finally:
            self.own_cpu_s += thread_time() - began


def _parsed(path: str) -> tuple[str, str, str]:
    """Return the collection in all namespaces, the name and the subresource; "" for those not in ``path``."""
    parts = path.split("/")[1:]
    depth = 2 if parts[0] == "api" else 3
    root, rest = parts[:depth], parts[depth:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return "", "", ""
    plural, name, subresource, *_ = [*rest, "", ""]
    return "/" + "/".join([*root, plural]), name, subresource


def _merged(old: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged
