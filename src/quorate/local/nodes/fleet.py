"""The simulated Node objects, in pools of equal nodes, and their addresses."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Final

from quorate.api.codec import Json
from quorate.api.core import Taint
from quorate.api.meta import at_epoch

NODE_NETWORK: Final = IPv4Network("10.0.0.0/10")
KUBELET_VERSION: Final = "v1.36.0+quorate-simulated"
POD_NETWORK: Final = IPv4Network("10.64.0.0/10")
POOL: Final = "local.quorate.dev/pool"  # a label: the name of the pool
HEALTHY: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "simulated node is posting ready status"),
)


@dataclass(frozen=True, slots=True)
class FleetLevel:
    """Domains of nodes, such as racks: ``count`` of them in each domain of the level above."""

    label: str
    prefix: str  # of the label's values: rack for rack-1-2, the second rack of the first block
    count: int


@dataclass(frozen=True, slots=True)
class NodePool:
    """``count`` equal nodes, named node-1, node-2, ...; amounts are quantities."""

    count: int
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    # Other resources, such as nvidia.com/gpu: "8".
    extended: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[
        FleetLevel, ...
    ] = ()  # the outermost first; the domains of the last have equally many nodes
    name: str = "node"
    taints: tuple[Taint, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}-{number}" for number in range(1, self.count + 1))

    def domains(self, node: str) -> dict[str, str]:
        """Return the labels of the domains that contain a node."""
        labels: dict[str, str] = {}
        path: list[str] = []
        position, size = int(node.rpartition("-")[2]) - 1, self.count
        for level in self.levels:
            size //= level.count
            number, position = divmod(position, size)
            path.append(str(number + 1))
            labels[level.label] = f"{level.prefix}-{'-'.join(path)}"
        return labels

    def resources(self) -> dict[str, str]:
        return {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **self.extended}


def node_labels(pool: NodePool, node: str) -> dict[str, str]:
    return {**host_labels(node), POOL: pool.name, **pool.labels, **pool.domains(node)}


def host_labels(node: str) -> dict[str, str]:
    """Return the labels that a kubelet gives its node."""
    return {"kubernetes.io/hostname": node, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def node_status(node: str, address: str, now: float) -> Json:
    """Return the status that a kubelet reports, without resources."""
    moment = at_epoch(now)
    return {
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": node}],
        "conditions": [
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": moment,
                "lastTransitionTime": moment,
            }
            for type_, status, reason, message in HEALTHY
        ],
        "nodeInfo": {
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "simulated://0",
            "kernelVersion": "",
            "osImage": "simulated",
            "operatingSystem": "linux",
            "architecture": "amd64",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }


class AddressPool:
    """Assigns unique addresses of a network."""

    def __init__(self, network: IPv4Network, taken: Iterable[str]) -> None:
        # Above all addresses ever assigned, so that no address is reused while its owner exists.
        self._next = max(_within(network, taken), default=network.network_address) + 1

    def allocate(self) -> str:
        allocated = self._next
        self._next += 1
        return str(allocated)


def _within(network: IPv4Network, addresses: Iterable[str]) -> Iterator[IPv4Address]:
    """Yield the addresses of the network; any client can write other texts into a status."""
    for text in addresses:
        try:
            address = IPv4Address(text)
        except AddressValueError:
            continue
        if address in network and address != network.broadcast_address:
            yield address
