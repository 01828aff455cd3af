"""Benchmark worlds: their queues, and which workloads are created when.

The worlds are those of Kueue's scheduler benchmark.  Every queue gets the same workloads and all cohorts are
equal, so the least time that the work takes is known in advance (``World.lower_bound_s``).
"""

from collections.abc import Iterator, Mapping
from itertools import cycle
from math import ceil
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from quorate.api.kueue.topology import HOSTNAME, Topology
from quorate.api.meta import at_epoch
from quorate.queueing.state import State

NAMESPACE: Final = "default"
BLOCK: Final = "cloud.provider.com/topology-block"
RACK: Final = "cloud.provider.com/topology-rack"
GROUP_LABEL: Final = "bench-node-group"
GROUP: Final = "bench"
EPOCH_S: Final = 1_767_225_600  # the beginning of virtual time: 2026-01-01T00:00:00Z


class WorkloadClass(NamedTuple):
    """Equal workloads, each of one pod set of equal pods, created at a constant interval."""

    name: str
    per_queue: int
    cpu: int  # of all pods together
    priority: int
    runs_ms: int
    every_ms: int
    from_ms: int = 0  # when the first is created
    pods: int = 1
    topology: Mapping[str, object] | None = None  # ``topologyRequest`` of the pod set

    def pod_set(self) -> dict[str, Any]:
        """Return the pod set without the restart policy and the metadata of its pods."""
        container = {
            "name": "work",
            "image": "registry.example/work:1",
            "resources": {"requests": {"cpu": f"{1000 * self.cpu // self.pods}m"}},
        }
        if self.pods == 1:
            container["resources"] = {"requests": {"cpu": str(self.cpu)}}
        pod_spec = {"containers": [container], "restartPolicy": "Never"}
        pod_set: dict[str, Any] = {"name": "main", "count": self.pods, "template": {"spec": pod_spec}}
        return pod_set if self.topology is None else {**pod_set, "topologyRequest": dict(self.topology)}


class Racks(NamedTuple):
    """Equal nodes in the racks of one block."""

    racks: int
    nodes: int  # per rack
    cpu: int  # of a node

    def topology(self, name: str) -> dict[str, Any]:
        levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOSTNAME)]
        return {"metadata": {"name": name}, "spec": {"levels": levels}}

    def node_objects(self, group: str) -> Iterator[dict[str, Any]]:
        """Return the nodes, which belong to the flavor with the label ``group``."""
        for rack in range(self.racks):
            for number in range(self.nodes):
                name = f"{group}-r{rack}-n{number}"
                labels = {GROUP_LABEL: group, BLOCK: "block-0", RACK: f"rack-{rack}", HOSTNAME: name}
                yield node_object(name, labels, self.cpu)


class World(NamedTuple):
    """``cohorts`` cohorts of ``queues`` cluster queues each, and the workloads of every cluster queue."""

    name: str
    cohorts: int
    queues: int
    classes: tuple[WorkloadClass, ...]
    nominal: int = 20
    borrowing: int = 100
    nodes: Racks | None = None  # on which all pods get places; None: quota alone decides
    annotations: Mapping[str, str] = {}  # of each cluster queue

    @property
    def workloads(self) -> int:
        return self.cohorts * self.queues * sum(one.per_queue for one in self.classes)

    @property
    def lower_bound_s(self) -> float:
        """Return the least virtual time for all work: with all quota used all the time."""
        work = sum(one.per_queue * one.cpu * one.runs_ms for one in self.classes)
        return work / self.nominal / 1000

    @property
    def quota(self) -> int:
        """Return the total quota in cpus."""
        return self.cohorts * self.queues * self.nominal

    def scaled(self, scale: float) -> "World":
        """Return the world with ``scale`` times as many workloads per queue, created at the same interval."""
        classes = (one._replace(per_queue=ceil(one.per_queue * scale)) for one in self.classes)
        return self._replace(classes=tuple(classes))

    def queue_names(self) -> Iterator[str]:
        """Return the name of each cluster queue, which is also that of its local queue."""
        return (f"c{cohort}-q{queue}" for cohort in range(self.cohorts) for queue in range(self.queues))


BASELINE: Final = World(
    "baseline",
    cohorts=5,
    queues=6,
    classes=(
        WorkloadClass("small", per_queue=350, cpu=1, priority=50, runs_ms=200, every_ms=100),
        WorkloadClass("medium", per_queue=100, cpu=5, priority=100, runs_ms=500, every_ms=500),
        WorkloadClass("large", per_queue=50, cpu=20, priority=200, runs_ms=1_000, every_ms=1_200),
    ),
)
LARGE_SCALE: Final = World(
    "large-scale",
    cohorts=10,
    queues=100,
    classes=(
        WorkloadClass("small", per_queue=35, cpu=1, priority=50, runs_ms=150, every_ms=60),
        WorkloadClass("medium", per_queue=11, cpu=5, priority=100, runs_ms=350, every_ms=300),
        WorkloadClass("large", per_queue=4, cpu=20, priority=200, runs_ms=700, every_ms=700),
    ),
)


