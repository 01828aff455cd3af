"""Score nodes by the container images they have already.

Source: kube-scheduler's plugin ImageLocality.  The size of an image is scaled by the share of nodes that have
it, so that the first node with an image does not attract all pods.
"""

from collections import Counter
from collections.abc import Collection
from typing import Final

from quorate.api.core.scheduling import ContainerImage
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.vectors import Vector, np

_MIB: Final = 2**20
MIN_THRESHOLD: Final = 23 * _MIB  # bytes up to which the score is 0
MAX_CONTAINER_THRESHOLD: Final = 1000 * _MIB  # bytes per container from which the score is 100
_MAX_SIZE: Final = 2**40  # far beyond the threshold, and small enough that sums fit into 64 bits
_DEFAULT_TAG: Final = "latest"


def full_name(image: str) -> str:
    """Return the image name with a tag, adding the default one."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:{_DEFAULT_TAG}"


class ImageIndex:
    """The sizes on each node of the images that were queried."""

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._images: list[tuple[ContainerImage, ...]] = []  # by node index
        self._nodes_with: Counter[str] = Counter()  # by image name: how many nodes have it, at least 1
        self._sizes: dict[str, Vector] = {}  # by queried image that a node had; bytes
        self.version = 0  # incremented with every change
        self._scores: dict[
            tuple[str, ...], tuple[tuple[int, int], Vector]
        ] = {}  # with the state they are for

    def set(self, index: int, images: tuple[ContainerImage, ...]) -> None:
        """Set the images of the node at ``index``; empty if the index is vacant."""
        if index < len(self._images) and self._images[index] == images:
            return
        self._images.extend(() for _ in range(index + 1 - len(self._images)))
        for name in _names(images):
            self._nodes_with[name] += 1
        for name in _names(self._images[index]):
            self._nodes_with[name] -= 1
            if not self._nodes_with[name]:
                del self._nodes_with[name]
        self._images[index] = images
        self.version += 1
        for image in self._sizes:
            self._sizes[image] = self._extended(self._sizes[image])
            self._sizes[image][index] = _size(image, images)

    def scores(self, images: tuple[str, ...]) -> Vector:
        """Return for each node 0 to 100, by the share of ``images`` that it has."""
        state = self._nodes.generation, self.version
        cached = self._scores.get(images)
        if cached is None or cached[0] != state:
            cached = self._scores[images] = state, self._compute(images)
        return cached[1]

    def retain(self, images: Collection[str]) -> None:
        """Drop all images except ``images``."""
        self._sizes = {image: sizes for image, sizes in self._sizes.items() if image in images}
        self._scores.clear()

    def _compute(self, images: tuple[str, ...]) -> Vector:
        scaled = np.zeros(self._nodes.size, np.int64)
        if not images:
            return scaled
        for image in images:
            if image not in self._nodes_with:
                continue  # a pod may name any number of them
            sizes = self._sizes_of(image)
            scaled += sizes * np.count_nonzero(sizes) // max(1, self._nodes.count)
        most = MAX_CONTAINER_THRESHOLD * len(images)
        return 100 * (scaled.clip(MIN_THRESHOLD, most) - MIN_THRESHOLD) // (most - MIN_THRESHOLD)

    def _sizes_of(self, image: str) -> Vector:
        sizes = self._sizes.get(image)
        if sizes is None:
            sizes = np.array([_size(image, images) for images in self._images], np.int64)
        sizes = self._sizes[image] = self._extended(sizes)
        return sizes

    def _extended(self, sizes: Vector) -> Vector:
        return np.append(sizes, np.zeros(max(0, self._nodes.size - len(sizes)), np.int64))


def _names(images: tuple[ContainerImage, ...]) -> set[str]:
    return {name for image in images for name in image.names}


def _size(image: str, images: tuple[ContainerImage, ...]) -> int:
    """Return the size of the last image of that name; 0 if there is none."""
    return next((min(one.size_bytes, _MAX_SIZE) for one in reversed(images) if image in one.names), 0)
