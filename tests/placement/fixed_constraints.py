"""Constraints with fixed results: given nodes are rejected, and given nodes are preferred."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.failures import FilterFailure, Remedy
from quorate.placement.framework import Capacity, FilterResult, InvalidationScope, RawScores
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector

UNRESOLVABLE = FilterFailure(Remedy.OTHER_NODES, "rejected for good")


class FixedConstraints:
    """``rejected`` and ``node_affinity`` are by node name, and the same for all shapes.

    A failure in ``until_released`` applies at idle capacity only, as if a releasing pod caused it.
    """

    def __init__(
        self,
        cluster: Cluster,
        rejected: Mapping[str, FilterFailure] | None = None,
        node_affinity: Mapping[str, int] | None = None,
        invalidation_scope: InvalidationScope = InvalidationScope.NONE,
        until_released: Collection[FilterFailure] = (),
    ) -> None:
        self.cluster = cluster
        self.rejected = dict(rejected or {})
        self.node_affinity = dict(node_affinity or {})
        self.invalidation_scope = invalidation_scope
        self.until_released = frozenset(until_released)

    @property
    def revision(self) -> int:
        return hash((tuple(self.rejected.items()), tuple(self.node_affinity.items())))

    def filter(self, shape: Shape) -> FilterResult:
        return _FixedResult(self)

    def anchor_domains(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        return ()


class _FixedResult:
    def __init__(self, constraints: FixedConstraints) -> None:
        self._constraints = constraints
        self.invalidation_scope = constraints.invalidation_scope
        # Differs for other rejections, other preferences and other nodes.
        cluster = constraints.cluster
        named = tuple((name, cluster.index(name)) for name in sorted(cluster.names()))
        self.version = hash((named, constraints.revision))

    @property
    def failures_key(self) -> int:
        return self.version

    @property
    def unresolvable(self) -> Mask:
        rejected = self._constraints.rejected.items()
        return self._mask({name for name, failure in rejected if failure.remedy is not Remedy.PREEMPTION})

    @property
    def permanent(self) -> Mask:
        return self.unresolvable

    @property
    def raw_scores(self) -> RawScores:
        if not self._constraints.node_affinity:
            return RawScores()
        weights = np.zeros(self._constraints.cluster.size, np.int64)
        for name, weight in self._constraints.node_affinity.items():
            index = self._constraints.cluster.index(name)
            if index is not None:
                weights[index] = weight
        return RawScores(node_affinity=weights)

    def passing(self, capacity: Capacity) -> Mask:
        return ~self._mask(
            {
                name
                for name, failure in self._constraints.rejected.items()
                if capacity is Capacity.IDLE or failure not in self._constraints.until_released
            }
        )

    def failure_counts(self, capacity: Capacity, nodes: Mask) -> Sequence[tuple[FilterFailure, int]]:
        counts: dict[FilterFailure, int] = {}
        for name, failure in self._constraints.rejected.items():
            index = self._constraints.cluster.index(name)
            if index is not None and nodes[index]:
                counts[failure] = counts.get(failure, 0) + 1
        return sorted(counts.items(), key=lambda item: (-item[1], item[0].reason))

    def _mask(self, names: set[str]) -> Mask:
        mask = np.zeros(self._constraints.cluster.size, np.bool_)
        indexes = [self._constraints.cluster.index(name) for name in names]
        mask[[index for index in indexes if index is not None]] = True
        return mask