def _in_rack(request: str, slice_size: int) -> dict[str, object]:
    if request != "balanced":
        return {request: RACK}
    return {"podSetSliceRequiredTopology": RACK, "podSetSliceSize": slice_size}


def _topology_classes(
    size: str,
    per_queue: tuple[int, int, int],
    cpu: int,
    pods: int,
    priority: int,
    runs_ms: int,
    every_ms: int,
) -> Iterator[WorkloadClass]:
    """Return one class per request: a third of the workloads of a class of ``BASELINE``."""
    for request, number in zip(("required", "preferred", "balanced"), per_queue, strict=True):
        topology = _in_rack(request, pods // 2)
        yield WorkloadClass(
            f"{size}-{request}", number, cpu, priority, runs_ms, every_ms, pods=pods, topology=topology
        )


# The names of Kueue's world, in which hosts of different racks have equal host names; here each has its own.
TOPOLOGIES: Final = World(
    "topology",
    cohorts=5,
    queues=6,
    classes=(
        *_topology_classes("small", (120, 120, 110), cpu=1, pods=2, priority=50, runs_ms=200, every_ms=100),
        *_topology_classes("medium", (34, 33, 33), cpu=5, pods=4, priority=100, runs_ms=500, every_ms=500),
        *_topology_classes(
            "large", (17, 17, 16), cpu=20, pods=8, priority=200, runs_ms=1_000, every_ms=1_200
        ),
    ),
    nodes=Racks(racks=10, nodes=64, cpu=96),
)


def node_object(name: str, labels: Mapping[str, str], cpu: int) -> dict[str, Any]:
    """Return a node that is ready, without the parts of a node that decoding skips anyway."""
    amounts = {"cpu": str(cpu), "memory": "256Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Up"}
    return {
        "metadata": {"name": name, "labels": dict(labels)},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
    }


def flavor_object(name: str, nodes: Racks | None, group: str) -> dict[str, Any]:
    """Return the flavor of all quota; with ``nodes``, the topology ``group`` of those of that group."""
    if nodes is None:
        return {"metadata": {"name": name}}
    # An API server adds this taint to new nodes, which a controller that does not run here would remove.
    new = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}
    spec = {"nodeLabels": {GROUP_LABEL: group}, "topologyName": group, "tolerations": [new]}
    return {"metadata": {"name": name}, "spec": spec}


def make_state(world: World) -> State:
    """Return a state with the queues and nodes of ``world`` and no workloads."""
    state = State(Configuration())
    state.put_namespace(NAMESPACE, {})
    if world.nodes is not None:
        state.put_topology(codec.convert(Topology, world.nodes.topology(GROUP)))
        for node in world.nodes.node_objects(GROUP):
            state.nodes.put_node(codec.convert(Node, node))
    state.put_flavor(codec.convert(ResourceFlavor, flavor_object("default", world.nodes, GROUP)))
    for name in world.queue_names():
        queue = cluster_queue(name, world.nominal, world.borrowing)
        metadata = replace(queue.metadata, annotations=dict(world.annotations))
        state.put_cluster_queue(replace(queue, metadata=metadata))
        spec = {"clusterQueue": name}
        local_queue = {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec}
        state.put_local_queue(codec.convert(LocalQueue, local_queue))
    return state


def cluster_queue(name: str, nominal: int, borrowing: int) -> ClusterQueue:
    """Return a cluster queue with quota for cpu, in the cohort that its name begins with."""
    quota = {"name": "cpu", "nominalQuota": nominal, "borrowingLimit": borrowing}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    spec = {
        "cohortName": name.partition("-")[0],
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
    }
    return codec.convert(ClusterQueue, {"metadata": {"name": name}, "spec": spec})


def make_workload(queue: str, class_: WorkloadClass, number: int, created_s: float) -> Workload:
    """Return a workload as read from an API server: with the owner, labels and finalizers of a job.

    ``number`` is unique in its world.
    """
    name = f"job-{class_.name}-{number:06}"
    identity = f"{number:08}-0000-4000-8000-000000000000"
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": f"job{identity}",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "namespace": NAMESPACE,
        "name": name,
        "uid": identity,
        "resourceVersion": str(number),
        "generation": 1,
        "creationTimestamp": at_epoch(created_s),
        "labels": {"kueue.x-k8s.io/job-uid": f"job{identity}"},
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "ownerReferences": [owner],
    }
    spec = {
        "queueName": queue,
        "priority": class_.priority,
        "active": True,
        "podSets": [class_.pod_set()],
    }
    return codec.decode(Workload, codec.encode({"metadata": metadata, "spec": spec}))


def endless_workloads(world: World, first: int = 0) -> Iterator[Workload]:
    """Return workloads without end, numbered from ``first``, of each class and queue in turn."""
    combinations = cycle([(queue, class_) for class_ in world.classes for queue in world.queue_names()])
    for number, (queue, class_) in enumerate(combinations, first):
        yield make_workload(queue, class_, number, EPOCH_S)
