"""Connections to pods, connections of clients that have left HTTP, and copies between two connections."""

import asyncio
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any, Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

CHUNK_BYTES: Final = 64 * 1024
CONNECT_TIMEOUT_S: Final = 10.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def new_socket() -> socket:
    """Return a TCP socket in the network of the calling thread, not connected, not blocking."""
    opened = socket(AF_INET, SOCK_STREAM)
    opened.setblocking(False)
    return opened


async def connect(opened: socket, address: tuple[str, int], **options: Any) -> Streams:
    """Connect a socket, and return its streams; close it if that fails.

    ``options``: of ``asyncio.open_connection``.
    """
    try:
        await asyncio.get_running_loop().sock_connect(opened, address)
        return await asyncio.open_connection(sock=opened, **options)
    except BaseException:
        opened.close()
        raise


async def relay(one: Streams, other: Streams) -> None:
    """Copy both ways until both sides have ended, or one has failed; close both.

    The end of one direction is passed on while the other direction goes on.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_copy(one[0], other[1]))
            tasks.create_task(_copy(other[0], one[1]))
    except* OSError:
        pass  # a side has closed its connection
    finally:
        one[1].close()
        other[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        with suppress(OSError):
            writer.write_eof()


BUFFER_BYTES: Final = 256 * 1024
UPGRADED: Final = web.RequestKey("upgraded", bool)
"""Set for requests after which the connection speaks another protocol."""


class UpgradedConnection:
    """The raw bytes of an HTTP connection, once both sides have agreed to speak another protocol on it.

    It takes over the connection of a request; the handler then returns ``NoResponse``.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        if request.transport is None:
            raise ConnectionResetError("the client has disconnected")
        request[UPGRADED] = True
        self._transport = request.transport
        self._protocol = request.protocol
        self._reader = asyncio.StreamReader(limit=BUFFER_BYTES)
        self._reader.set_transport(self._transport)
        self._protocol.set_parser(_Feed(self._reader))  # type: ignore[arg-type]  # a WebSocketReader feeds too

    async def switch(self, headers: Iterable[tuple[str, str]]) -> None:
        """Send the response 101 with these headers."""
        lines = [f"HTTP/1.1 {HTTPStatus.SWITCHING_PROTOCOLS.value} Switching Protocols"]
        lines += [f"{name}: {value}" for name, value in headers]
        await self.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def read(self) -> bytes:
        """Return the next bytes, or empty bytes at the end."""
        return await self._reader.read(CHUNK_BYTES)

    async def write(self, content: bytes) -> None:
        """Raise ``ConnectionResetError`` if the client has disconnected."""
        if self._transport.is_closing():
            raise ConnectionResetError("the client has disconnected")
        self._transport.write(content)
        await self._protocol._drain_helper()

    def close(self) -> None:
        self._transport.close()


class _Feed:
    """A parser that passes all bytes on."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._reader.feed_data(data)
        return False, b""

    def feed_eof(self) -> None:
        self._reader.feed_eof()

    def set_exception(self, error: BaseException, *_: Any) -> None:
        self._reader.feed_eof()


class NoResponse(web.StreamResponse):
    """What a handler returns after it has taken over the connection: nothing more is written."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        self.force_close()
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return


@contextmanager
def short_socket_path(path: Path) -> Iterator[str]:
    """Yield a short path of a socket, which holds while the block lasts: the kernel allows 107 bytes.

    Raises OSError if the directory of the socket does not exist.
    """
    directory = os.open(path.parent, os.O_PATH)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


MAX_BYTES: Final = 1 << 20


class Inbox:
    """Bytes that arrive for one stream, with a limit that holds up the connection."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Return True if nothing will be read any more."""
        return self._ended and not self._chunks

    async def put(self, chunk: bytes) -> None:
        """Add bytes; wait while more than ``MAX_BYTES`` are unread."""
        while self._size > MAX_BYTES and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if chunk and not self._ended:
            self._chunks.append(chunk)
            self._size += len(chunk)
            self._changed.set()

    def end(self) -> None:
        """Let ``get`` return empty bytes after what has arrived; nothing is added any more."""
        self._ended = True
        self._changed.set()

    def discard(self) -> None:
        """Drop the unread bytes and all bytes that still arrive: nothing reads the stream any more."""
        self._chunks.clear()
        self._size = 0
        self.end()

    async def get(self) -> bytes:
        """Return the next bytes, or empty bytes at the end."""
        while not self._chunks and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if not self._chunks:
            return b""
        chunk = self._chunks.popleft()
        self._size -= len(chunk)
        self._changed.set()
        return chunk
