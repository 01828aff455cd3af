"""Constraints that are told what they are: which nodes are barred, and which are preferred."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.framework import Capacity, FilterFailure, FilterResult, InvalidationScope, RawScores
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector


@dataclass(frozen=True)
class Bar:
    reason: str
    lifted_by_eviction: bool = False
    lasts: bool = True  # or goes with those that are being released


class Bars:
    """``filtered`` and ``node_affinity`` by name of the node, the same for all shapes."""

    def __init__(
        self,
        cluster: Cluster,
        filtered: Mapping[str, Bar] | None = None,
        node_affinity: Mapping[str, int] | None = None,
        invalidation_scope: InvalidationScope = InvalidationScope.NONE,
    ) -> None:
        self.cluster = cluster
        self.filtered = dict(filtered or {})
        self.node_affinity = dict(node_affinity or {})
        self.invalidation_scope = invalidation_scope

    @property
    def revision(self) -> int:
        return hash((tuple(self.filtered.items()), tuple(self.node_affinity.items())))

    def filter_result(self, shape: Shape) -> FilterResult:
        return _Standing(self)

    def anchor_domains(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        return ()


class _Standing:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self.invalidation_scope = bars.invalidation_scope
        # Never the same for other bars, other preferences or other nodes.
        named = tuple((name, bars.cluster.index(name)) for name in sorted(bars.cluster.names()))
        self.version = hash((named, bars.revision))

    @property
    def unresolvable(self) -> Mask:
        return self._mask({name for name, bar in self._bars.filtered.items() if not bar.lifted_by_eviction})

    @property
    def permanent(self) -> Mask:
        return self.unresolvable

    @property
    def raw_scores(self) -> RawScores:
        if not self._bars.node_affinity:
            return RawScores()
        weights = np.zeros(self._bars.cluster.size, np.int64)
        for name, weight in self._bars.node_affinity.items():
            index = self._bars.cluster.index(name)
            if index is not None:
                weights[index] = weight
        return RawScores(node_affinity=weights)

    def passing(self, capacity: Capacity) -> Mask:
        return ~self._mask(
            {name for name, bar in self._bars.filtered.items() if bar.lasts or capacity is Capacity.IDLE}
        )

    def failures(self, capacity: Capacity, nodes: Mask) -> Sequence[tuple[FilterFailure, int]]:
        counts: dict[Bar, int] = {}
        for name, bar in self._bars.filtered.items():
            index = self._bars.cluster.index(name)
            if index is not None and nodes[index]:
                counts[bar] = counts.get(bar, 0) + 1
        return sorted(counts.items(), key=lambda item: (-item[1], item[0].reason))

    def _mask(self, names: set[str]) -> Mask:
        mask = np.zeros(self._bars.cluster.size, np.bool_)
        mask[[index for name in names if (index := self._bars.cluster.index(name)) is not None]] = True
        return mask
