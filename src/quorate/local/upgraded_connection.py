"""The raw bytes of an HTTP connection, once both sides have agreed to speak another protocol on it."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

BUFFER_BYTES: Final = 256 * 1024
CHUNK_BYTES: Final = 64 * 1024
UPGRADED: Final = web.RequestKey("upgraded", bool)
"""Set for requests after which the connection speaks another protocol."""


class UpgradedConnection:
    """Takes over the connection of a request; the handler then returns ``NoResponse``."""

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
