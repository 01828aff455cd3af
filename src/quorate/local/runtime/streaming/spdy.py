"""Frames and sessions of SPDY/3.1, as kubectl and client-go use it for exec, attach and port-forward.

https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/. Clients send and expect no flow control.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from quorate.local.connections import Inbox

VERSION: Final = 3
CONTROL_BIT: Final = 0x80000000
ID_MASK: Final = 0x7FFFFFFF
HEADER: Final = struct.Struct(">IBBH")  # id or version and type, flags, length (24 bits)
FIN: Final = 0x01
MAX_CONTROL_BYTES: Final = 64 * 1024
MAX_HEADER_BLOCK_BYTES: Final = 256 * 1024  # after decompression
MAX_DATA_BYTES: Final = 1 << 20
_UINT32: Final = struct.Struct(">I")
_TWO_UINT32: Final = struct.Struct(">II")

_WORDS: Final = (
    "options,head,post,put,delete,trace,accept,accept-charset,accept-encoding,accept-language,accept-ranges,age,"
    "allow,authorization,cache-control,connection,content-base,content-encoding,content-language,content-length,"
    "content-location,content-md5,content-range,content-type,date,etag,expect,expires,from,host,if-match,"
    "if-modified-since,if-none-match,if-range,if-unmodified-since,last-modified,location,max-forwards,pragma,"
    "proxy-authenticate,proxy-authorization,range,referer,retry-after,server,te,trailer,transfer-encoding,"
    "upgrade,user-agent,vary,via,warning,www-authenticate,method,get,status,200 OK,version,HTTP/1.1,url,"
    "public,set-cookie,keep-alive,origin"
)
_TEXT: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    "Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 "
    "Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb "
    "Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/"
    "html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,public"
    "privatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(_UINT32.pack(len(word)) + word.encode() for word in _WORDS.split(",")) + _TEXT.encode()
)


class FrameType(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class ProtocolError(Exception):
    """The other side violates the protocol; the connection cannot go on."""


@dataclass(frozen=True, slots=True)
class NewStream:
    id: int
    headers: Mapping[str, str]
    fin: bool  # the other side sends no data


@dataclass(frozen=True, slots=True)
class Reply:
    id: int
    headers: Mapping[str, str]
    fin: bool


@dataclass(frozen=True, slots=True)
class Data:
    id: int
    content: bytes
    fin: bool


@dataclass(frozen=True, slots=True)
class Reset:
    id: int
    status: int


@dataclass(frozen=True, slots=True)
class Ping:
    id: int


Frame = NewStream | Reply | Data | Reset | Ping


class FrameReader:
    """Splits bytes into frames; leaves out SETTINGS, WINDOW_UPDATE and GOAWAY, which have no meaning here."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflater = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, content: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now.  Raises ``ProtocolError``."""
        self._buffer += content
        while len(self._buffer) >= HEADER.size:
            word, flags, high, low = HEADER.unpack_from(self._buffer)
            length = high << 16 | low
            if length > (MAX_CONTROL_BYTES if word & CONTROL_BIT else MAX_DATA_BYTES):
                raise ProtocolError(f"a frame of {length} bytes")
            end = HEADER.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[HEADER.size : end])
            del self._buffer[:end]
            if not word & CONTROL_BIT:
                yield Data(word & ID_MASK, body, bool(flags & FIN))
            elif (frame := self._control(word, flags, body)) is not None:
                yield frame

    def _control(self, word: int, flags: int, body: bytes) -> Frame | None:
        version, number = (word >> 16) & 0x7FFF, word & 0xFFFF
        if version != VERSION:
            raise ProtocolError(f"version {version} of SPDY")
        fin = bool(flags & FIN)
        try:
            match number:
                case FrameType.SYN_STREAM:
                    return NewStream(_id(body), self._headers(body[10:]), fin)
                case FrameType.SYN_REPLY | FrameType.HEADERS:
                    return Reply(_id(body), self._headers(body[4:]), fin)
                case FrameType.RST_STREAM:
                    return Reset(_id(body), _TWO_UINT32.unpack_from(body)[1])
                case FrameType.PING:
                    return Ping(*_UINT32.unpack_from(body))
                case FrameType.SETTINGS | FrameType.WINDOW_UPDATE | FrameType.GOAWAY:
                    return None
                case _:
                    raise ProtocolError(f"a frame of type {number}")
        except struct.error as error:
            raise ProtocolError(f"a short frame of type {number}") from error

    def _headers(self, block: bytes) -> dict[str, str]:
        """Return the headers of a compressed block, with names in lower case."""
        try:
            plain = self._inflater.decompress(block, MAX_HEADER_BLOCK_BYTES)
        except zlib.error as error:
            raise ProtocolError(f"compressed headers: {error}") from error
        if self._inflater.unconsumed_tail:
            raise ProtocolError("too large headers")
        [count] = _UINT32.unpack_from(plain)
        headers, place = {}, _UINT32.size
        for _ in range(count):
            name, place = _text(plain, place)
            value, place = _text(plain, place)
            headers[name.lower()] = value
        return headers


