"""A few nodes and pods, and how the nodes stand with one more pod.

world = World("a zone=1", "b zone=2")
world.put(pod("web", labels={"app": "web"}), "a")
world.refusals(pod("new", affinity=...)) == {"a": "node(s) ..."}
"""

from typing import Any, Final

import numpy as np

from quorate.api import codec
from quorate.api.meta import Uid
from quorate.api.placeable import Node, Pod
from quorate.api.scheduler_plugins import PredicateArguments
from quorate.placement.cluster import Cluster, Hold
from quorate.placement.constraints.claims import volume_demands
from quorate.placement.constraints.judgement import Judgement
from quorate.placement.constraints.objections import Mask, Objection
from quorate.placement.constraints.storage import Storage
from quorate.placement.constraints.surroundings import Surroundings
from quorate.placement.shapes import Shapes
from quorate.placement.stance import Moment


def node(text: str, *, ready: bool = True, images: Any = (), **spec: Any) -> Node:
    """The first word is the name, the others are labels; without a ``hostname`` it is the name."""
    name, *words = text.split()
    labels = {"hostname": name} | dict(word.split("=") for word in words)
    status = {
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"},
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "images": list(images),
    }
    return codec.convert(Node, {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})


def pod(text: str, *, namespace: str = "default", **spec: Any) -> Pod:
    """The first word is the name, the others are labels."""
    name, *words = text.split()
    metadata = {"name": name, "uid": name, "namespace": namespace}
    labels = dict(word.split("=") for word in words)
    container = {"name": "main", "image": spec.pop("image", "busybox"), "ports": spec.pop("ports", [])}
    return codec.convert(
        Pod, {"metadata": metadata | {"labels": labels}, "spec": {"containers": [container], **spec}}
    )


ALL: Final = PredicateArguments()


class World:
    def __init__(self, *nodes: str | Node, switches: PredicateArguments = ALL) -> None:
        self.cluster = Cluster()
        self.shapes = Shapes()
        self.storage = Storage()
        self.surroundings = Surroundings(self.cluster, switches)
        self.placed: dict[str, tuple[Pod, str, Hold]] = {}
        for each in nodes:
            self.cluster.set_node(node(each) if isinstance(each, str) else each)

    def put(self, pod: Pod, node: str, hold: Hold = Hold.USED) -> None:
        self.placed[pod.metadata.name] = pod, node, hold
        before = self.shapes.generation
        shape = self.shapes.of(pod, volume_demands(pod, self.storage))
        if before == self.shapes.generation:
            self.cluster.put(Uid(pod.metadata.name), shape, node, hold)
        else:
            self._put_all(anew=[name for name in self.placed if name != pod.metadata.name])

    def take(self, name: str) -> None:
        del self.placed[name]
        self.cluster.take(Uid(name))

    def move(self, name: str, hold: Hold) -> None:
        pod, node, _ = self.placed[name]
        self.placed[name] = pod, node, hold
        self.cluster.move(Uid(name), hold)

    def stance(self, pod: Pod) -> Judgement:
        before = self.shapes.generation
        shape = self.shapes.of(pod, volume_demands(pod, self.storage))
        if before != self.shapes.generation:  # a selector looks at labels that shapes lacked until now
            self._put_all(anew=list(self.placed))
        return self.surroundings.stance(shape)

    def _put_all(self, anew: list[str]) -> None:
        for name in anew:
            self.cluster.take(Uid(name))
        for name, (pod, node, hold) in self.placed.items():
            self.cluster.put(Uid(name), self.shapes.of(pod, volume_demands(pod, self.storage)), node, hold)

    def objections(self, pod: Pod, moment: Moment = Moment.NOW) -> dict[str, Objection]:
        """What stops the pod, by node; nodes that pass are left out."""
        verdicts = self.stance(pod).verdicts(moment)
        found = {
            name: verdicts.at(index) for name in self.cluster.names() if (index := self.index(name)) >= 0
        }
        return {name: objection for name, objection in sorted(found.items()) if objection is not None}

    def refusals(self, pod: Pod, moment: Moment = Moment.NOW) -> dict[str, str]:
        return {name: str(objection) for name, objection in self.objections(pod, moment).items()}

    def passing(self, pod: Pod, moment: Moment = Moment.NOW) -> str:
        """The names of the nodes that pass, in order."""
        mask = self.stance(pod).passing(moment)
        return " ".join(sorted(name for name in self.cluster.names() if mask[self.index(name)]))

    def measure(self, pod: Pod, kind: str) -> dict[str, int]:
        """What one kind of preferences says of each node."""
        vector = getattr(self.stance(pod).preferences, kind)
        return {name: int(vector[self.index(name)]) for name in sorted(self.cluster.names())}

    def known(self) -> Mask:
        """The indexes that have a node."""
        return np.array([each is not None for each in self.cluster.nodes])

    def index(self, name: str) -> int:
        index = self.cluster.index(name)
        assert index is not None, f"no node {name}"
        return index
