"""Which nodes the node-only demands of a pod leave, and which of them a topology spread counts."""

from dataclasses import dataclass
from typing import Final

from quorate.api.core import NodeSelector
from quorate.placement.constraints.node_affinity import selected
from quorate.placement.constraints.nodes import NodeFacts
from quorate.placement.constraints.objections import Mask
from quorate.placement.constraints.taints import Tolerations, tolerable


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Nodes that take part in counting: those with all ``keys`` that pass the demands given."""

    keys: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()
    affinity: NodeSelector | None = None
    tolerations: Tolerations | None = None  # None: taints do not matter

    def nodes(self, nodes: NodeFacts) -> Mask:
        included = selected(nodes, self.labels, self.affinity)
        for key in self.keys:
            included &= nodes.label(key).present()
        if self.tolerations is not None:
            included &= tolerable(nodes, self.tolerations)
        return included


EVERYWHERE: Final = Inclusion()
