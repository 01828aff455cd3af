"""How nodes stand with pods of one shape, room aside: what constraints answer to those who place pods.

That a node is ready is a constraint like any other.  All answers are vectors by node index of a ``Cluster``
and as long as its ``size``; what they say of vacant indexes does not matter.  Who answers follows the cluster
by its logs.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector


class Capacity(Enum):
    """When a pod is to be on a node; which pods it meets there depends on it."""

    IDLE = "beside all who are there, and those who were promised a place"
    FUTURE_IDLE = "when those that are being released are gone"


class InvalidationScope(Enum):
    """Which answers about nodes one pod of a shape changes for the next."""

    NONE = "none"
    ONE_PER_NODE = "its own node takes no other, and that is all"
    OWN_NODE = "perhaps those about its own node"
    OTHER_NODES = "perhaps those about other nodes too"


class SpreadScorer(Protocol):
    """How crowded nodes are with pods that would rather be spread."""

    def measure(self, among: Mask) -> Vector:
        """The fewer, the better, and -1 for nodes that do not count, when the choice is ``among`` nodes."""

    def at(self, indexes: Vector) -> "SpreadScorer":
        """The same about the nodes at ``indexes`` only, in their order."""


@dataclass(frozen=True, slots=True)
class RawScores:
    """What speaks for and against nodes, in each kind's own measure; None where it is the same for all nodes.

    Measures become points by comparing the nodes that a choice is between (``scoring``).
    """

    node_affinity: Vector | None = None  # sum of the weights of the preferred terms that match
    taints: Vector | None = None  # number of PreferNoSchedule taints that are not tolerated
    pod_affinity: Vector | None = None  # sum of weights for and against; may be negative
    spread: SpreadScorer | None = None
    images: Vector | None = None  # points, 0 to 100: the same whatever nodes the choice is between

    def at(self, indexes: Vector) -> "RawScores":
        """The same about the nodes at ``indexes`` only, in their order."""

        def pick(measure: Vector | None) -> Vector | None:
            return None if measure is None else measure[indexes]

        return RawScores(
            node_affinity=pick(self.node_affinity),
            taints=pick(self.taints),
            pod_affinity=pick(self.pod_affinity),
            spread=None if self.spread is None else self.spread.at(indexes),
            images=pick(self.images),
        )


class FilterFailure(Protocol):
    """What one constraint has against a node."""

    @property
    def reason(self) -> str: ...


class FilterResult(Protocol):
    """How the nodes stand with pods of one shape, as of when it was asked for."""

    @property
    def version(self) -> int:
        """Another one whenever any answer below is another one."""

    @property
    def invalidation_scope(self) -> InvalidationScope:
        """How far one such pod, once it is placed, changes answers for the next one."""

    @property
    def unresolvable(self) -> Mask:
        """Nodes that no eviction makes passing."""

    @property
    def permanent(self) -> Mask:
        """Those of them that time does not either, whatever happens to other pods and to claims."""

    @property
    def raw_scores(self) -> RawScores: ...

    def passing(self, capacity: Capacity) -> Mask: ...

    def failures(self, capacity: Capacity, nodes: Mask) -> Sequence[tuple[FilterFailure, int]]:
        """How many of ``nodes`` each objection stops: each counts for the first one against it."""


class Constraints(Protocol):
    """All constraints but room, on one cluster."""

    @property
    def revision(self) -> int:
        """Another one when answers may be others though the cluster has not changed."""

    def filter_result(self, shape: Shape) -> FilterResult: ...

    def anchor_domains(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        """The domains of each kind in which pods of ``followers`` must be near the next pod of ``shape``.

        By node; -1 is no domain.  None if they require no such pod near, or one that is somewhere already.
        """
