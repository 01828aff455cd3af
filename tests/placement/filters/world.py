"""A few nodes and placed pods, and the filter results for one more pod.

world = World("a zone=1", "b zone=2")
world.put(pod("web app=web"), "a")
world.reasons(pod("new", affinity=...)) == {"a": "node(s) ..."}
"""

from typing import Any, Final

import numpy as np

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.failures import FilterFailure
from quorate.placement.filters.engine import ConstraintEngine, LazyFilterResult
from quorate.placement.filters.volumes.requirements import volume_requirements
from quorate.placement.filters.volumes.storage import StorageIndex
from quorate.placement.framework import Capacity
from quorate.placement.shapes import Shapes
from quorate.placement.vectors import Mask


def node(text: str, *, ready: bool = True, images: Any = (), **spec: Any) -> Node:
    """Build a node; the first word is the name and default ``hostname``, the others are labels."""
    name, *words = text.split()
    labels = {"hostname": name} | dict(word.split("=") for word in words)
    status = {
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"},
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "images": list(images),
    }
    return codec.convert(Node, {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})


def pod(text: str, *, namespace: str = "default", **spec: Any) -> Pod:
    """Build a pod; the first word is the name, the others are labels."""
    name, *words = text.split()
    metadata = {"name": name, "uid": name, "namespace": namespace}
    labels = dict(word.split("=") for word in words)
    container = {"name": "main", "image": spec.pop("image", "busybox"), "ports": spec.pop("ports", [])}
    return codec.convert(
        Pod, {"metadata": metadata | {"labels": labels}, "spec": {"containers": [container], **spec}}
    )


ALL: Final = PredicateArguments()


class World:
    def __init__(self, *nodes: str | Node, enabled: PredicateArguments = ALL) -> None:
        self.cluster = Cluster()
        self.shapes = Shapes()
        self.storage = StorageIndex()
        self.engine = ConstraintEngine(self.cluster, enabled)
        self.placed: dict[str, tuple[Pod, str, AllocationState]] = {}
        for each in nodes:
            self.cluster.set_node(node(each) if isinstance(each, str) else each)

    def put(self, pod: Pod, node: str, state: AllocationState = AllocationState.USED) -> None:
        self.placed[pod.metadata.name] = pod, node, state
        before = self.shapes.generation
        shape = self.shapes.of(pod, volume_requirements(pod, self.storage))
        if before == self.shapes.generation:
            self.cluster.add_pod(Uid(pod.metadata.name), shape, node, state)
        else:
            self._add_all(already_added=[name for name in self.placed if name != pod.metadata.name])

    def take(self, name: str) -> None:
        del self.placed[name]
        self.cluster.remove_pod(Uid(name))

    def move(self, name: str, state: AllocationState) -> None:
        pod, node, _ = self.placed[name]
        self.placed[name] = pod, node, state
        self.cluster.update_pod(Uid(name), state)

    def filter_result(self, pod: Pod) -> LazyFilterResult:
        before = self.shapes.generation
        shape = self.shapes.of(pod, volume_requirements(pod, self.storage))
        if before != self.shapes.generation:  # a new selector reads labels that the shapes lack
            self._add_all(already_added=list(self.placed))
        return self.engine.filter(shape)

    def _add_all(self, already_added: list[str]) -> None:
        for name in already_added:
            self.cluster.remove_pod(Uid(name))
        for name, (pod, node, state) in self.placed.items():
            self.cluster.add_pod(
                Uid(name), self.shapes.of(pod, volume_requirements(pod, self.storage)), node, state
            )

    def failures(self, pod: Pod, capacity: Capacity = Capacity.IDLE) -> dict[str, FilterFailure]:
        """Return the failure of each node that is rejected."""
        statuses = self.filter_result(pod).statuses(capacity)
        failures = {
            name: statuses.failure(index) for name in self.cluster.names() if (index := self.index(name)) >= 0
        }
        return {name: failure for name, failure in sorted(failures.items()) if failure is not None}

    def reasons(self, pod: Pod, capacity: Capacity = Capacity.IDLE) -> dict[str, str]:
        return {name: str(failure) for name, failure in self.failures(pod, capacity).items()}

    def passing(self, pod: Pod, capacity: Capacity = Capacity.IDLE) -> str:
        """Return the names of the nodes that pass, sorted."""
        mask = self.filter_result(pod).passing(capacity)
        return " ".join(sorted(name for name in self.cluster.names() if mask[self.index(name)]))

    def raw_score(self, pod: Pod, kind: str) -> dict[str, int]:
        """Return one kind of raw scores by node."""
        scores = getattr(self.filter_result(pod).raw_scores, kind)
        return {name: int(scores[self.index(name)]) for name in sorted(self.cluster.names())}

    def existing(self) -> Mask:
        """Return the indexes that have a node."""
        return np.array([each is not None for each in self.cluster.nodes])

    def index(self, name: str) -> int:
        index = self.cluster.index(name)
        assert index is not None, f"no node {name}"
        return index
