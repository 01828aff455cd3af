"""The simulated Node objects, in pools of equal nodes, their addresses, and their registration."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import Taint
from quorate.api.meta import Condition, Key, ObjectMeta, Struct, at_epoch, find_condition
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import Resource
from quorate.local.nodes.behavior import PREFIX

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


ORIGIN: Final = PREFIX + "node"  # an annotation of the nodes with simulated pods
OF_POOL: Final = "pool"  # its value for nodes of pools
POOL_TAINTS: Final = PREFIX + "pool-taints"  # an annotation: the taints of the pool, others are a user's
NOT_READY: Final = "node.kubernetes.io/not-ready"
LEASE_NAMESPACE: Final = "kube-node-lease"
WORKERS: Final = 16


class NodeAddress(Struct):
    type: str
    address: str


class NodeSpec(Struct):
    taints: tuple[Json, ...] = ()


class NodeStatus(Struct):
    capacity: Json = msgspec.field(default_factory=dict)
    allocatable: Json = msgspec.field(default_factory=dict)
    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Node(Struct):
    """The fields of a node that its kubelet reads."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def address(self) -> str:
        """Return the internal address; empty before the kubelet has reported one."""
        return next(
            (address.address for address in self.status.addresses if address.type == "InternalIP"), ""
        )

    @property
    def is_simulated(self) -> bool:
        return ORIGIN in self.metadata.annotations


NODES: Final = Resource("", "v1", "nodes", "Node", False, Node)


class NodeRegistrar:
    """Creates and updates the nodes of pools, as starting kubelets do, and reports all simulated nodes ready.

    A node that is in no pool any more is deleted, because its pool has shrunk.

    A node is updated once after the start: what other clients change afterwards stays until the next start.
    ``registered`` is set once all nodes of the pools are registered.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pools: Sequence[NodePool],
        nodes: Informer[Node],
        registered: asyncio.Event,
    ) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes
        self._unregistered = {name: pool for pool in pools for name in pool.node_names}
        self._registered = registered
        self._addresses: dict[str, str] = {}  # of nodes of pools
        self._free_addresses = AddressPool(NODE_NETWORK, ())
        self._reconciler = Reconciler("node", self._reconcile, clock, WORKERS)

    async def run(self) -> None:
        """Run until cancelled; the informer must have synced."""
        addresses = {node.metadata.name: node.address for node in self._nodes if node.address}
        self._free_addresses = AddressPool(NODE_NETWORK, addresses.values())
        for name in self._unregistered:
            self._addresses[name] = addresses.get(name) or self._free_addresses.allocate()
            self._reconciler.enqueue(Key("", name))
        for node in self._nodes:
            name, origin = node.metadata.name, node.metadata.annotations.get(ORIGIN)
            if origin == OF_POOL and name not in self._unregistered:
                await self._delete(node.metadata.key)
        self._nodes.subscribe(self._on_node)
        self._set_registered()
        await self._reconciler.run()

    def _on_node(self, change: Change[Node]) -> None:
        if change.new is not None and _awaits_kubelet(change.new):
            self._reconciler.enqueue(change.key)

    async def _reconcile(self, key: Key) -> None:
        pool = self._unregistered.get(key.name)
        node = self._nodes.get(key)
        if pool is not None:
            await register(self._client, self._clock, pool, key.name, self._addresses[key.name], node)
            del self._unregistered[key.name]
            self._set_registered()
        elif node is not None and _awaits_kubelet(node):
            missing = host_labels(key.name).keys() - node.metadata.labels.keys()
            if missing:
                labels = {label: host_labels(key.name)[label] for label in missing}
                node = await self._client.patch(NODES, key, {"metadata": {"labels": labels}})
            address = node.address or self._free_addresses.allocate()
            status = node_status(key.name, address, self._clock.now())
            status["capacity"] = node.status.capacity or node.status.allocatable
            status["allocatable"] = node.status.allocatable or node.status.capacity
            await _report_ready(self._client, node, status, _other_taints(node, {}))

    def _set_registered(self) -> None:
        if not self._unregistered:
            self._registered.set()

    async def _delete(self, key: Key) -> None:
        with suppress(NotFound):
            await self._client.delete(NODES, key)


def _awaits_kubelet(node: Node) -> bool:
    """Return True if a simulated node was never reported."""
    return node.is_simulated and find_condition(node.status.conditions, "Ready") is None


async def register(
    client: Client, clock: Clock, pool: NodePool, name: str, address: str, existing: Node | None = None
) -> None:
    """Create a node of a pool, or update ``existing``, and report it ready."""
    taints: list[Json] = [codec.to_builtins(taint) for taint in pool.taints]
    written = ",".join(_taint_text(taint) for taint in taints)
    metadata = {"labels": node_labels(pool, name), "annotations": {ORIGIN: OF_POOL, POOL_TAINTS: written}}
    node = await client.apply(NODES, Key("", name), {"metadata": metadata})
    before = "" if existing is None else existing.metadata.annotations.get(POOL_TAINTS, "")
    others = _other_taints(node, {*before.split(","), *written.split(",")})
    status = node_status(name, address, clock.now())
    status["capacity"] = status["allocatable"] = replacing(node.status.capacity, pool.resources())
    await _report_ready(client, node, status, [*taints, *others])


def replacing(before: Iterable[str], amounts: Mapping[str, str]) -> dict[str, str | None]:
    """Return a merge patch that removes the resources that ``amounts`` lacks."""
    return {**dict.fromkeys(before), **amounts}


def _other_taints(node: Node, replaced: Collection[str]) -> list[Json]:
    """Return the taints of a node without ``replaced`` and without the taint of nodes that are not ready."""
    return [
        taint
        for taint in node.spec.taints
        if taint["key"] != NOT_READY and _taint_text(taint) not in replaced
    ]


def _taint_text(taint: Json) -> str:
    return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"


async def _report_ready(client: Client, node: Node, status: Json, taints: list[Json]) -> None:
    await client.patch(NODES, node.metadata.key, {"status": status}, subresource="status")
    if list(node.spec.taints) != taints:
        # The API server taints new nodes. Elsewhere the node lifecycle controller removes that taint.
        await client.patch(NODES, node.metadata.key, {"spec": {"taints": taints or None}})
