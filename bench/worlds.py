"""Benchmark worlds: their queues, and which workloads are created when.

Both worlds are those of Kueue's scheduler benchmark.  Every queue gets the same workloads and all cohorts are
equal, so the least time that the work takes is known in advance (``World.lower_bound_s``).
"""

from collections.abc import Iterator
from itertools import cycle
from math import ceil
from typing import Final, NamedTuple

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from quorate.api.meta import at_epoch
from quorate.queueing.state import State

NAMESPACE: Final = "default"
EPOCH_S: Final = 1_767_225_600  # the beginning of virtual time: 2026-01-01T00:00:00Z


class WorkloadClass(NamedTuple):
    """Equal workloads of one pod each, created at a constant interval."""

    name: str
    per_queue: int
    cpu: int
    priority: int
    runs_ms: int
    every_ms: int
    from_ms: int = 0  # when the first is created


class World(NamedTuple):
    """``cohorts`` cohorts of ``queues`` cluster queues each, and the workloads of every cluster queue."""

    name: str
    cohorts: int
    queues: int
    classes: tuple[WorkloadClass, ...]
    nominal: int = 20
    borrowing: int = 100

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


def make_state(world: World) -> State:
    """Return a state with the queues of ``world`` and no workloads."""
    state = State(Configuration())
    state.put_namespace(NAMESPACE, {})
    state.put_flavor(codec.convert(ResourceFlavor, {"metadata": {"name": "default"}}))
    for name in world.queue_names():
        state.put_cluster_queue(cluster_queue(name, world.nominal, world.borrowing))
        spec = {"clusterQueue": name}
        metadata = {"namespace": NAMESPACE, "name": name}
        state.put_local_queue(codec.convert(LocalQueue, {"metadata": metadata, "spec": spec}))
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
    container = {
        "name": "work",
        "image": "registry.example/work:1",
        "resources": {"requests": {"cpu": str(class_.cpu)}},
    }
    template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {
        "queueName": queue,
        "priority": class_.priority,
        "active": True,
        "podSets": [{"name": "main", "count": 1, "template": template}],
    }
    return codec.decode(Workload, codec.encode({"metadata": metadata, "spec": spec}))


def endless_workloads(world: World, first: int = 0) -> Iterator[Workload]:
    """Return workloads without end, numbered from ``first``, of each class and queue in turn."""
    combinations = cycle([(queue, class_) for class_ in world.classes for queue in world.queue_names()])
    for number, (queue, class_) in enumerate(combinations, first):
        yield make_workload(queue, class_, number, EPOCH_S)
