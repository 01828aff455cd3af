"""What the kubelet asks of the network of its pods."""

from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Final, Protocol

from quorate.api.meta import Key
from quorate.local.runtime.pod_types import Pod

HOST_ADDRESS: Final = "127.0.0.1"
API_SERVICE: Final = Key("default", "kubernetes")
"""The service through which pods reach the API server."""


@dataclass(frozen=True, slots=True)
class PodNetworkNamespace:
    """The network of one pod, the same for all its containers."""

    path: Path | None  # of the network namespace, for setns; None: the kubelet's own, which is the host's
    address: str
    api_server: tuple[str, int]  # host and port at which processes of the pod reach the API server
    hosts: Path  # content of /etc/hosts
    resolv_conf: Path  # content of /etc/resolv.conf


class PodNetworkError(Exception):
    """The network of a pod cannot be made; the message is for an event of the pod."""


class PodNetwork(Protocol):
    """Makes and releases the networks of pods."""

    @property
    def description(self) -> str:
        """Return one sentence for users: which network pods have, and what is not available."""

    @property
    def node_address(self) -> str:
        """Return the address of the node, which pods with the network of the host also have."""

    async def create(self, pod: Pod) -> PodNetworkNamespace:
        """Return the network of a pod, created at the first call for its uid; it survives the kubelet.

        Raises ``PodNetworkError``.
        """

    async def release(self, uid: str) -> None:
        """End the network of a pod, if it has one; no process of the pod may run any more."""

    async def open_socket(self, uid: str) -> socket:
        """Return a new TCP socket in the network of a pod, not connected, not blocking.

        Raises OSError if the pod has no network.
        """

    async def open_socket_to(self, host: str) -> socket:
        """Return a new TCP socket that can connect to ``host``, not connected, not blocking.

        Addresses of pods and services are reached from the network of the node.  All other addresses are
        reached from the network of the machine, which pods with ``hostNetwork`` share.
        """
