"""Clusters and gangs for the measurements, as objects from an API server."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from bench.nodes import GPU, make_node, pod_as_stored
from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.scheduler_configuration import SchedulerConfiguration, load_scheduler_configuration
from quorate.api.volcano import PodGroup, Queue
from quorate.api.volcano.topology import HyperNode
from quorate.gang.cache.model import Model

NOW_S: Final = 1_800_000_000.0

CONFIGURATION: Final = """\
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: proportion}}, {scores}]
"""
SPREAD: Final = "{name: nodeorder}"
PACK: Final = f"{{name: binpack, arguments: {{binpack.resources: {GPU}, binpack.resources.{GPU}: 10}}}}"


def configuration(
    scores: str = SPREAD, actions: str = "enqueue, allocate, backfill"
) -> SchedulerConfiguration:
    text = CONFIGURATION.format(actions=actions, scores=scores)
    return load_scheduler_configuration(text).configuration


def model_of(nodes: Iterable[Node]) -> Model:
    """Return a model with one queue and ``nodes``."""
    model = Model(schedulers=("quorate",))
    model.set_queue(codec.convert(Queue, {"metadata": {"name": "default"}, "status": {"state": "Open"}}))
    for node in nodes:
        model.set_node(node)
    return model


def equal_nodes(count: int) -> Iterable[Node]:
    return (make_node(number) for number in range(count))


def gpu_node(number: int, gpus: int) -> Node:
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", GPU: str(gpus)}
    metadata = {"name": f"gpu-{number:05}"}
    return codec.convert(Node, {"metadata": metadata, "status": {"allocatable": amounts}})


def hyper_nodes(nodes: int, rack: int, block: int) -> Iterator[HyperNode]:
    """Yield racks of ``rack`` nodes (tier 1) and blocks of ``block`` racks (tier 2)."""
    racks = nodes // rack
    for number in range(racks):
        names = [f"node-{node:05}" for node in range(number * rack, (number + 1) * rack)]
        yield _hyper_node(f"rack-{number:04}", 1, "Node", names)
    for number in range(racks // block):
        names = [f"rack-{each:04}" for each in range(number * block, (number + 1) * block)]
        yield _hyper_node(f"block-{number:03}", 2, "HyperNode", names)


def _hyper_node(name: str, tier: int, kind: str, names: list[str]) -> HyperNode:
    members = [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in names]
    return codec.convert(HyperNode, {"metadata": {"name": name}, "spec": {"tier": tier, "members": members}})


def group(name: str, min_member: int, phase: str = "Inqueue", hard_tier: int | None = None) -> PodGroup:
    """Return a pod group; ``hard_tier``: the highest tier of HyperNodes that may contain it."""
    metadata: dict[str, Any] = {"name": name, "namespace": "research", "uid": f"uid-of-{name}"}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    spec: dict[str, Any] = {"minMember": min_member, "queue": "default"}
    if hard_tier is not None:
        spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": hard_tier}
    status = {"phase": phase}
    return codec.convert(PodGroup, {"metadata": metadata, "spec": spec, "status": status})


def pod(number: int, gang: str, milli_cpu: int, memory_gib: int, gpus: int = 0, node: str = "") -> Pod:
    """Return the pod with the unique ``number``; with ``node`` it runs."""
    return codec.decode(Pod, pod_as_stored(number, milli_cpu, memory_gib, job=gang, gpus=gpus, node=node))
