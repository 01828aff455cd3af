"""A watch over a WebSocket, as Java clients such as fabric8 (Spark) start it: one message per event."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from aiohttp import WSCloseCode, web

from quorate.local.server.errors import bad_request


def is_websocket(request: web.BaseRequest) -> bool:
    """Return True if the client wants to upgrade the connection to a WebSocket."""
    connection = request.headers.get("Connection", "").lower()
    return request.headers.get("Upgrade", "").lower() == "websocket" and "upgrade" in connection


async def send_events(request: web.BaseRequest, frames: AsyncIterator[bytes]) -> web.WebSocketResponse:
    """Send each line of the frames as a text message until they end or the client closes the connection.

    As in kube-apiserver, a single subprotocol is accepted whatever its name is, and what the client sends is
    ignored.  Raises StatusError(400) for several subprotocols.
    """
    protocols = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if len(protocols) > 1:
        raise bad_request("a watch has at most one WebSocket subprotocol")
    websocket = web.WebSocketResponse(protocols=protocols if protocols[0] else (), compress=False)
    await websocket.prepare(request)
    sending = asyncio.create_task(_send(websocket, frames))
    receiving = asyncio.create_task(_until_closed(websocket))
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            with suppress(ConnectionResetError):  # the client has disconnected
                sending.result()
    finally:
        sending.cancel()
        receiving.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)
    await websocket.close(code=WSCloseCode.OK)
    return websocket


async def _send(websocket: web.WebSocketResponse, frames: AsyncIterator[bytes]) -> None:
    async for frame in frames:
        for line in frame.splitlines(keepends=True):
            await websocket.send_str(line.decode())


async def _until_closed(websocket: web.WebSocketResponse) -> None:
    """Ignore messages; answer pings."""
    async for _ in websocket:
        pass
