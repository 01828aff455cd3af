"""Connections to pods: make them, and copy bytes between two connections."""

import asyncio
from contextlib import suppress
from socket import socket
from typing import Any, Final

CHUNK_BYTES: Final = 64 * 1024
CONNECT_TIMEOUT_S: Final = 10.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


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
