"""The filters of pod constraints over the cluster of the topology model.

A new view reads nothing.  The filters read the nodes, and the pods and places get what filters read of them,
in slices, between which other tasks run; what changes meanwhile is read at once.
"""

from collections.abc import Iterable
from typing import Final

from quorate.api.core.volumes import CSINode
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.cluster import Cluster
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.shapes import Shape
from quorate.queueing.nodes.occupants import Name
from quorate.queueing.nodes.pod_templates import Template

SLICE_SIZE: Final = 200  # objects


HeldKey = tuple[str, Template]  # the host and the template of pods with places


class ConstraintView:
    """The filters, and what they have not read yet, in the order in which they do."""

    def __init__(
        self, cluster: Cluster, drivers: Iterable[str], pods: Iterable[Name], held: Iterable[HeldKey]
    ) -> None:
        self.cluster = cluster
        self.engine = ConstraintEngine(cluster, PredicateArguments())
        self.checked: dict[tuple[object, ...], Shape] = {}
        self.has_rows = False  # the filters have read all nodes
        self.drivers = dict.fromkeys(drivers)  # not read, by node
        self.pods = dict.fromkeys(pods)  # not read
        self.held = dict.fromkeys(held)  # not read

    @property
    def is_complete(self) -> bool:
        return self.has_rows and not (self.drivers or self.pods or self.held)

    def set_drivers(self, drivers: CSINode) -> None:
        self.drivers.pop(drivers.metadata.name, None)
        self.engine.set_drivers(drivers)

    def remove_drivers(self, node: str) -> None:
        self.drivers.pop(node, None)
        self.engine.remove_drivers(node)
