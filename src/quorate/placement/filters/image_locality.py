"""Which images nodes have already.

Source: kube-scheduler's ImageLocality.  An image counts with its size times the share of nodes that have it,
so that the first node to have one does not draw all pods to itself.
"""

from collections.abc import Collection
from typing import Final

import numpy as np

from quorate.api.core.scheduling import ContainerImage
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.vectors import Vector

_MIB: Final = 2**20
LEAST: Final = 23 * _MIB  # what counts for nothing
MOST: Final = 1000 * _MIB  # for each container: more does not count for more
_LARGEST: Final = 2**40  # beyond what counts, whatever a node says: sums stay far from where 64 bits end
_LATEST: Final = "latest"


def full_name(image: str) -> str:
    """The name with the tag that is meant if none is given."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:{_LATEST}"


class ImageIndex:
    """What nodes have of the images that were asked for."""

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._on: list[tuple[ContainerImage, ...]] = []  # by node index
        self._bytes: dict[str, Vector] = {}  # by image asked for
        self.version = 0  # moves with every change
        self._last: dict[tuple[str, ...], tuple[tuple[int, int], Vector]] = {}  # answers, and of which state

    def set(self, index: int, images: tuple[ContainerImage, ...]) -> None:
        """Note the images of the node at ``index``: none, if there is no node."""
        if index < len(self._on) and self._on[index] == images:
            return
        self._on.extend(() for _ in range(index + 1 - len(self._on)))
        self._on[index] = images
        self.version += 1
        for image in self._bytes:
            self._bytes[image] = self._widened(self._bytes[image])
            self._bytes[image][index] = _size(image, images)

    def locality(self, images: tuple[str, ...]) -> Vector:
        """For each node, 0 to 100 by how much of ``images`` it need not fetch."""
        state = self._nodes.generation, self.version
        known = self._last.get(images)
        if known is None or known[0] != state:
            known = self._last[images] = state, self._measure(images)
        return known[1]

    def sweep(self, wanted: Collection[str]) -> None:
        self._bytes = {image: sizes for image, sizes in self._bytes.items() if image in wanted}
        self._last.clear()

    def _measure(self, images: tuple[str, ...]) -> Vector:
        present = np.zeros(self._nodes.size, np.int64)
        if not images:
            return present
        for image in images:
            sizes = self._sizes(image)
            present += sizes * np.count_nonzero(sizes) // max(1, self._nodes.count)
        most = MOST * len(images)
        return 100 * (present.clip(LEAST, most) - LEAST) // (most - LEAST)

    def _sizes(self, image: str) -> Vector:
        sizes = self._bytes.get(image)
        if sizes is None:
            sizes = np.array([_size(image, images) for images in self._on], np.int64)
        sizes = self._bytes[image] = self._widened(sizes)
        return sizes

    def _widened(self, sizes: Vector) -> Vector:
        return np.append(sizes, np.zeros(max(0, self._nodes.size - len(sizes)), np.int64))


def _size(image: str, images: tuple[ContainerImage, ...]) -> int:
    return next((min(one.size_bytes, _LARGEST) for one in images if image in one.names), 0)
