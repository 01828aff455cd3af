"""Port-forward without a cluster: connections that fail, and clients that violate the protocol."""

import asyncio
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from quorate.api.meta import Key
from quorate.kube.clock import WallClock
from quorate.local.connections import Streams
from quorate.local.runtime.containers.console import Console
from quorate.local.runtime.containers.running import ContainerLogs, RunningContainer
from quorate.local.runtime.network.bridge_network import BridgeNetwork
from quorate.local.runtime.network.namespaces import NodeNamespaces
from quorate.local.runtime.streaming import spdy
from quorate.local.runtime.streaming.port_forward import forward_over_spdy
from quorate.local.runtime.streaming.server import SOCKET, KubeletServer, serve_kubelet
from quorate.local.runtime.streaming.spdy import (
    MAX_STREAMS,
    Data,
    Frame,
    FrameReader,
    FrameWriter,
    Ping,
    ProtocolError,
)
from tests.local.runtime.streaming.test_spdy import FixedConnection

DEADLINE_S: Final = 30.0
PING: Final = spdy.ping_frame(7)


async def refuse(port: int) -> Streams:
    raise ConnectionRefusedError(f"port {port} refuses")


def serve(*pieces: bytes) -> list[Frame]:
    """Return what the server sends to a client if all its connections fail."""
    connection = FixedConnection(pieces)
    asyncio.run(asyncio.wait_for(forward_over_spdy(connection, refuse, "web"), DEADLINE_S))
    return list(FrameReader().feed(connection.written))


def open_connection(writer: FrameWriter, number: int) -> bytes:
    """Return the frames that open the error stream 4n+1 and the data stream 4n+3, as kubectl does."""
    headers = {"port": "9", "requestid": str(number)}
    error = writer.new_stream(4 * number + 1, headers | {"streamtype": "error"}, fin=True)
    return error + writer.new_stream(4 * number + 3, headers | {"streamtype": "data"})


def test_bytes_for_a_connection_that_has_failed_hold_up_no_other() -> None:
    large = spdy.data_frame(3, bytes(spdy.MAX_DATA_BYTES))
    sent = serve(open_connection(FrameWriter(), 0), large, large, large, PING)
    assert Data(1, b"error forwarding port 9 to pod web: port 9 refuses", False) in sent
    assert Ping(7) in sent


def test_one_client_may_open_any_number_of_connections_one_after_another() -> None:
    writer = FrameWriter()
    connections = (
        open_connection(writer, number)
        + spdy.data_frame(4 * number + 3, b"lost")
        + spdy.reset_frame(4 * number + 3, 5)
        for number in range(MAX_STREAMS)
    )
    assert Ping(7) in serve(*connections, PING)


def test_bytes_that_are_no_frames_end_the_connection() -> None:
    with pytest.raises(ProtocolError):
        serve(b"GET / HTTP/1.1\r\n\r\n")


class EndedPod:
    """A node with one pod, of which no process and no network is left."""

    uid = "uid"

    def pod(self, namespace: str, name: str) -> "EndedPod":
        return self

    def pod_key(self, uid: str) -> Key | None:
        return Key("team", "web")

    def running(self, container: str) -> RunningContainer | None:
        return None

    def console(self, container: str) -> Console | None:
        return None

    def logs(self, container: str) -> ContainerLogs | None:
        return None


def test_the_client_learns_that_the_pod_has_no_network_any_more(tmp_path: Path) -> None:
    async def run() -> bytes:
        node = NodeNamespaces(pid=1, start_time=0, user_namespace=False)
        network = BridgeNetwork(tmp_path / "network", node, ("127.0.0.1", 443))
        server = KubeletServer(tmp_path, EndedPod(), network, WallClock())
        connector = aiohttp.UnixConnector(str(tmp_path / SOCKET))
        async with (
            serve_kubelet(tmp_path, server),
            aiohttp.ClientSession("http://kubelet", connector=connector) as http,
            http.ws_connect("/portForward/team/web?ports=80", protocols=["v4.channel.k8s.io"]) as websocket,
            asyncio.timeout(DEADLINE_S),
        ):
            received = [message.data async for message in websocket]
        await network.close()
        return bytes(received[-1])

    assert asyncio.run(run()).startswith(b"\x01error forwarding port 80 to pod uid: [Errno 2] No such file")
