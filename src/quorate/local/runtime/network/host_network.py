"""The fallback where network namespaces are not permitted: all pods share the network of the host."""

import asyncio
import shutil
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, socket
from typing import Final

from quorate.local.runtime.network.pod_files import (
    ResolverConfiguration,
    hosts_text,
    parse_resolv_conf,
    resolver_configuration,
)
from quorate.local.runtime.network.types import PodNetworkNamespace, PodNetworkRequest

HOST_ADDRESS: Final = "127.0.0.1"
HOSTS: Final = Path("/etc/hosts")
RESOLV_CONF: Final = Path("/etc/resolv.conf")


class HostNetwork:
    """A ``PodNetwork`` without namespaces: two pods cannot listen on one port."""

    node_address = HOST_ADDRESS

    def __init__(self, state: Path, reason: str, api_server: tuple[str, int] = (HOST_ADDRESS, 443)) -> None:
        """``state``: the directory for files of pods; ``reason``: why there are no namespaces."""
        self._state = state
        self._api_server = api_server
        self.description = (
            f"pods share the network of the host, without addresses and service names of their own: {reason}"
        )

    async def create(self, request: PodNetworkRequest) -> PodNetworkNamespace:
        return await asyncio.to_thread(self._create, request)

    def _create(self, request: PodNetworkRequest) -> PodNetworkNamespace:
        files = write_pod_files(self._state / request.uid, request, HOST_ADDRESS, "")
        return PodNetworkNamespace(None, HOST_ADDRESS, self._api_server, *files)

    async def release(self, uid: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self._state / uid, ignore_errors=True)

    async def open_socket(self, uid: str) -> socket:
        return new_socket()

    async def open_socket_to(self, host: str) -> socket:
        return new_socket()


def new_socket() -> socket:
    """Return a TCP socket in the network of the calling thread, not connected, not blocking."""
    opened = socket(AF_INET, SOCK_STREAM)
    opened.setblocking(False)
    return opened


def write_pod_files(
    directory: Path, request: PodNetworkRequest, address: str, cluster_server: str
) -> tuple[Path, Path]:
    """Write the hosts file and the resolv.conf of a pod; return their paths."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    hosts, resolv_conf = directory / "hosts", directory / "resolv.conf"
    hosts.write_text(hosts_text(request, address, _read(HOSTS)))
    resolv_conf.write_text(resolver_configuration(request, cluster_server, host_resolver()).to_text())
    return hosts, resolv_conf


def host_resolver() -> ResolverConfiguration:
    """Return the resolv.conf of the host."""
    return parse_resolv_conf(_read(RESOLV_CONF))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # a machine without the file
        return ""
