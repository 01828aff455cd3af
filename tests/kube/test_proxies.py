"""Connections of a client through the proxy of its kubeconfig."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from quorate.kube.errors import Unreachable
from tests.kube.fake_server import Answer, FakeServer
from tests.kube.test_connections import WHOLE, RawServer, client_of, raw_server, sending, serving_tls

pytestmark = pytest.mark.slow


@asynccontextmanager
async def proxy_server(
    status_line: bytes = b"HTTP/1.1 200 Connection established",
) -> AsyncIterator[RawServer]:
    """Run a proxy that connects to where CONNECT says; its answer begins with ``status_line``."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(2**16):
                writer.write(data)
        writer.close()

    async def serve(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(status_line + b"\r\n\r\n")
        host, _, port = head.split()[1].decode().rpartition(":")
        there = await asyncio.open_connection(host.strip("[]"), int(port))
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    async with raw_server(serve) as server:
        yield server


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_proxy_tunnels_to_a_server_with_tls(tmp_path: Path, version: bytes) -> None:
    serving, trusting = serving_tls(tmp_path)

    async def story() -> None:
        async with (
            FakeServer(lambda request: Answer(200, {}), serving) as server,
            proxy_server(b"HTTP/%b 200 OK" % version) as proxy,
        ):
            address = proxy.url.replace("//", "//us%40er:secret@")
            async with client_of(server.url, proxy=address, tls=trusting) as client:
                for _ in range(2):
                    assert await client.request("PUT", "/a", body=b"{}") == b"{}"
            (head,) = proxy.heads
            assert head.startswith(
                b"CONNECT " + server.url.removeprefix("https://").encode() + b" HTTP/1.1\r\n"
            )
            assert b"\r\nProxy-Authorization: Basic dXNAZXI6c2VjcmV0\r\n" in head
            assert [request.path for request in server.requests] == ["/a", "/a"]
            assert "Proxy-Authorization" not in server.requests[0].headers

    asyncio.run(story())


def test_a_proxy_gets_the_whole_address_of_a_server_without_tls() -> None:
    async def story() -> None:
        async with raw_server(sending(WHOLE)) as proxy:
            address = proxy.url.replace("//", "//user:secret@")
            async with client_of("http://server:8001/prefix", proxy=address) as client:
                assert await client.request("GET", "/a", query={"b": "c d"}) == b"{}"
            (head,) = proxy.heads
            lines = head.decode().split("\r\n")
            assert lines[0] == "GET http://server:8001/prefix/a?b=c+d HTTP/1.1"
            assert {"Host: server:8001", "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ="} <= {*lines}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("status_line", "proxy_url", "problem"),
    [
        pytest.param(b"HTTP/1.1 407 No", "", r"the proxy refused the connection: 407", id="refused"),
        pytest.param(b"NOISE", "", "is not HTTP", id="noise"),
        pytest.param(b"HTTP/1.1 200 OK", "socks5://a", "socks5 is not supported", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK", "http://127.0.0.1:1", "is the proxy running", id="nothing listens"),
    ],
)
def test_a_proxy_that_does_not_connect_makes_the_server_unreachable(
    tmp_path: Path, status_line: bytes, proxy_url: str, problem: str
) -> None:
    _, trusting = serving_tls(tmp_path)

    async def story() -> None:
        async with (
            proxy_server(status_line) as proxy,
            client_of(
                "https://127.0.0.1:1", proxy=proxy_url or proxy.url, tls=trusting, deadline_s=0.1
            ) as client,
        ):
            with pytest.raises(Unreachable, match=problem):
                await client.request("POST", "/", body=b"{}")

    asyncio.run(story())
