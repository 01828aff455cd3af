"""Connections of a client to servers that break the rules of HTTP, and what each leaves in the pool."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import AnswerTooLarge, ApiError, Unreachable
from quorate.kube.limits import MAX_HEAD_BYTES, MAX_IDLE_CONNECTIONS
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Credentials
from quorate.local.certificates import new_authority, new_server_certificate
from tests.kube.test_informer import wait_for

pytestmark = pytest.mark.slow
OK: Final = b"HTTP/1.1 200 OK\r\n"
WHOLE: Final = OK + b"Content-Length: 2\r\n\r\n{}"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"
Serve = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawServer:
    """Sends the bytes that ``serve`` writes for each request, the head of which it gets."""

    serve: Serve
    greeting: bytes | None = b""  # sent at once; None: the connection is closed
    url: str = ""
    connections: int = 0  # that were opened
    heads: list[bytes] = field(default_factory=list)
    open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            if self.greeting is None:
                return
            writer.write(self.greeting)
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.heads.append(head)
                await self.serve(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()

    def has_opened(self, count: int) -> bool:
        return self.connections == count

    async def until_open(self, count: int) -> None:
        await wait_for(lambda: len(self.open) == count)


def sending(*parts: bytes, closes: bool = False) -> Serve:
    async def serve(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if closes:
            writer.close()

    return serve


@asynccontextmanager
async def raw_server(
    serve: Serve, greeting: bytes | None = b"", tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    raw = RawServer(serve, greeting)
    server = await asyncio.start_server(raw.accept, "127.0.0.1", 0, backlog=200, ssl=tls)
    raw.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield raw
    finally:
        server.close()
        for writer in raw.open:
            writer.transport.abort()
        await raw.until_open(0)


def serving_tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a server and of its client."""
    authority = new_authority(WallClock().now())
    pair = new_server_certificate(authority, WallClock().now())
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "pair.pem")
    return serving, ssl.create_default_context(cadata=authority.certificate.decode())


def client_of(url: str, **options: Any) -> Client:
    fields = {name: options.pop(name) for name in ("proxy", "credentials", "tls") if name in options}
    return Client(RestConfig(url, **fields), random.Random(7), **options)


