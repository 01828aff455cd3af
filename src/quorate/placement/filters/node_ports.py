"""Host ports: a port of a node's address can be had by one pod at a time.

Source: kube-scheduler's NodePorts.  The address ``0.0.0.0``, which is also meant where none is given, stands
for all addresses of the node.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from quorate.api.core.scheduling import ContainerPort
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Mask

EVERY_ADDRESS: Final = "0.0.0.0"


class HostPort(NamedTuple):
    protocol: str
    port: int
    address: str


def host_ports(ports: Iterable[ContainerPort]) -> tuple[HostPort, ...]:
    """What ``ports`` take of the node, in order, each once."""
    wanted = {HostPort(port.protocol, port.host_port, port.host_ip or EVERY_ADDRESS) for port in ports}
    return tuple(sorted(wanted))


@dataclass(slots=True)
class _Uses:
    """By whom one port is used: how many pods, by node and address."""

    staying: dict[tuple[int, str], int] = field(default_factory=dict)
    releasing: dict[tuple[int, str], int] = field(default_factory=dict)


class HostPortIndex:
    """Which ports are in use on which nodes."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, int], _Uses] = {}
        self.version = 0  # moves with every change

    def add(self, node: int, ports: Collection[HostPort], releasing: bool, count: int) -> None:
        """Note that ``count`` more pods, or fewer if it is negative, use ``ports`` of the node."""
        self.version += 1
        for protocol, port, address in ports:
            uses = self._uses.setdefault((protocol, port), _Uses())
            users = uses.releasing if releasing else uses.staying
            left = users.get((node, address), 0) + count
            assert left >= 0, f"port {port}/{protocol} of node {node} is given back once too often"
            if left:
                users[node, address] = left
            else:
                del users[node, address]
                if not uses.staying and not uses.releasing:
                    del self._uses[protocol, port]

    def taken(self, ports: Collection[HostPort], size: int, capacity: Capacity) -> Mask:
        """The nodes on which one of ``ports`` cannot be had."""
        taken = np.zeros(size, np.bool_)
        for protocol, port, wanted in ports:
            uses = self._uses.get((protocol, port))
            if uses is None:
                continue
            users = (*uses.staying, *(uses.releasing if capacity is Capacity.IDLE else ()))
            taken[[node for node, used in users if wanted == used or EVERY_ADDRESS in (wanted, used)]] = True
        return taken
