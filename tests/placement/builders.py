"""Build nodes and pods from one line each: ``node("n1 cpu=4 gpu=8")``, ``pod("a cpu=500m")``."""

from typing import Any

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.placement.shapes import Shape, Shapes

GPU = "nvidia.com/gpu"
_NAMES = {"gpu": GPU}


def quantities(text: str) -> dict[str, str]:
    return {_NAMES.get(name, name): amount for name, amount in (entry.split("=") for entry in text.split())}


def node(text: str, *, ready: bool = True, **spec: Any) -> Node:
    """Build a node; the first word is the name, and the default of ``pods`` is 110."""
    name, _, amounts = text.partition(" ")
    status = {
        "allocatable": {"pods": "110", **quantities(amounts)},
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    labels = spec.pop("labels", {})
    return codec.convert(Node, {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})


def pod(text: str, *, namespace: str = "default", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    """Build a pod; the first word is the name, the others are the requests of its container."""
    name, _, amounts = text.partition(" ")
    metadata = {"name": name, "uid": name, "namespace": namespace, "labels": labels or {}}
    container = {"name": "main", "image": "busybox", "resources": {"requests": quantities(amounts)}}
    return codec.convert(Pod, {"metadata": metadata, "spec": {"containers": [container], **spec}})


def shape(text: str, shapes: Shapes | None = None) -> Shape:
    """Return the shape of a pod that requests ``text``."""
    return (shapes or Shapes()).of(pod(f"a {text}"))