@pytest.mark.parametrize(
    ("parts", "closes", "problem"),
    [
        pytest.param([b"NOISE\r\n\r\n"], False, "is not HTTP", id="no status line"),
        pytest.param([b"HTTP/1.1 099 No\r\n\r\n"], False, "is not HTTP", id="no status code"),
        pytest.param([OK, b"X: " + b"x" * (MAX_HEAD_BYTES + 1)], False, "headers", id="an endless header"),
        pytest.param(
            [OK, *[b"X: y\r\n" * 1000] * (MAX_HEAD_BYTES // 6000 + 1)], False, "headers", id="endless headers"
        ),
        pytest.param(
            [b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_HEAD_BYTES // 25 + 1)], False, "headers",
            id="a response is announced for ever",
        ),
        pytest.param(
            [CHUNKED, b"2\r\n{}\r\n0\r\n", b"X: " + b"x" * (MAX_HEAD_BYTES + 1)], False, "headers",
            id="an endless trailer",
        ),
        pytest.param(
            [CHUNKED, b"2;x=" + b"x" * (MAX_HEAD_BYTES + 1)], False, "headers",
            id="an endless extension of a chunk",
        ),
        pytest.param([CHUNKED + b"2\r\n{}\r\n"], True, "within the response", id="chunks without an end"),
        pytest.param([CHUNKED + b"3b9aca00\r\n{"], True, "within the response", id="a chunk of 10^9 bytes"),
        pytest.param([CHUNKED + b"f" * 17 + b"\r\n{"], False, "is not HTTP", id="a chunk of 2^68 bytes"),
        pytest.param([CHUNKED + b"no\r\n{"], False, "is not HTTP", id="a chunk without a length"),
        pytest.param([OK + b"Content-Length: 3\r\n\r\n{}"], True, "within the response", id="a short body"),
        pytest.param([OK + b"Content-Length: -1\r\n\r\n{}"], False, "is not HTTP", id="a negative length"),
        pytest.param(
            [OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"], False, "is not HTTP", id="two lengths"
        ),
        pytest.param(
            [OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"], False,
            "is not HTTP", id="a length and chunks",
        ),
        pytest.param(
            [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"], False,
            "another protocol", id="another protocol",
        ),
        pytest.param([b"HT"], True, "closed the connection", id="the end of the connection in the status"),
        pytest.param([OK], False, "the deadline passed", id="silence within the headers"),
        pytest.param([CHUNKED + b"2\r\n{"], False, "the deadline passed", id="silence within the body"),
    ],
)  # fmt: skip
def test_a_broken_response_fails_and_its_connection_is_closed(
    parts: list[bytes], closes: bool, problem: str
) -> None:
    async def story() -> None:
        async with (
            raw_server(sending(*parts, closes=closes)) as server,
            client_of(server.url, deadline_s=2.0 if problem != "the deadline passed" else 0.2) as client,
        ):
            with pytest.raises(Unreachable, match=problem) as caught:
                await client.request("POST", "/", body=b"{}")
            assert caught.value.sent
            await server.until_open(0)
            assert len(server.heads) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("parts", "closes", "is_kept"),
    [
        pytest.param([WHOLE], False, True, id="a length"),
        pytest.param([CHUNKED + b"1\r\n{\r\n1;x=y\r\n}\r\n0\r\nX: y\r\n\r\n"], False, True, id="chunks"),
        pytest.param([bytes([byte]) for byte in WHOLE], False, True, id="single bytes"),
        pytest.param(
            [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX:\r\n\r\n" + WHOLE], False, True,
            id="announced twice",
        ),
        pytest.param([OK + b"Connection: close\r\n\r\n{}"], True, False, id="until the end"),
        pytest.param([b"HTTP/1.0 200 OK\r\nServer:\r\n\r\n{", b"}"], True, False, id="HTTP/1.0"),
        pytest.param(
            [OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"], False, False, id="announced end"
        ),
        pytest.param([WHOLE + b"{}"], False, False, id="more than the length"),
        pytest.param([WHOLE + WHOLE], False, False, id="two responses"),
    ],
)  # fmt: skip
def test_a_connection_is_kept_if_its_response_was_complete_and_nothing_followed(
    parts: list[bytes], closes: bool, is_kept: bool
) -> None:
    async def story() -> None:
        async with raw_server(sending(*parts, closes=closes)) as server, client_of(server.url) as client:
            assert await client.request("GET", "/") == b"{}"
            await server.until_open(int(is_kept))
            assert await client.request("GET", "/") == b"{}"
            assert server.connections == (1 if is_kept else 2)

    asyncio.run(story())


def test_a_response_without_a_request_is_not_taken_for_that_of_the_next_request() -> None:
    answers = iter([WHOLE, OK + b"Content-Length: 3\r\n\r\n{ }"])

    async def serve(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(next(answers))

    async def story() -> None:
        async with raw_server(serve) as server, client_of(server.url) as client:
            assert await client.request("GET", "/") == b"{}"
            (idle,) = server.open
            idle.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            await server.until_open(0)
            assert await client.request("GET", "/") == b"{ }"

    asyncio.run(story())


def test_an_early_refusal_is_read_although_the_request_was_not() -> None:
    """The server answers before it has read the body, and never reads the rest."""

    async def story() -> None:
        is_over = asyncio.Event()

        async def refuse(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
            await is_over.wait()

        async with raw_server(refuse) as server, client_of(server.url) as client:
            with pytest.raises(ApiError) as caught:
                await client.request("POST", "/", body=b"x" * 2**25)
            assert caught.value.status_code == 413
            server.serve = sending(WHOLE)
            assert await client.request("GET", "/") == b"{}"
            assert server.connections == 2
            is_over.set()

    asyncio.run(story())


@pytest.mark.parametrize("sent", [b"", OK, OK + b"Content-Length: 2\r\n\r\n{"])
def test_a_connection_is_not_used_again_after_its_reader_was_cancelled(sent: bytes) -> None:
    async def story() -> None:
        async with raw_server(sending(sent)) as server, client_of(server.url) as client:
            reading = asyncio.create_task(client.request("GET", "/"))
            await wait_for(lambda: bool(server.heads))
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await server.until_open(0)
            server.serve = sending(WHOLE)
            assert await client.request("GET", "/") == b"{}"
            assert server.connections == 2

    asyncio.run(story())


@pytest.mark.parametrize("uses_tls", [False, True])
def test_a_read_that_is_cancelled_after_any_step_leaves_nothing(tmp_path: Path, uses_tls: bool) -> None:
    serving, trusting = serving_tls(tmp_path) if uses_tls else (None, None)

    async def story() -> None:
        async with raw_server(sending(WHOLE), tls=serving) as server:
            for steps in range(40):
                async with client_of(server.url, tls=trusting) as client:
                    reading = asyncio.create_task(client.request("GET", "/"))
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)
                    assert await client.request("GET", "/") == b"{}"
                    await server.until_open(1)
                await server.until_open(0)

    asyncio.run(story())


def test_a_stream_that_is_left_closes_its_connection() -> None:
    async def story() -> None:
        async with (
            raw_server(sending(CHUNKED + b"3\r\nabc\r\n")) as server,
            client_of(server.url) as client,
        ):
            stream = client.chunks("GET", "/log", {}, None)
            assert await anext(stream) == b"abc"
            await stream.aclose()
            await server.until_open(0)

    asyncio.run(story())


def test_a_silent_stream_fails_after_its_time() -> None:
    async def story() -> None:
        async with (
            raw_server(sending(CHUNKED + b"3\r\nabc\r\n")) as server,
            client_of(server.url) as client,
        ):
            stream = client.chunks("GET", "/log", {}, 0.05)
            assert await anext(stream) == b"abc"
            with pytest.raises(Unreachable, match="no byte for"):
                await anext(stream)
            await server.until_open(0)

    asyncio.run(story())


def test_a_stream_is_not_read_faster_than_its_reader() -> None:
    sent = 0

    async def serve(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(CHUNKED)
        for _ in range(64):
            writer.write(b"80000\r\n" + b"x" * 0x80000 + b"\r\n")
            await writer.drain()
            sent += 0x80000
        writer.write(b"0\r\n\r\n")

    async def story() -> None:
        async with raw_server(serve) as server, client_of(server.url) as client:
            stream = client.chunks("GET", "/log", {}, None)
            received = len(await anext(stream))
            for _ in range(100):
                await asyncio.sleep(0.002)
            assert sent < 24 * 2**20  # what the kernel buffers
            received += sum([len(piece) async for piece in stream])
            assert received == sent == 32 * 2**20

    asyncio.run(story())


def test_a_large_announced_body_is_refused_before_it_arrives() -> None:
    async def story() -> None:
        announced = OK + b"Content-Length: 101\r\n\r\n"
        async with (
            raw_server(sending(announced)) as server,
            client_of(server.url, answer_bytes=100) as client,
        ):
            with pytest.raises(AnswerTooLarge):
                await client.request("GET", "/")
            await server.until_open(0)

    asyncio.run(story())


def test_no_more_connections_are_kept_than_the_limit() -> None:
    ready = asyncio.Event()

    async def serve(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(server_of[0].heads) == MAX_IDLE_CONNECTIONS + 3:
            ready.set()
        await ready.wait()
        writer.write(WHOLE)

    server_of: list[RawServer] = []

    async def story() -> None:
        async with (
            raw_server(serve) as server,
            client_of(server.url, concurrency=MAX_IDLE_CONNECTIONS + 3) as client,
        ):
            server_of.append(server)
            await asyncio.gather(*(client.request("GET", "/") for _ in range(MAX_IDLE_CONNECTIONS + 3)))
            await server.until_open(MAX_IDLE_CONNECTIONS)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("greeting", "deadline_s", "problem"),
    [
        pytest.param(b"", 0.3, "no connection until the deadline", id="silence"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", 60.0, "certificate-authority", id="no TLS"),
        pytest.param(None, 60.0, "is the API server running", id="the end"),
    ],
)
def test_a_handshake_that_fails_leaves_no_connection(
    tmp_path: Path, greeting: bytes | None, deadline_s: float, problem: str
) -> None:
    _, trusting = serving_tls(tmp_path)

    async def story() -> None:
        async with (
            raw_server(sending(WHOLE), greeting) as server,
            client_of(server.url.replace("http", "https"), tls=trusting, deadline_s=deadline_s) as client,
        ):
            for _ in range(3):
                with pytest.raises(Unreachable, match=problem) as caught:
                    await client.request("POST", "/", body=b"{}")
                assert not caught.value.sent
            await server.until_open(0)

    asyncio.run(story())


def test_a_cancelled_handshake_leaves_no_connection(tmp_path: Path) -> None:
    _, trusting = serving_tls(tmp_path)

    async def story() -> None:
        async with (
            raw_server(sending(WHOLE)) as server,
            client_of(server.url.replace("http", "https"), tls=trusting) as client,
        ):
            for number in range(1, 4):
                reading = asyncio.create_task(client.request("GET", "/"))
                await wait_for(partial(server.has_opened, number))
                reading.cancel()
                await asyncio.wait([reading])
                await server.until_open(0)

    asyncio.run(story())


class _Token(Credentials):
    def authorization(self) -> str:
        return "Bearer a\r\nImpersonate-User: admin"


def test_a_token_cannot_add_headers_to_a_request() -> None:
    async def story() -> None:
        async with (
            raw_server(sending(WHOLE)) as server,
            client_of(server.url, credentials=_Token(), deadline_s=0.1) as client,
        ):
            with pytest.raises(Unreachable, match="control character") as caught:
                await client.request("DELETE", "/")
            assert not caught.value.sent
            assert server.heads == []

    asyncio.run(story())
