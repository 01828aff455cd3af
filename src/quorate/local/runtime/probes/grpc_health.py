"""The client side of grpc.health.v1 Health/Check, for one request on a connection.

It speaks as much of HTTP/2 (RFC 9113) and HPACK (RFC 7541) as that takes: request headers are sent without
compression, and of the response only the message is read, not the headers and trailers.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from quorate.local.objects.protobuf.table import write_varint

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7  # types of frames
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8  # flags
STREAM: Final = 1
USER_AGENT: Final = "kube-probe/1.36"
MAX_FRAME_BYTES: Final = 16384
MAX_FRAMES: Final = 100
MESSAGE_HEAD_BYTES: Final = 5  # of gRPC: whether it is compressed, and its length
STATUSES: Final = {b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING", b"\x08\x03": "SERVICE_UNKNOWN"}
FAILED: Final = "error: health rpc probe failed"


async def health(
    reader: asyncio.StreamReader, write: Callable[[bytes], None], authority: str, service: str
) -> str:
    """Return the serving status of a service, such as SERVING.

    Raises OSError if the server answers without a status, EOFError if it ends the connection before.
    """
    write(PREFACE + _frame(SETTINGS, 0, 0, b"") + _request(authority, service))
    message = b""
    for _ in range(MAX_FRAMES):
        head = await reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        if length > MAX_FRAME_BYTES:
            break
        payload = await reader.readexactly(length)
        if kind in (SETTINGS, PING) and not flags & ACK:
            write(_frame(kind, ACK, 0, payload if kind == PING else b""))
        if kind == DATA:
            message += payload[1 : length - payload[0]] if flags & PADDED and payload else payload
            if len(message) >= MESSAGE_HEAD_BYTES:
                size = int.from_bytes(message[1:MESSAGE_HEAD_BYTES], "big")
                content = message[MESSAGE_HEAD_BYTES:]
                if len(content) >= size:
                    return STATUSES.get(content[:size], "UNKNOWN")
        if kind in (RST_STREAM, GOAWAY) or (kind in (DATA, HEADERS) and flags & END_STREAM):
            break
    raise OSError(FAILED)


def _request(authority: str, service: str) -> bytes:
    name = service.encode()
    message = b"\x0a" + write_varint(len(name)) + name if name else b""
    headers = b"".join(
        (
            b"\x83\x86",  # :method POST, :scheme http
            b"\x04" + _text("/grpc.health.v1.Health/Check"),
            b"\x01" + _text(authority),
            b"\x0f\x10" + _text("application/grpc"),  # content-type
            b"\x00" + _text("te") + _text("trailers"),
            b"\x0f\x2b" + _text(USER_AGENT),  # user-agent
        )
    )
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return _frame(HEADERS, END_HEADERS, STREAM, headers) + _frame(DATA, END_STREAM, STREAM, body)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _text(text: str) -> bytes:
    """Return a string of HPACK, which has fewer than 127 bytes."""
    return bytes((len(text),)) + text.encode()
