"""The interface between the code that filters nodes and the code that chooses among them.

All filters except resource fit are behind ``Constraints``; that a node is ready is one of them.  All results
are vectors by node index of a ``Cluster``, as long as its ``size``; their values at vacant indexes are
undefined.  An implementation follows the cluster by its change logs.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from quorate.placement.failures import FilterFailure
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector


class Capacity(Enum):
    """The capacity a pod is to take, and with it the pods it shares the node with."""

    IDLE = "idle: with all pods on the node, and those pipelined to it"
    FUTURE_IDLE = "future idle: without the releasing pods"

    __hash__ = object.__hash__  # members are singletons, and keys of dicts that are read for each pod


class InvalidationScope(Enum):
    """The results that placing one pod of a shape changes for the next one."""

    NONE = "none"
    ONE_PER_NODE = "its own node takes no second pod of the shape; nothing else changes"
    OWN_NODE = "those of its own node may change"
    OTHER_NODES = "those of other nodes may change too"


class SpreadScorer(Protocol):
    """Raw scores for topology spread constraints that are only preferred (``ScheduleAnyway``)."""

    def score(self, among: Mask) -> Vector:
        """Return raw scores for a choice ``among`` nodes.

        Lower is better; -1 for nodes outside all domains.
        """

    def at(self, indexes: Vector) -> "SpreadScorer":
        """Return a scorer for only the nodes at ``indexes``, in that order."""


@dataclass(frozen=True, slots=True)
class RawScores:
    """Scores by node before normalization, as kube-scheduler's score plugins return them.

    None means that all nodes have the same score.  ``scoring`` normalizes a score over the nodes among which
    the choice is.
    """

    node_affinity: Vector | None = None  # sum of the weights of the preferred terms that match
    taints: Vector | None = None  # number of PreferNoSchedule taints that are not tolerated
    pod_affinity: Vector | None = None  # sum of the weights of pod affinity terms; may be negative
    spread: SpreadScorer | None = None
    images: Vector | None = None  # 0 to 100, the same whatever nodes the choice is among
    node_groups: Vector | None = None  # in millionths of a point, without a weight; likewise

    def at(self, indexes: Vector) -> "RawScores":
        """Return the scores of only the nodes at ``indexes``, in that order."""

        def pick(scores: Vector | None) -> Vector | None:
            return None if scores is None else scores[indexes]

        return RawScores(
            node_affinity=pick(self.node_affinity),
            taints=pick(self.taints),
            pod_affinity=pick(self.pod_affinity),
            spread=None if self.spread is None else self.spread.at(indexes),
            images=pick(self.images),
        )


class FilterResult(Protocol):
    """Filter results of every node for one pod shape, as of the call that returned it."""

    @property
    def version(self) -> int:
        """A number that differs whenever any other member differs."""

    @property
    def failures_key(self) -> Hashable:
        """Results with equal keys, of whatever shapes, reject the same nodes for the same reasons.

        This is about ``permanent``, and about the other results at future idle capacity.
        """

    @property
    def invalidation_scope(self) -> InvalidationScope:
        """The results that placing one such pod changes for the next one."""

    @property
    def unresolvable(self) -> Mask:
        """Nodes that preemption cannot make pass (``UnschedulableAndUnresolvable``)."""

    @property
    def permanent(self) -> Mask:
        """Unresolvable nodes that no change of other pods, claims or node conditions can make pass."""

    @property
    def raw_scores(self) -> RawScores: ...

    def passing(self, capacity: Capacity) -> Mask: ...

    def failure_counts(self, capacity: Capacity, nodes: Mask) -> Sequence[tuple[FilterFailure, int]]:
        """Return how many of ``nodes`` each failure rejects; a node counts for its first failure."""


class Constraints(Protocol):
    """All filters except resource fit, on one cluster."""

    @property
    def revision(self) -> int:
        """A number that changes when results may change although the cluster has not changed."""

    def filter(self, shape: Shape) -> FilterResult: ...

    def anchor_domains(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        """Return the topology domains that the next pod of ``shape`` fixes for others.

        One vector per topology key to which the required affinity of ``followers`` binds them, with the
        number of each node's domain, or -1 for none.  Empty if they require no such pod in their domain, or
        if one is placed already.
        """