def _id(body: bytes) -> int:
    [id_] = _UINT32.unpack_from(body)
    return int(id_ & ID_MASK)


def _text(plain: bytes, place: int) -> tuple[str, int]:
    [length] = _UINT32.unpack_from(plain, place)
    start = place + _UINT32.size
    if start + length > len(plain):
        raise ProtocolError("short headers")
    return plain[start : start + length].decode("utf-8", "replace"), start + length


class FrameWriter:
    """Encodes frames; headers of one connection are compressed as one stream."""

    def __init__(self) -> None:
        self._deflater = zlib.compressobj(zdict=DICTIONARY)

    def new_stream(self, id_: int, headers: Mapping[str, str], *, fin: bool = False) -> bytes:
        body = struct.pack(">IIBB", id_, 0, 0, 0) + self._block(headers)
        return _control_frame(FrameType.SYN_STREAM, body, fin=fin)

    def reply(self, id_: int, headers: Mapping[str, str]) -> bytes:
        return _control_frame(FrameType.SYN_REPLY, _UINT32.pack(id_) + self._block(headers))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        plain = [_UINT32.pack(len(headers))]
        for text in (text for pair in headers.items() for text in pair):
            content = text.encode()
            plain += [_UINT32.pack(len(content)), content]
        return self._deflater.compress(b"".join(plain)) + self._deflater.flush(zlib.Z_SYNC_FLUSH)


def data_frame(id_: int, content: bytes, *, fin: bool = False) -> bytes:
    """Return a data frame with at most ``MAX_DATA_BYTES``."""
    length = len(content)
    return HEADER.pack(id_, FIN if fin else 0, length >> 16, length & 0xFFFF) + content


def ping_frame(id_: int) -> bytes:
    return _control_frame(FrameType.PING, _UINT32.pack(id_))


def reset_frame(id_: int, status: int) -> bytes:
    return _control_frame(FrameType.RST_STREAM, _TWO_UINT32.pack(id_, status))


def _control_frame(type_: FrameType, body: bytes, *, fin: bool = False) -> bytes:
    word = CONTROL_BIT | VERSION << 16 | type_
    return HEADER.pack(word, FIN if fin else 0, len(body) >> 16, len(body) & 0xFFFF) + body


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
        self._streams = {key: opened for key, opened in self._streams.items() if not opened.is_over}
        if len(self._streams) >= MAX_STREAMS:
            raise ProtocolError(f"more than {MAX_STREAMS} streams")
        stream = self._streams[id_] = SpdyStream(self, id_, headers)
        await self.send(self._writer.reply(id_, {}))
        if fin:
            stream.inbox.end()
        self._on_stream(stream)
