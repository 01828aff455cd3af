"""What the controllers and the process of the estimates tell each other: length-prefixed JSON, in order."""

import struct
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import msgspec

from quorate.api import codec
from quorate.api.meta import Key
from quorate.kube.resources import PLACEABLE_NODES, Resource
from quorate.simulate.estimates.exchange import Answer, Refresh
from quorate.simulate.kinds import KINDS as SNAPSHOT_KINDS

if TYPE_CHECKING:
    import asyncio  # which the process of the estimates does not need

# What is sent, by the number of the kind in messages.
KINDS: Final[tuple[Resource[Any], ...]] = (*SNAPSHOT_KINDS, PLACEABLE_NODES)
T = TypeVar("T", Refresh, Answer)
_HEAD: Final = struct.Struct("<I")


class Configure(msgspec.Struct, tag=True):
    text: str  # a Configuration in YAML; empty: the defaults


class Put(msgspec.Struct, tag=True):
    kind: int
    object: msgspec.Raw


class Remove(msgspec.Struct, tag=True):
    kind: int
    key: Key


class Play(msgspec.Struct, tag=True):
    """Refresh the forecast of the objects that were sent, and answer with ``Refresh``."""

    now: float
    budget_s: float  # of processor time


class Ask(msgspec.Struct, tag=True):
    """Answer when a workload would start that may not exist yet, with ``Answer``."""

    question: msgspec.Raw  # a StartQuestion
    now: float
    budget_s: float  # of processor time


Message = Configure | Put | Remove | Play | Ask


def frame(message: Message | Refresh | Answer) -> bytes:
    body = codec.encode(message)
    return _HEAD.pack(len(body)) + body


def read_message(stream: BinaryIO) -> Message | None:
    """Return the next message; None at the end of the stream."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    body = stream.read(_HEAD.unpack(head)[0])
    message: Message = msgspec.json.decode(body, type=Message)
    return message


async def read_reply(stream: "asyncio.StreamReader", kind: type[T]) -> T:
    """Return the next reply.  Raises ``IncompleteReadError`` at the end of the stream."""
    (length,) = _HEAD.unpack(await stream.readexactly(_HEAD.size))
    return codec.decode(kind, await stream.readexactly(length))
