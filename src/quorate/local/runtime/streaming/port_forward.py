"""Port-forward: connections of a client to ports in the network of a pod."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from quorate.kube.cancellation import end_tasks
from quorate.local.connections import CHUNK_BYTES, Inbox, Streams
from quorate.local.runtime.streaming.remote_command import payload
from quorate.local.runtime.streaming.spdy import ByteConnection, SpdySession, SpdyStream

SPDY_PROTOCOL: Final = "portforward.k8s.io"
TUNNEL_PROTOCOL: Final = "SPDY/3.1+portforward.k8s.io"  # SPDY in the messages of a WebSocket
WEBSOCKET_PROTOCOLS: Final = (TUNNEL_PROTOCOL, "v4.channel.k8s.io")
MAX_PORTS: Final = 64

Connect = Callable[[int], Awaitable[Streams]]
"""Opens a connection to a port of the pod; raises OSError."""
Write = Callable[[bytes], Awaitable[None]]


async def forward_over_spdy(connection: ByteConnection, connect: Connect, pod: str) -> None:
    """Serve until the client disconnects: it opens two streams for each connection, for data and errors.

    Raises ``ProtocolError``.
    """
    waiting: dict[str, dict[str, SpdyStream]] = {}  # by request and type
    forwards: set[asyncio.Task[None]] = set()

    def on_stream(stream: SpdyStream) -> None:
        request = stream.headers.get("requestid", "")
        pair = waiting.setdefault(request, {})
        pair[stream.headers.get("streamtype", "")] = stream
        if pair.keys() >= {"data", "error"}:
            del waiting[request]
            task = asyncio.create_task(_forward_pair(pair["data"], pair["error"], connect, pod))
            forwards.add(task)
            task.add_done_callback(forwards.discard)

    try:
        await SpdySession(connection, on_stream).run()
    finally:
        await end_tasks(forwards)


async def _forward_pair(data: SpdyStream, error: SpdyStream, connect: Connect, pod: str) -> None:
    port = data.headers.get("port", "")
    with suppress(OSError):  # the client has disconnected
        try:
            number = port_number(port)
            target = await connect(number)
        except (OSError, ValueError) as problem:
            await error.write(_problem(port, pod, problem))
        else:
            await forward(data.inbox, data.write, target)
        finally:
            await error.close()
            await data.close()


def port_number(text: str) -> int:
    """Raise ValueError unless the text is the number of a port."""
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not 0 < number < 65536:
        raise ValueError(f"{text!r} is not a port")
    return number


def _problem(port: str | int, pod: str, error: Exception) -> bytes:
    return f"error forwarding port {port} to pod {pod}: {error}".encode()


async def forward(inbox: Inbox, write: Write, target: Streams) -> None:
    """Copy both ways until the process of the pod ends the connection, or the client has disconnected."""
    reader, writer = target

    async def copy_to_pod() -> None:
        with suppress(OSError):
            while chunk := await inbox.get():
                writer.write(chunk)
                await writer.drain()
            writer.write_eof()

    sending = asyncio.create_task(copy_to_pod())
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            await write(chunk)
    finally:
        sending.cancel()
        writer.close()


async def forward_over_channels(
    websocket: web.WebSocketResponse, ports: list[int], connect: Connect, pod: str
) -> None:
    """Serve one connection to each port: channel 2i has its data and channel 2i+1 its errors."""
    inboxes = [Inbox() for _ in ports]

    async def send(channel: int, content: bytes) -> None:
        if websocket.closed:
            raise ConnectionResetError("the client has disconnected")
        await websocket.send_bytes(bytes([channel]) + content)

    async def serve(index: int, port: int) -> None:
        for channel in (2 * index, 2 * index + 1):
            await send(channel, port.to_bytes(2, "little"))
        try:
            target = await connect(port)
        except OSError as problem:
            await send(2 * index + 1, _problem(port, pod, problem))
        else:
            await forward(inboxes[index], lambda content: send(2 * index, content), target)
        finally:
            inboxes[index].discard()

    serving = [asyncio.create_task(serve(index, port)) for index, port in enumerate(ports)]
    either: list[asyncio.Future[Any]] = [
        asyncio.gather(*serving),
        asyncio.create_task(_receive(websocket, inboxes)),
    ]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks([*either, *serving])
        await websocket.close()


async def _receive(websocket: web.WebSocketResponse, inboxes: list[Inbox]) -> None:
    async for message in websocket:
        content = payload(message)
        index, is_error = divmod(content[0], 2) if content else (len(inboxes), 0)
        if index < len(inboxes) and not is_error:
            await inboxes[index].put(content[1:])
