"""A SPDY connection from the side of the server: the client opens streams."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from quorate.local.runtime.streaming.inbox import Inbox
from quorate.local.runtime.streaming.spdy import (
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    NewStream,
    Ping,
    ProtocolError,
    Reply,
    Reset,
    data_frame,
    ping_frame,
    reset_frame,
)

MAX_STREAMS: Final = 1024
CHUNK_BYTES: Final = 32 * 1024
INVALID_STREAM: Final = 2


class ByteConnection(Protocol):
    """Bytes in both directions: an upgraded connection, or the messages of a WebSocket."""

    async def read(self) -> bytes: ...
    async def write(self, content: bytes) -> None: ...


class SpdyStream:
    """One stream of a session."""

    def __init__(self, session: "SpdySession", id_: int, headers: Mapping[str, str]) -> None:
        self._session = session
        self._id = id_
        self._closed = False
        self.headers = headers
        self.inbox = Inbox()

    @property
    def is_over(self) -> bool:
        return self._closed and self.inbox.is_over

    async def write(self, content: bytes) -> None:
        for start in range(0, len(content), CHUNK_BYTES):
            await self._session.send(data_frame(self._id, content[start : start + CHUNK_BYTES]))

    async def close(self) -> None:
        """End the direction to the client, and drop what the client still sends."""
        self.inbox.discard()
        if not self._closed:
            self._closed = True
            await self._session.send(data_frame(self._id, b"", fin=True))


class SpdySession:
    def __init__(self, connection: ByteConnection, on_stream: Callable[[SpdyStream], None]) -> None:
        """``on_stream`` is called with each new stream."""
        self._connection = connection
        self._on_stream = on_stream
        self._reader = FrameReader()
        self._writer = FrameWriter()
        self._streams: dict[int, SpdyStream] = {}

    async def run(self) -> None:
        """Receive until the client ends the connection.  Raises ``ProtocolError``."""
        try:
            while content := await self._connection.read():
                for frame in self._reader.feed(content):
                    await self._receive(frame)
        finally:
            for stream in self._streams.values():
                stream.inbox.end()

    async def send(self, frame: bytes) -> None:
        await self._connection.write(frame)

    async def _receive(self, frame: Frame) -> None:
        match frame:
            case NewStream(id_, headers, fin):
                await self._open(id_, headers, fin)
            case Data(id_, content, fin) if id_ in self._streams:
                inbox = self._streams[id_].inbox
                await inbox.put(content)
                if fin:
                    inbox.end()
            case Data(id_):
                await self.send(reset_frame(id_, INVALID_STREAM))
            case Reset(id_) | Reply(id_, _, True) if id_ in self._streams:
                self._streams[id_].inbox.end()
            case Ping(id_) if id_ % 2 == 1:  # of the client; others answer pings of the server
                await self.send(ping_frame(id_))
            case _:
                return

    async def _open(self, id_: int, headers: Mapping[str, str], fin: bool) -> None:
        if id_ % 2 == 0 or id_ in self._streams:
            raise ProtocolError(f"a new stream with the id {id_}")
        self._streams = {key: one for key, one in self._streams.items() if not one.is_over}
        if len(self._streams) >= MAX_STREAMS:
            raise ProtocolError(f"more than {MAX_STREAMS} streams")
        stream = self._streams[id_] = SpdyStream(self, id_, headers)
        await self.send(self._writer.reply(id_, {}))
        if fin:
            stream.inbox.end()
        self._on_stream(stream)
