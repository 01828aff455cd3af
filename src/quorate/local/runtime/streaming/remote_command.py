"""Protocols of exec and attach: channels of a WebSocket, or streams of SPDY."""

import asyncio
import base64
import json
from contextlib import suppress
from typing import Annotated, Final

import msgspec
from aiohttp import WSMessage, WSMsgType, web

from quorate.api.codec import Json
from quorate.local.connections import Inbox
from quorate.local.runtime.streaming.commands import CommandOptions, TerminalSizes
from quorate.local.runtime.streaming.spdy import SpdyStream

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
CHANNELS: Final = {"stdout": STDOUT, "stderr": STDERR}
BINARY_PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
)
BASE64_PROTOCOLS: Final = ("v4.base64.channel.k8s.io", "base64.channel.k8s.io")
WEBSOCKET_PROTOCOLS: Final = BINARY_PROTOCOLS + BASE64_PROTOCOLS
SPDY_PROTOCOLS: Final = BINARY_PROTOCOLS[1:]
STATUS_PROTOCOLS: Final = ("v5.", "v4.")  # others have the text of an error instead of a Status
MAX_MESSAGE_BYTES: Final = 1 << 20
STREAM_TIMEOUT_S: Final = 30.0
UINT16: Final = msgspec.Meta(ge=0, le=0xFFFF)


class WebSocketStreams:
    """The channels of a WebSocket: the first byte of each message is the number of the channel."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket
        self._protocol = websocket.ws_protocol or ""
        self._base64 = self._protocol in BASE64_PROTOCOLS
        self.stdin = Inbox()
        self.sizes = TerminalSizes()

    async def open(self, options: CommandOptions) -> None:
        """Send an empty message, from which clients learn that the command runs."""
        await self._send(STDOUT if options.stdout else STDERR if options.stderr else ERROR, b"")

    async def receive(self) -> None:
        """Receive until the client disconnects."""
        try:
            async for message in self._websocket:
                await self._receive(*self._decode(payload(message)))
        finally:
            self.stdin.end()

    def _decode(self, content: bytes) -> tuple[int, bytes]:
        """Return the channel of a message, or -1, and its content."""
        if not content:
            return -1, b""
        if not self._base64:
            return content[0], content[1:]
        try:
            return content[0] - ord("0"), base64.b64decode(content[1:])
        except ValueError:
            return -1, b""

    async def _receive(self, channel: int, content: bytes) -> None:
        if channel == STDIN:
            await self.stdin.put(content)
        elif channel == RESIZE:
            resize(self.sizes, content)
        elif channel == CLOSE and content[:1] == bytes([STDIN]):
            self.stdin.end()

    async def write(self, stream: str, content: bytes) -> None:
        await self._send(CHANNELS[stream], content)

    async def finish(self, status: Json) -> None:
        with suppress(OSError):
            if content := _error_content(status, self._protocol):
                await self._send(ERROR, content)
            await self._websocket.close()

    async def _send(self, channel: int, content: bytes) -> None:
        if self._websocket.closed:
            raise ConnectionResetError("the client has disconnected")
        if self._base64:
            await self._websocket.send_str(f"{channel}{base64.b64encode(content).decode()}")
        else:
            await self._websocket.send_bytes(bytes([channel]) + content)


def _error_content(status: Json, protocol: str) -> bytes:
    """Return what the error stream of a protocol says of a command; empty if that is nothing."""
    if protocol.startswith(STATUS_PROTOCOLS):
        return json.dumps(status).encode()
    return b"" if status["status"] == "Success" else str(status["message"]).encode()


def payload(message: WSMessage) -> bytes:
    """Return the content of a message, whether it is text or not: clients send both."""
    if message.type is WSMsgType.TEXT:
        return str(message.data).encode()
    return bytes(message.data) if message.type is WSMsgType.BINARY else b""


def resize(sizes: TerminalSizes, content: bytes) -> None:
    """Set the size of the terminal from ``{"Width": 80, "Height": 24}``; ignore other content."""
    with suppress(msgspec.MsgspecError, OSError):
        size = msgspec.json.decode(content, type=TerminalSize)
        sizes.set(size.width, size.height)


class TerminalSize(msgspec.Struct):
    width: Annotated[int, UINT16] = msgspec.field(name="Width")
    height: Annotated[int, UINT16] = msgspec.field(name="Height")


class SpdyStreams:
    """The streams that a client opens for a command: error, and the streams that the options name."""

    def __init__(self, options: CommandOptions, protocol: str) -> None:
        self._protocol = protocol
        self._streams: dict[str, SpdyStream] = {}
        self._expected = {"error"} | {
            name for name in ("stdin", "stdout", "stderr") if getattr(options, name)
        }
        if options.tty:
            self._expected.discard("stderr")
            if protocol not in ("channel.k8s.io", "v2.channel.k8s.io", ""):
                self._expected.add("resize")
        self._complete = asyncio.Event()
        self.stdin = Inbox()
        self.sizes = TerminalSizes()

    def on_stream(self, stream: SpdyStream) -> None:
        self._streams.setdefault(stream.headers.get("streamtype", ""), stream)
        if self._expected <= self._streams.keys():
            self._complete.set()

    async def opened(self) -> None:
        """Wait for all streams.  Raises TimeoutError."""
        async with asyncio.timeout(STREAM_TIMEOUT_S):
            await self._complete.wait()
        if "stdin" in self._streams:
            self.stdin = self._streams["stdin"].inbox

    async def receive_sizes(self) -> None:
        if "resize" in self._streams:
            while content := await self._streams["resize"].inbox.get():
                for line in content.splitlines():
                    resize(self.sizes, line)

    async def write(self, stream: str, content: bytes) -> None:
        await self._streams[stream].write(content)

    async def finish(self, status: Json) -> None:
        with suppress(OSError):
            if content := _error_content(status, self._protocol):
                await self._streams["error"].write(content)
            for stream in self._streams.values():
                await stream.close()


class WebSocketBytes:
    """The bytes in the messages of a WebSocket, through which a client speaks another protocol."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket

    async def read(self) -> bytes:
        while True:
            message = await self._websocket.receive()
            if message.type is not WSMsgType.BINARY:
                return b""
            if message.data:
                return bytes(message.data)

    async def write(self, content: bytes) -> None:
        if self._websocket.closed:
            raise ConnectionResetError("the client has disconnected")
        await self._websocket.send_bytes(content)
