"""Nodes and pods for measurements of placement, generated from a seed and a size."""

import random
from collections.abc import Iterator
from typing import Final

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.meta import Uid, at_epoch
from quorate.api.scheduler_configuration.plugins import (
    BinpackArguments,
    NodeOrderArguments,
    PredicateArguments,
)
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.node_finder import NodeFinder
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import Shape, Shapes

SPREADING: Final = Scoring(NodeOrderArguments(), None)
PACKING: Final = Scoring(None, BinpackArguments())

GPU: Final = "nvidia.com/gpu"
_HARDWARE: Final = ((32, 128), (64, 256), (96, 768))  # cpus and GiB
_ZONES: Final = 3


class World:
    """A cluster with ``nodes`` of three kinds in three zones, and a finder for it."""

    def __init__(self, nodes: int, scoring: Scoring) -> None:
        self.cluster = Cluster()
        self.finder = NodeFinder(self.cluster, ConstraintEngine(self.cluster, PredicateArguments()), scoring)
        self.shapes = Shapes()
        for number in range(nodes):
            self.cluster.set_node(make_node(number))

    def fill_half(self, shapes: list[Shape], seed: int) -> int:
        """Add pods of ``shapes`` to all nodes and return their number.

        Fill each node until half of its CPUs are used, or a pod does not fit.
        """
        rng = random.Random(seed)
        pods = 0
        for index, node in enumerate(self.cluster.nodes):
            if node is None:
                continue
            name = node.metadata.name
            while 2 * self.cluster.used[0, index] < self.cluster.allocatable[0, index]:
                shape = rng.choice(shapes)
                if not self.finder.fits(shape, name):
                    break
                self.cluster.add_pod(Uid(f"running-{pods}"), shape, name, AllocationState.USED)
                pods += 1
        self.finder.best(shapes[0])  # the first query reads all changes
        return pods

    def make_shapes(self, count: int, seed: int) -> list[Shape]:
        """Return ``count`` different shapes of one to eight CPUs."""
        rng = random.Random(seed)
        pods = (make_pod(rng.randint(1_000, 8_000), rng.randint(1, 32)) for _ in range(count))
        return [self.shapes.of(pod) for pod in pods]


def make_node(number: int) -> Node:
    cpu, memory_gib = _HARDWARE[number % len(_HARDWARE)]
    name = f"node-{number:05}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % _ZONES}"}
    amounts = {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "pods": "110"}
    return codec.convert(
        Node, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}}
    )


def make_pod(milli_cpu: int, memory_gib: int) -> Pod:
    return codec.decode(Pod, pod_as_stored(0, milli_cpu, memory_gib))


def pod_as_stored(
    number: int, milli_cpu: int, memory_gib: int, job: str = "train", *, gpus: int = 0, node: str = ""
) -> bytes:
    """Return a pod of an indexed job as an API server sends it.

    It is running if it has a ``node``.  Fields that decoding skips anyway are left out, such as
    ``managedFields``.
    """
    requests = {"cpu": f"{milli_cpu}m", "memory": f"{memory_gib}Gi"}
    if gpus:
        requests[GPU] = str(gpus)
    name, index = f"{job}-{number}", {"batch.kubernetes.io/job-completion-index": str(number)}
    metadata = {
        "name": name,
        "generateName": f"{name}-",
        "namespace": "research",
        "uid": f"0b5f2a5e-6c1d-4f0e-9d57-{number:012}",
        "resourceVersion": str(1_000_000 + number),
        "generation": 1,
        "creationTimestamp": _second(number // 10),
        "labels": {
            "batch.kubernetes.io/controller-uid": f"uid-of-{job}",
            **index,
            "batch.kubernetes.io/job-name": job,
            "controller-uid": f"uid-of-{job}",
            "job-name": job,
        },
        "annotations": {**index, "scheduling.k8s.io/group-name": job},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-of-{job}",
                "controller": True, "blockOwnerDeletion": True,
            }
        ],
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }  # fmt: skip
    token = f"kube-api-access-{number}"
    spec = {
        "containers": [
            {
                "name": "main",
                "image": "example.org/train:1",
                "env": [{"name": "JOB_COMPLETION_INDEX", "value": str(number)}],
                "resources": {"requests": requests},
                "volumeMounts": [{"name": token, "mountPath": "/var/run/secrets"}],
            }
        ],
        "volumes": [{"name": token, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        "tolerations": [
            {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute",
             "tolerationSeconds": 300}
            for taint in ("not-ready", "unreachable")
        ],
        "hostname": name,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "restartPolicy": "Never",
        "schedulerName": "quorate",
    }  # fmt: skip
    if not node:
        return codec.encode({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
    status = {
        "phase": "Running",
        "conditions": [
            {"type": type_, "status": "True", "lastTransitionTime": _second(number)}
            for type_ in (
                "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"
            )
        ],
        "podIP": f"10.64.{number // 256}.{number % 256}",
        "startTime": _second(number),
        "containerStatuses": [
            {
                "name": "main", "ready": True, "containerID": f"containerd://{number:064}",
                "allocatedResources": requests, "resources": {"requests": requests},
                "state": {"running": {"startedAt": _second(number)}},
            }
        ],
    }  # fmt: skip
    return codec.encode({"metadata": metadata, "spec": {**spec, "nodeName": node}, "status": status})


def _second(number: int) -> str:
    """Return a timestamp in the format of the API, ``number`` seconds after a fixed time."""
    return at_epoch(1_767_225_600 + number).isoformat().replace("+00:00", "Z")


def uids() -> Iterator[Uid]:
    number = 0
    while True:
        yield Uid(f"pod-{number}")
        number += 1
