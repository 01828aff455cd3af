"""Ports of pods on the loopback device of the host."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from socket import socket

from quorate.local.runtime.network.host_network import HOST_ADDRESS
from quorate.local.runtime.network.types import PodNetworkError
from quorate.local.runtime.relay import CONNECT_TIMEOUT_S, Streams, connect, relay


class HostPorts:
    """Listens for the pods of a node, and relays connections to them."""

    def __init__(self, open_socket: Callable[[], Awaitable[socket]]) -> None:
        """``open_socket`` returns a socket in the network of the node."""
        self._open_socket = open_socket
        self._servers: dict[str, list[asyncio.Server]] = {}  # by uid of the pod

    async def open(self, uid: str, address: str, ports: Mapping[int, int]) -> None:
        """Listen on the ports of the host for a pod.  Raises ``PodNetworkError`` if one is in use."""
        if uid in self._servers:
            return
        servers = self._servers[uid] = []
        for host_port, port in ports.items():
            serve = partial(self._serve, (address, port))
            try:
                servers.append(await asyncio.start_server(serve, HOST_ADDRESS, host_port))
            except OSError as error:
                self.close(uid)
                problem = os.strerror(error.errno).lower() if error.errno else str(error)
                raise PodNetworkError(f"cannot open hostPort {host_port}: {problem}") from error

    def close(self, uid: str) -> None:
        for server in self._servers.pop(uid, ()):
            server.close()

    def close_all(self) -> None:
        for uid in list(self._servers):
            self.close(uid)

    async def _serve(
        self, target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await relay((reader, writer), await self._connect(target))
        except OSError:
            writer.transport.abort()  # the client sees a reset, as from a host without the process

    async def _connect(self, target: tuple[str, int]) -> Streams:
        opened = await self._open_socket()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await connect(opened, target)
