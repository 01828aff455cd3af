"""Which volumes are attached where, and how many of a driver a node takes at once.

Source: kube-scheduler's NodeVolumeLimits.  A volume that several pods of a node use counts once.  A node
whose ``CSINode`` names no limit for the driver, or that has none, takes any number.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.volumes.filters import Attachment
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Mask


@dataclass(slots=True)
class _Attached:
    """The volumes of one driver on one node, and how many pods use each."""

    staying: Counter[str] = field(default_factory=Counter)
    releasing: Counter[str] = field(default_factory=Counter)

    def handles(self, capacity: Capacity) -> set[str]:
        return {*self.staying, *(self.releasing if capacity is Capacity.IDLE else ())}


class AttachedVolumes:
    """Which volumes are attached where, or will be for pods that are placed."""

    def __init__(self) -> None:
        self._drivers: dict[str, dict[int, _Attached]] = {}  # by driver and node; nodes with some only
        self.version = 0  # moves with every change

    def add(self, node: int, attachments: Collection[Attachment], releasing: bool, count: int) -> None:
        """Note that ``count`` more pods of the node, or fewer if it is negative, use ``attachments``."""
        self.version += 1
        for driver, handle in attachments:
            attached = self._drivers.setdefault(driver, {}).setdefault(node, _Attached())
            users = attached.releasing if releasing else attached.staying
            users[handle] += count
            assert users[handle] >= 0, f"volume {handle} is detached from node {node} once too often"
            if not users[handle]:
                del users[handle]
                if not attached.staying and not attached.releasing:
                    del self._drivers[driver][node]

    def exceeded(self, nodes: NodeColumns, attachments: Collection[Attachment], capacity: Capacity) -> Mask:
        """The nodes to which ``attachments`` cannot be added."""
        exceeded = np.zeros(nodes.size, np.bool_)
        for driver in sorted({attachment.driver for attachment in attachments}):
            wanted = {handle for name, handle in attachments if name == driver}
            limits = nodes.limits(driver)
            room = limits - len(wanted)
            for node, attached in self._drivers.get(driver, {}).items():
                there = attached.handles(capacity)
                # Nothing is asked of a node that has all of them, even if it has too many.
                room[node] = 0 if wanted <= there else limits[node] - len(wanted | there)
            exceeded |= room < 0
        return exceeded

    def elsewhere(self, volume: Attachment, size: int) -> Mask:
        """All nodes but those that have the volume; if nowhere is it yet, none."""
        having = list(self.where(volume, Capacity.IDLE))
        elsewhere = np.full(size, bool(having))
        elsewhere[having] = False
        return elsewhere

    def where(self, volume: Attachment, capacity: Capacity) -> Iterator[int]:
        """The nodes that have the volume."""
        for node, attached in self._drivers.get(volume.driver, {}).items():
            if volume.handle in attached.handles(capacity):
                yield node
