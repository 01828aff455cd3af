"""HTTP probes of a server on this machine: a redirect within the host leads to what decides."""

import asyncio
from pathlib import Path

import pytest

from quorate.api import codec
from quorate.local.runtime.containers.running import RunningContainer
from quorate.local.runtime.network.setup import HostNetwork
from quorate.local.runtime.pod_types import Container, Probe
from quorate.local.runtime.pods.probes import HandlerResult, ProbeTarget, run_handler

PAGES = {
    "/ok": "200 OK",
    "/broken": "500 Internal Server Error",
    "/to-ok?x=1": "302 Found\r\nLocation: /ok",
    "/to-broken": "301 Moved Permanently\r\nlocation: http://127.0.0.1:{port}/broken",
    "/around": "307 Temporary Redirect\r\nLocation: /around",
    "/away": "302 Found\r\nLocation: http://0.0.0.0/",
    "/nowhere": "304 Not Modified",
}


async def result_of(path: str) -> HandlerResult:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        page = PAGES[head.split(b" ")[1].decode()].format(port=port)
        writer.write(f"HTTP/1.1 {page}\r\n\r\nbody".encode())
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    probe = codec.convert(Probe, {"httpGet": {"path": path, "port": port}})
    container = codec.convert(Container, {"name": "c", "image": "i"})
    target = ProbeTarget(container, RunningContainer(0, {}, "/"), "127.0.0.1", HostNetwork(Path(), "off"))
    async with server:
        return await run_handler(probe, target, 10)


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/ok", HandlerResult(True)),
        ("/broken", HandlerResult(False, "HTTP probe failed with statuscode: 500")),
        ("/to-ok?x=1", HandlerResult(True)),
        ("/to-broken", HandlerResult(False, "HTTP probe failed with statuscode: 500")),
        ("/away", HandlerResult(True, warning="Probe terminated redirects, Response body: body")),
        ("/nowhere", HandlerResult(True, warning="Probe terminated redirects, Response body: body")),
    ],
)
def test_a_redirect_within_the_host_is_followed(path: str, want: HandlerResult) -> None:
    assert asyncio.run(result_of(path)) == want


def test_redirects_have_an_end() -> None:
    result = asyncio.run(result_of("/around"))
    assert (result.succeeded, result.output.endswith("stopped after 10 redirects")) == (False, True)
