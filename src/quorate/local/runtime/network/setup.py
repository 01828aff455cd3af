"""The network of the pods of a node: namespaces if this process has entered them, else the host's network."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket
from typing import Final

from yarl import URL

from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.log import logger
from quorate.kube.manager.restart import run_restarting
from quorate.local.connections import new_socket
from quorate.local.runtime.network.bridge_network import NODE_ADDRESS, BridgeNetwork
from quorate.local.runtime.network.cluster_view import ClusterView
from quorate.local.runtime.network.dns_server import DNS_PORT, DnsServer
from quorate.local.runtime.network.namespaces import is_inside, read_namespaces
from quorate.local.runtime.network.pod_files import host_resolver, write_pod_files
from quorate.local.runtime.network.service_proxy import Address, ServiceProxy, listening_socket
from quorate.local.runtime.network.types import (
    HOST_ADDRESS,
    PodNetwork,
    PodNetworkError,
    PodNetworkNamespace,
)
from quorate.local.runtime.pod_types import Pod

PODS: Final = "network"

log = logger(__name__)


class HostNetwork:
    """A ``PodNetwork`` where namespaces are not permitted: all pods share the network of the host.

    Two pods cannot listen on one port.
    """

    node_address = HOST_ADDRESS

    def __init__(self, state: Path, reason: str, api_server: tuple[str, int] = (HOST_ADDRESS, 443)) -> None:
        """``state``: the directory for files of pods; ``reason``: why there are no namespaces."""
        self._state = state
        self._api_server = api_server
        self.description = (
            f"pods share the network of the host, without addresses and service names of their own: {reason}"
        )

    async def create(self, pod: Pod) -> PodNetworkNamespace:
        return await asyncio.to_thread(self._create, pod)

    def _create(self, pod: Pod) -> PodNetworkNamespace:
        files = write_pod_files(self._state / pod.metadata.uid, pod, HOST_ADDRESS, "")
        return PodNetworkNamespace(None, HOST_ADDRESS, self._api_server, *files)

    async def release(self, uid: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self._state / uid, ignore_errors=True)

    async def open_socket(self, uid: str) -> socket:
        return new_socket()

    async def open_socket_to(self, host: str) -> socket:
        return new_socket()


@asynccontextmanager
async def run_pod_network(
    state: Path, client: Client, clock: Clock, reason: str = ""
) -> AsyncIterator[PodNetwork]:
    """Run the network of the pods until the block ends; the networks of the pods stay.

    ``state``: the directory of the runtime, with which ``enter`` was called; ``reason``: the value that
    ``enter`` returned.  ``client``: of the API server, to which connections of pods to the service
    ``kubernetes`` go.
    """
    api_server = _address(client.config.server)
    try:
        bridge = await _bridge(state, api_server, reason)
    except PodNetworkError as error:
        network = HostNetwork(state / PODS, str(error), api_server)
        log.warning("pods share the network of the host", reason=str(error))
        yield network
        return
    names = partial(_serve_names_and_services, client, bridge, api_server)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(run_restarting("names and services of pods", names, clock))
        try:
            yield bridge
        finally:
            serving.cancel()
            await bridge.close()


async def _bridge(state: Path, api_server: Address, reason: str) -> BridgeNetwork:
    """Raise ``PodNetworkError`` if there is no network of namespaces."""
    node = read_namespaces(state)
    if reason or node is None or not is_inside(node):
        raise PodNetworkError(reason or "the kubelet is not in namespaces of its own")
    bridge = BridgeNetwork(state / PODS, node, api_server)
    await bridge.start()
    return bridge


async def _serve_names_and_services(client: Client, bridge: BridgeNetwork, api_server: Address) -> None:
    cluster = ClusterView(client)
    address = (NODE_ADDRESS, DNS_PORT)
    udp = await bridge.run_in_node(lambda: _datagram_socket(address))
    tcp = await bridge.run_in_node(lambda: listening_socket(address))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cluster.run())
        await cluster.wait_synced()
        upstream = host_resolver().nameservers if bridge.has_egress else ()
        tasks.create_task(DnsServer(cluster, upstream).run(udp, tcp))
        tasks.create_task(ServiceProxy(cluster, bridge, api_server).run())


def _datagram_socket(address: Address) -> socket:
    opened = socket(AF_INET, SOCK_DGRAM)
    opened.bind(address)
    opened.setblocking(False)
    return opened


def _address(server: str) -> Address:
    url = URL(server)
    assert url.host is not None
    assert url.port is not None
    return (url.host, url.port)
