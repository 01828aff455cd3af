"""Frames of SPDY: what is written reads back, and no bytes from outside end the process."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.local.runtime.streaming import spdy
from quorate.local.runtime.streaming.spdy import (
    MAX_STREAMS,
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    NewStream,
    Ping,
    ProtocolError,
    Reply,
    Reset,
    SpdySession,
    SpdyStream,
)

ids = st.integers(1, spdy.ID_MASK)
headers = st.dictionaries(st.text("abcdefgh-", min_size=1, max_size=12), st.text(max_size=20), max_size=5)
frames = st.one_of(
    st.builds(NewStream, ids, headers, st.booleans()),
    st.builds(Reply, ids, headers, st.just(False)),
    st.builds(Data, ids, st.binary(max_size=300), st.booleans()),
    st.builds(Reset, ids, st.integers(0, 9)),
    st.builds(Ping, ids),
)


def encode(writer: FrameWriter, frame: Frame) -> bytes:
    match frame:
        case NewStream(id_, content, fin):
            return writer.new_stream(id_, content, fin=fin)
        case Reply(id_, content):
            return writer.reply(id_, content)
        case Data(id_, data, fin):
            return spdy.data_frame(id_, data, fin=fin)
        case Reset(id_, status):
            return spdy.reset_frame(id_, status)
        case Ping(id_):
            return spdy.ping_frame(id_)


@given(st.lists(frames, max_size=8), st.integers(1, 40))
def test_frames_read_back_however_the_bytes_arrive(written: list[Frame], size: int) -> None:
    writer, reader = FrameWriter(), FrameReader()
    wire = b"".join(encode(writer, frame) for frame in written)
    read = [frame for start in range(0, len(wire), size) for frame in reader.feed(wire[start : start + size])]
    assert read == written


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_are_frames_or_an_error_of_the_protocol(pieces: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for piece in pieces:
            list(reader.feed(piece))
    except ProtocolError:
        return


@given(st.lists(frames, min_size=1, max_size=4), st.data())
def test_damaged_frames_are_frames_or_an_error_of_the_protocol(
    written: list[Frame], data: st.DataObject
) -> None:
    writer = FrameWriter()
    wire = bytearray(b"".join(encode(writer, frame) for frame in written))
    wire[data.draw(st.integers(0, len(wire) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        list(FrameReader().feed(bytes(wire)))
    except ProtocolError:
        return


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(b"\x00\x00\x00\x01\x00\xff\xff\xff", id="16 MB of data"),
        pytest.param(b"\x80\x03\x00\x01\x00\xff\xff\xff", id="16 MB of headers"),
        pytest.param(b"\x80\x02\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01", id="another version"),
    ],
)
def test_a_huge_frame_is_refused_before_it_arrives(wire: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(wire))


def test_headers_that_expand_beyond_the_limit_are_refused() -> None:
    wire = FrameWriter().new_stream(1, {"x": "a" * (2 * spdy.MAX_HEADER_BLOCK_BYTES)})
    with pytest.raises(ProtocolError, match="too large headers"):
        list(FrameReader().feed(wire))


class FixedConnection:
    """A client that has sent its bytes and has ended; ``written`` is what the server sent."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = [*pieces]
        self.written = b""

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        return self._pieces.pop(0) if self._pieces else b""

    async def write(self, content: bytes) -> None:
        self.written += content


def serve(*pieces: bytes) -> tuple[list[SpdyStream], list[Frame]]:
    """Return the streams of a session, and the frames that it sent."""
    streams: list[SpdyStream] = []
    connection = FixedConnection(pieces)
    asyncio.run(SpdySession(connection, streams.append).run())
    return streams, list(FrameReader().feed(connection.written))


def test_a_session_replies_to_streams_and_pings() -> None:
    writer = FrameWriter()
    streams, sent = serve(
        writer.new_stream(1, {"streamType": "data"}) + spdy.ping_frame(7),
        spdy.data_frame(1, b"some", fin=True) + spdy.data_frame(9, b"lost"),
    )
    assert [stream.headers for stream in streams] == [{"streamtype": "data"}]
    assert asyncio.run(streams[0].inbox.get()) == b"some"
    assert sent == [Reply(1, {}, False), Ping(7), Reset(9, 2)]


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([2], id="a number of the server"),
        pytest.param([1, 1], id="twice"),
        pytest.param([*range(1, 2 * MAX_STREAMS + 3, 2)], id="too many"),
    ],
)
def test_a_session_refuses_streams_with_invalid_numbers(ids: list[int]) -> None:
    writer = FrameWriter()
    with pytest.raises(ProtocolError):
        serve(*(writer.new_stream(id_, {}) for id_ in ids))
