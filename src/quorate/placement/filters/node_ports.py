"""Filter by host ports: one pod at a time can use a port of a node's address.

Source: kube-scheduler's plugin NodePorts.  The address ``0.0.0.0``, which is also the default, stands for all
addresses of the node.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quorate.api.core.scheduling import ContainerPort
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Mask, np

ALL_ADDRESSES: Final = "0.0.0.0"


class HostPort(NamedTuple):
    protocol: str
    port: int
    address: str


def host_ports(ports: Iterable[ContainerPort]) -> tuple[HostPort, ...]:
    """Return the host ports of ``ports``, sorted and unique."""
    unique = {HostPort(port.protocol, port.host_port, port.host_ip or ALL_ADDRESSES) for port in ports}
    return tuple(sorted(unique))


@dataclass(slots=True)
class _Users:
    """The number of pods that use one port, by node and address."""

    staying: dict[tuple[int, str], int] = field(default_factory=dict)
    releasing: dict[tuple[int, str], int] = field(default_factory=dict)


class HostPortIndex:
    """The host ports in use on each node."""

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], _Users] = {}  # by protocol and port
        self.version = 0  # incremented with every change

    def add(self, node: int, ports: Collection[HostPort], releasing: bool, count: int) -> None:
        """Add ``count`` pods on the node that use ``ports``; remove them if it is negative."""
        self.version += 1
        for protocol, port, address in ports:
            users = self._users.setdefault((protocol, port), _Users())
            counts = users.releasing if releasing else users.staying
            left = counts.get((node, address), 0) + count
            assert left >= 0, f"port {port}/{protocol} of node {node} is released more often than used"
            if left:
                counts[node, address] = left
            else:
                del counts[node, address]
                if not users.staying and not users.releasing:
                    del self._users[protocol, port]

    def conflicts(self, ports: Collection[HostPort], size: int, capacity: Capacity) -> Mask:
        """Return the nodes on which one of ``ports`` is in use."""
        conflicts = np.zeros(size, np.bool_)
        for protocol, port, wanted in ports:
            users = self._users.get((protocol, port))
            if users is None:
                continue
            uses = (*users.staying, *(users.releasing if capacity is Capacity.IDLE else ()))
            conflicts[[node for node, used in uses if wanted == used or ALL_ADDRESSES in (wanted, used)]] = (
                True
            )
        return conflicts
