"""Nodes and pods as the filters of pod constraints read them.

A new view holds nothing.  What the cluster has is put into it in slices, between which other tasks run, and
what changes meanwhile is put into it at once.
"""

from collections.abc import Callable, Iterable
from typing import Final

from quorate.api.core.scheduling import Node
from quorate.api.core.volumes import CSINode
from quorate.api.meta import Key
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.shapes import Shape, Shapes
from quorate.placement.topology.tree import HOSTNAME
from quorate.queueing.nodes.occupants import Name, Nominated
from quorate.queueing.nodes.pod_templates import Template

SLICE_SIZE: Final = 200  # objects


HeldKey = tuple[str, Template]  # the host and the template of pods with places


class Objects:
    """Those that are not in the view yet, in the order in which they are put into it."""

    def __init__(
        self, nodes: Iterable[str], drivers: Iterable[str], pods: Iterable[Name], held: Iterable[HeldKey]
    ) -> None:
        self.nodes = dict.fromkeys(nodes)
        self.drivers = dict.fromkeys(drivers)  # by node
        self.pods = dict.fromkeys(pods)
        self.held = dict.fromkeys(held)

    def __len__(self) -> int:
        return len(self.nodes) + len(self.drivers) + len(self.pods) + len(self.held)


class ConstraintView:
    """The view, and the objects that it lacks."""

    def __init__(self, unread: Objects) -> None:
        self.unread = unread
        self.cluster = Cluster()
        self.engine = ConstraintEngine(self.cluster, PredicateArguments())
        self.shapes = Shapes()
        self.checked: dict[tuple[object, ...], Shape] = {}
        self._node_of_host: dict[str, str] = {}

    def put_node(self, node: Node) -> None:
        self.unread.nodes.pop(node.metadata.name, None)
        self.cluster.set_node(node)
        self._node_of_host[node.metadata.labels.get(HOSTNAME, "")] = node.metadata.name

    def remove_node(self, node: Node) -> None:
        name = node.metadata.name
        if name in self.unread.nodes:
            del self.unread.nodes[name]
            return
        self.cluster.remove_node(name)
        host = node.metadata.labels.get(HOSTNAME, "")
        if self._node_of_host.get(host) == name:
            del self._node_of_host[host]

    def set_drivers(self, drivers: CSINode) -> None:
        self.unread.drivers.pop(drivers.metadata.name, None)
        self.engine.set_drivers(drivers)

    def remove_drivers(self, node: str) -> None:
        self.unread.drivers.pop(node, None)
        self.engine.remove_drivers(node)

    def count(self, name: Name, shape: Shape, node: str) -> None:
        """Count a pod without a place."""
        self.unread.pods.pop(name, None)
        self.cluster.add_pod(name, shape, node, AllocationState.USED)

    def uncount(self, name: Name) -> None:
        self.unread.pods.pop(name, None)
        if name in self.cluster.occupants:
            self.cluster.remove_pod(name)

    def hold(self, key: HeldKey, pods: int, shape_of: Callable[[Template], Shape]) -> None:
        """Set how many pods of a template have places on a host; ``shape_of`` is asked for new ones."""
        held = self.cluster.occupants.get(key)
        if held is None and self.unread.nodes:
            self.unread.held[key] = None  # the node of the host may not be known yet
            return
        self.unread.held.pop(key, None)
        if held is None:
            host, template = key
            self.cluster.hold(key, shape_of(template), self._node_of_host.get(host, host), pods)
        else:
            self.cluster.hold(key, held.shape, held.node, pods)

    @property
    def pods(self) -> list[Name]:
        """The pods without a place."""
        return [name for name in self.cluster.occupants if isinstance(name, Key | Nominated)]

    @property
    def held(self) -> dict[HeldKey, int]:
        """How many pods with places are counted."""
        held: dict[HeldKey, int] = {}
        for name in self.cluster.occupants:
            match name:
                case (str(host), Template() as template):
                    held[host, template] = self.cluster.held_pods(name)
        return held
