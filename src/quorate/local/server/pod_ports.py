"""Ports of pods that are processes, as addresses to which the API server can connect.

Addresses of pods are not routed on the machine.  A listener on the loopback device passes the connections
for one port of a pod on to the kubelet.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from quorate.local.connections import relay
from quorate.local.objects.errors import StatusError
from quorate.local.server.kubelet_client import KubeletClient

LOOPBACK: Final = "127.0.0.1"
MAX_LISTENERS: Final = 64


@dataclass(frozen=True, slots=True)
class PodPort:
    """A TCP port of a pod."""

    namespace: str
    pod: str
    number: int


class PodPorts:
    """The listeners of the pod ports that were used last; ``close`` at the end."""

    def __init__(self, kubelet: KubeletClient) -> None:
        self._kubelet = kubelet
        self._listeners: dict[PodPort, asyncio.Server] = {}  # the one used last is the last

    async def address(self, port: PodPort) -> str:
        """Return the host and port at which the port of the pod is reached."""
        listener = self._listeners.pop(port, None)
        if listener is None:
            listener = await asyncio.start_server(partial(self._serve, port), LOOPBACK, 0)
        self._listeners[port] = listener
        if len(self._listeners) > MAX_LISTENERS:
            self._listeners.pop(next(iter(self._listeners))).close()
        return f"{LOOPBACK}:{listener.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()

    async def _serve(self, port: PodPort, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay a connection; close it at once if the pod does not accept one."""
        try:
            with suppress(StatusError):
                async with self._kubelet.connect(f"{port.namespace}/{port.pod}/{port.number}") as target:
                    await relay((reader, writer), target)
        finally:
            writer.close()
