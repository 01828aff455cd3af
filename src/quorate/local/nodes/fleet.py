"""The simulated Node objects and their addresses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any, Final

from quorate.api.meta import Key, at_epoch
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists
from quorate.kube.resources import NODES

Json = dict[str, Any]

FIRST_NODE_ADDRESS: Final = IPv4Address("10.0.0.1")
FIRST_POD_ADDRESS: Final = IPv4Address("10.64.0.1")
NOT_READY: Final = "node.kubernetes.io/not-ready"
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
class Fleet:
    """``count`` equal nodes, named node-1, node-2, ...; amounts are quantities."""

    count: int
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    # Extended resources, such as nvidia.com/gpu: "8".
    extended: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[
        FleetLevel, ...
    ] = ()  # the outermost first; the domains of the last have equally many nodes

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"node-{number}" for number in range(1, self.count + 1))

    def address(self, name: str) -> str:
        return str(FIRST_NODE_ADDRESS + _number(name) - 1)

    def domains(self, name: str) -> dict[str, str]:
        """Return the labels of the domains that contain a node."""
        labels: dict[str, str] = {}
        path: list[str] = []
        position, size = _number(name) - 1, self.count
        for level in self.levels:
            size //= level.count
            number, position = divmod(position, size)
            path.append(str(number + 1))
            labels[level.label] = f"{level.prefix}-{'-'.join(path)}"
        return labels

    def resources(self) -> dict[str, str]:
        return {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **self.extended}


def _number(name: str) -> int:
    return int(name.removeprefix("node-"))


def node_labels(fleet: Fleet, name: str) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **fleet.labels,
        **fleet.domains(name),
    }


def node_status(fleet: Fleet, name: str, now: float) -> Json:
    moment = at_epoch(now)
    return {
        "capacity": fleet.resources(),
        "allocatable": fleet.resources(),
        "addresses": [
            {"type": "InternalIP", "address": fleet.address(name)},
            {"type": "Hostname", "address": name},
        ],
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
            "kubeletVersion": "simulated",
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


async def register(client: Client, clock: Clock, fleet: Fleet, name: str) -> None:
    """Create or update one Node object and report it ready, as a starting kubelet does."""
    key = Key("", name)
    metadata = {"labels": node_labels(fleet, name)}
    status = node_status(fleet, name, clock.now())
    try:
        node = await client.create(NODES, {"metadata": {"name": name, **metadata}, "status": status})
    except AlreadyExists:
        await client.patch(NODES, key, {"metadata": metadata})
        node = await client.patch(NODES, key, {"status": status}, subresource="status")
    if any(taint.key == NOT_READY for taint in node.spec.taints):
        # The API server taints new nodes. Elsewhere the node lifecycle controller removes the taint.
        left = [taint for taint in node.spec.taints if taint.key != NOT_READY]
        await client.patch(NODES, key, {"spec": {"taints": left or None}})


class PodAddressPool:
    """Assigns unique addresses to pods."""

    def __init__(self, taken: Iterable[str]) -> None:
        # Above all addresses ever assigned, so that no address is reused while its pod exists.
        self._next = max((IPv4Address(address) + 1 for address in taken), default=FIRST_POD_ADDRESS)

    def allocate(self) -> str:
        allocated = self._next
        self._next += 1
        return str(allocated)
