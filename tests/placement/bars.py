"""Constraints that are told what they are: which nodes are barred, and which are preferred."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.shapes import Shape
from quorate.placement.stance import Moment, Objection, Preferences, Reach, Stance
from quorate.placement.vectors import Mask, Vector


@dataclass(frozen=True)
class Bar:
    reason: str
    lifted_by_eviction: bool = False
    lasts: bool = True  # or goes with those that are being released


class Bars:
    """``barred`` and ``node_affinity`` by name of the node, the same for all shapes."""

    def __init__(
        self,
        cluster: Cluster,
        barred: Mapping[str, Bar] | None = None,
        node_affinity: Mapping[str, int] | None = None,
        reach: Reach = Reach.NONE,
    ) -> None:
        self.cluster = cluster
        self.barred = dict(barred or {})
        self.node_affinity = dict(node_affinity or {})
        self.reach = reach

    @property
    def revision(self) -> int:
        return hash((tuple(self.barred.items()), tuple(self.node_affinity.items())))

    def stance(self, shape: Shape) -> Stance:
        return _Standing(self)

    def founded(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        return ()


class _Standing:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self.reach = bars.reach
        # Never the same for other bars, other preferences or other nodes.
        named = tuple((name, bars.cluster.index(name)) for name in sorted(bars.cluster.names()))
        self.version = hash((named, bars.revision))

    @property
    def unresolvable(self) -> Mask:
        return self._mask({name for name, bar in self._bars.barred.items() if not bar.lifted_by_eviction})

    @property
    def lasting(self) -> Mask:
        return self.unresolvable

    @property
    def preferences(self) -> Preferences:
        if not self._bars.node_affinity:
            return Preferences()
        weights = np.zeros(self._bars.cluster.size, np.int64)
        for name, weight in self._bars.node_affinity.items():
            index = self._bars.cluster.index(name)
            if index is not None:
                weights[index] = weight
        return Preferences(node_affinity=weights)

    def passing(self, moment: Moment) -> Mask:
        return ~self._mask(
            {name for name, bar in self._bars.barred.items() if bar.lasts or moment is Moment.NOW}
        )

    def objections(self, moment: Moment, nodes: Mask) -> Sequence[tuple[Objection, int]]:
        counts: dict[Bar, int] = {}
        for name, bar in self._bars.barred.items():
            index = self._bars.cluster.index(name)
            if index is not None and nodes[index]:
                counts[bar] = counts.get(bar, 0) + 1
        return sorted(counts.items(), key=lambda item: (-item[1], item[0].reason))

    def _mask(self, names: set[str]) -> Mask:
        mask = np.zeros(self._bars.cluster.size, np.bool_)
        mask[[index for name in names if (index := self._bars.cluster.index(name)) is not None]] = True
        return mask
