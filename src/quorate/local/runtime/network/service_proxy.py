"""The addresses of services: connections to them go to ready endpoints, as with kube-proxy.

Each port of a service with a ready endpoint is a listening socket in the network of the node; without one the
kernel refuses connections at once. A node port also listens on the loopback device of the host. TCP only.
"""

import asyncio
import ipaddress
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from typing import Final

from quorate.api.meta import Key
from quorate.kube.log import logger
from quorate.local.connections import CONNECT_TIMEOUT_S, Streams, connect, relay
from quorate.local.controllers.services import HEADLESS, Service
from quorate.local.runtime.network.bridge_network import NODE_ADDRESS, BridgeNetwork
from quorate.local.runtime.network.cluster_view import ClusterView, PortedEndpoint
from quorate.local.runtime.network.types import API_SERVICE, HOST_ADDRESS

Address = tuple[str, int]

MAX_CONNECTIONS: Final = 4096

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """Where connections to one port of a service go."""

    endpoints: tuple[Address, ...]
    by_client: bool = False  # sessionAffinity ClientIP: all connections of a client go to one endpoint

    def choose(self, client: str) -> Address:
        if self.by_client:
            return self.endpoints[int(ipaddress.IPv4Address(client)) % len(self.endpoints)]
        return random.choice(self.endpoints)


def targets(service: Service, endpoints: list[PortedEndpoint]) -> dict[Address, Target]:
    """Return the targets of the addresses of a service that have a ready endpoint."""
    spec = service.spec
    if spec.type == "ExternalName" or spec.cluster_ip in ("", HEADLESS):
        return {}
    by_address: dict[Address, Target] = {}
    for port in spec.ports:
        backends = tuple(_backends(endpoints, port.name))
        if port.protocol != "TCP" or not backends:
            continue
        target = Target(backends, spec.session_affinity == "ClientIP")
        by_address[spec.cluster_ip, port.port] = target
        if port.node_port:
            by_address[NODE_ADDRESS, port.node_port] = by_address[HOST_ADDRESS, port.node_port] = target
    return by_address


def _backends(endpoints: list[PortedEndpoint], port_name: str) -> Iterator[Address]:
    for ported in endpoints:
        for port in ported.ports:
            if port.name == port_name and port.port is not None:
                yield ported.endpoint.addresses[0], port.port


class ServiceProxy:
    """Listens on addresses of services in the network of the node."""

    def __init__(self, cluster: ClusterView, network: BridgeNetwork, api_server: Address) -> None:
        """``api_server``: its address in the network of the host, for the service ``kubernetes``."""
        self._cluster = cluster
        self._network = network
        self._api_server = api_server
        self._targets: dict[Address, Target] = {}
        self._servers: dict[Address, asyncio.Server] = {}
        self._of_service: dict[Key, tuple[Address, ...]] = {}
        self._changed: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._connections = 0

    async def run(self) -> None:
        """Follow the services until cancelled."""
        self._cluster.subscribe(self._on_change)
        try:
            while True:
                key = await self._changed.get()
                self._queued.discard(key)
                await self._update(key)
        finally:
            for server in self._servers.values():
                server.close()

    def _on_change(self, key: Key) -> None:
        if key not in self._queued:
            self._queued.add(key)
            self._changed.put_nowait(key)

    async def _update(self, key: Key) -> None:
        wanted = self._wanted(key)
        for address in self._of_service.get(key, ()):
            if address not in wanted:
                del self._targets[address]
                self._servers.pop(address).close()
        listening = []
        for address, target in wanted.items():
            self._targets[address] = target
            if address in self._servers or await self._listen(address):
                listening.append(address)
        self._of_service[key] = tuple(listening)

    def _wanted(self, key: Key) -> Mapping[Address, Target]:
        service = self._cluster.service(key)
        if service is None:
            return {}
        if key == API_SERVICE:
            ports = [port.port for port in service.spec.ports]
            return {(service.spec.cluster_ip, port): Target((self._api_server,)) for port in ports}
        return targets(service, list(self._cluster.endpoints(key)))

    async def _listen(self, address: Address) -> bool:
        """Return False, and log why, if the address cannot be used."""
        try:
            if address[0] == HOST_ADDRESS:
                listening = listening_socket(address)
            else:
                listening = await self._network.run_in_node(lambda: listening_socket(address))
        except OSError as error:
            log.warning("service address unusable", address=f"{address[0]}:{address[1]}", error=str(error))
            self._targets.pop(address, None)
            return False

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(address, (reader, writer))

        self._servers[address] = await asyncio.start_server(accept, sock=listening)
        return True

    async def _serve(self, address: Address, client: Streams) -> None:
        target = self._targets.get(address)
        if target is None or self._connections >= MAX_CONNECTIONS:
            client[1].close()
            return
        self._connections += 1
        try:
            backend = await self._connect(target, client)
            await relay(client, backend)
        except OSError:
            client[1].transport.abort()  # the client sees a reset, as from a host without the process
        finally:
            self._connections -= 1

    async def _connect(self, target: Target, client: Streams) -> Streams:
        """Connect to an endpoint; skip an endpoint that refuses, since its pod may have just ended."""
        remaining = target
        peer = client[1].get_extra_info("peername")[0]
        while True:
            chosen = remaining.choose(peer)
            others = tuple(address for address in remaining.endpoints if address != chosen)
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await self._open(chosen)
            except OSError:
                if not others:
                    raise
                remaining = replace(remaining, endpoints=others)

    async def _open(self, address: Address) -> Streams:
        return await connect(await self._network.open_socket_to(address[0]), address)


def listening_socket(address: Address) -> socket:
    """Return a listening TCP socket in the network of this thread."""
    opened = socket(AF_INET, SOCK_STREAM)
    try:
        opened.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(1024)
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened
