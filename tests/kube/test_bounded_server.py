"""What clients can hold of a server: connections, memory and time, in raw requests."""

import asyncio
import gc
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from quorate.api.configuration.webhooks import TlsOptions
from quorate.kube.clock import WallClock
from quorate.kube.serving.bounded_server import ServerLimits, bounded_server, read_body
from quorate.kube.serving.certificates import new_authority, new_server_certificate
from quorate.kube.serving.tls import load_certificate, server_context
from tests.kube.test_informer import wait_for

WITHIN_S = 30.0
LIMIT = 64 * 1024
SHORT = ServerLimits(transfer_s=0.2)
PATIENT = ServerLimits(transfer_s=WITHIN_S)
HEAD = b"POST / HTTP/1.1\r\nHost: here\r\n"
GOOD = HEAD + b"Content-Length: 5\r\n\r\nhello"


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_forever(self) -> None:
        while True:
            await self.send(b"\n")
            await asyncio.sleep(0.01)

    async def answer(self) -> tuple[int, bytes]:
        """Return status and body of a response."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        return int(head.split()[1]), await self.reader.readexactly(int(fields[b"Content-Length"]))

    async def is_closed(self) -> bool:
        """Wait until the server closes the connection, and discard what it sent."""
        try:
            while await self.reader.read(LIMIT):
                pass
        except ConnectionError:
            pass
        return True


Connect = Callable[[], Awaitable[Peer]]


@asynccontextmanager
async def a_server(limits: ServerLimits, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await read_body(request, LIMIT))

    async def large(request: web.Request) -> web.Response:
        return web.Response(body=bytes(64 * 2**20))

    app = web.Application()
    app.router.add_post("/", echo)
    app.router.add_get("/large", large)
    async with bounded_server(app, "127.0.0.1", 0, tls, limits) as port:
        yield port


def play(limits: ServerLimits, story: Callable[[Connect], Awaitable[None]]) -> None:
    async def scenario() -> None:
        opened: list[Peer] = []
        async with asyncio.timeout(WITHIN_S), a_server(limits) as port:

            async def connect() -> Peer:
                peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
                opened.append(peer)
                return peer

            await story(connect)
            for peer in opened:
                peer.writer.close()

    asyncio.run(scenario())


def test_requests_on_one_connection_are_answered() -> None:
    async def story(connect: Connect) -> None:
        peer = await connect()
        for _ in range(3):
            await peer.send(GOOD)
            assert await peer.answer() == (200, b"hello")

    play(PATIENT, story)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"Content-Length: 100000000\r\n\r\n", id="announced"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n", id="in chunks"),
    ],
)
def test_a_large_body_is_refused_and_not_kept(head: bytes) -> None:
    async def story(connect: Connect) -> None:
        peer = await connect()
        await peer.send(HEAD + head)
        for _ in range(80):  # 5 MiB: more than the server may buffer
            await peer.send(b"%x\r\n" % LIMIT + bytes(LIMIT) + b"\r\n")
        want = f"the body is too large: at most {LIMIT} bytes are read\n".encode()
        assert await peer.answer() == (413, want)
        assert await peer.is_closed()

    play(ServerLimits(transfer_s=WITHIN_S, buffered_bytes=16 * LIMIT), story)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(HEAD + b"X-Half", id="half of the headers"),
        pytest.param(HEAD + b"Content-Length: 100\r\n\r\nhalf", id="half of the body"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", id="half of a chunk"),
        pytest.param(GOOD + HEAD + 100 * (b"X-Half: " + b"1" * 100 + b"\r\n"), id="half of a second request"),
    ],
)
def test_a_stalled_connection_is_closed(sent: bytes) -> None:
    async def story(connect: Connect) -> None:
        peer = await connect()
        await peer.send(sent)
        assert await peer.is_closed()

    play(SHORT, story)


def test_a_client_that_does_not_read_its_response_is_disconnected() -> None:
    async def story(connect: Connect) -> None:
        peer = await connect()
        await peer.send(b"GET /large HTTP/1.1\r\nHost: here\r\n\r\n")
        with pytest.raises(ConnectionError):
            await peer.send_forever()

    play(SHORT, story)


def test_one_connection_more_than_allowed_replaces_the_oldest_without_a_request() -> None:
    async def story(connect: Connect) -> None:
        used = await connect()
        await used.send(GOOD)
        assert (await used.answer())[0] == 200
        stalled = [await connect() for _ in range(49)]
        for peer in stalled:
            await peer.send(HEAD + b"Content-Length: 100\r\n\r\nhalf")
        for number in range(5):
            peer = await connect()
            await peer.send(GOOD)
            assert await peer.answer() == (200, b"hello")
            assert await stalled[number].is_closed()
        await used.send(GOOD)
        assert await used.answer() == (200, b"hello"), "a connection that had a request was closed first"

    play(ServerLimits(transfer_s=WITHIN_S, connections=50), story)


def test_the_largest_request_is_closed_when_too_many_bytes_are_buffered() -> None:
    async def story(connect: Connect) -> None:
        small, *half = [await connect() for _ in range(6)]
        await small.send(GOOD[:-1])
        for number, peer in enumerate(half):
            size = 50_000 + number
            await peer.send(HEAD + b"Content-Length: 60000\r\n\r\n" + bytes(size))
        assert await half[-1].is_closed()
        await small.send(GOOD[-1:])
        assert await small.answer() == (200, b"hello")

    play(ServerLimits(transfer_s=WITHIN_S, buffered_bytes=240_000), story)


def test_a_compressed_body_is_not_inflated() -> None:
    async def story(connect: Connect) -> None:
        peer = await connect()
        await peer.send(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello")
        assert await peer.answer() == (415, b"the body is compressed, which is not supported\n")

    play(PATIENT, story)


def test_a_handshake_that_stalls_counts_as_a_connection_and_is_closed() -> None:
    async def scenario() -> None:
        now = WallClock().now()
        authority = new_authority("tests", now)
        tls = server_context(TlsOptions())
        load_certificate(tls, new_server_certificate(authority, "tests", ["127.0.0.1"], now))
        trusting = ssl.create_default_context(cadata=authority.certificate.decode())
        limits = ServerLimits(transfer_s=WITHIN_S, connections=3)
        async with asyncio.timeout(WITHIN_S), a_server(limits, tls) as port:
            silent = [Peer(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(3)]
            good = Peer(*await asyncio.open_connection("127.0.0.1", port, ssl=trusting))
            assert await silent[0].is_closed()
            await good.send(GOOD)
            assert await good.answer() == (200, b"hello")
            for peer in (*silent, good):
                peer.writer.close()
        assert await silent[1].is_closed(), "the server ended and left a handshake open"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(HEAD + b"Content-Length: 60000\r\n\r\n" + bytes(50_000), id="half of a body"),
        pytest.param(HEAD + b"Content-Length: 600000\r\n\r\n" + bytes(50_000), id="half of a refused body"),
        pytest.param(GOOD + HEAD + b"Content-Length: 100\r\n\r\nhalf", id="half of a second request"),
    ],
)
def test_a_closed_connection_is_freed_without_a_garbage_collection(sent: bytes) -> None:
    """Its request, its body and its buffers are; collections are rare in a large process."""

    def held() -> int:
        """Return how many requests and connections of servers exist."""
        names = Counter(type(each).__name__ for each in gc.get_objects())
        return names["Request"] + names["_Connection"]

    async def story(connect: Connect) -> None:
        for _ in range(10):
            peer = await connect()
            await peer.send(sent)
            if sent.startswith(GOOD):
                await peer.answer()
            peer.writer.transport.abort()
        await wait_for(lambda: held() <= others + 1)  # the last connection is still there

    gc.collect()
    gc.disable()
    others = held()  # of servers that other tests keep
    try:
        play(PATIENT, story)
    finally:
        gc.enable()
