"""Scenarios of the benchmark of the simulator, built in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.configuration import default_configuration
from quorate.api.configuration.queueing import NodeFit
from quorate.api.kueue import ClusterQueue, LocalQueue, ResourceFlavor, Workload
from quorate.api.meta import Key, at_epoch
from quorate.api.quantity import Quantity
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
    metadata_of,
)
from quorate.simulate.inputs.distributions import Choice, Exponential, LogNormal
from quorate.simulate.inputs.node_pools import NodePool
from quorate.simulate.inputs.scenario import BEGINS_S, Arrivals, JobClass, PodSetShape, Scenario
from quorate.simulate.inputs.world import RESOURCES, World

QUEUES: Final = 1_000
COHORT: Final = 10  # queues
NOMINAL: Final = 20  # cpus of a queue
LOAD: Final = 0.7  # the part of all quota that the jobs need
MEAN_RUN_S: Final = 600.0
_PODS: Final = ((1.0, 7.0), (5.0, 2.0), (20.0, 1.0))  # with weights; a pod takes one cpu


def queues_alone(jobs: int) -> World:
    """Return a world of ``QUEUES`` queues in cohorts that gets ``jobs`` jobs, equally many in each queue.

    The times between submissions of a queue are exponential, so almost every job is alone in its instant.
    Queues borrow from their cohort, and preempt lower priorities of their own.
    """
    names = [f"c{index // COHORT}-q{index % COHORT}" for index in range(QUEUES)]
    objects: dict[tuple[str, str, Key], Any] = {}
    _add(objects, RESOURCE_FLAVORS, codec.convert(ResourceFlavor, {"metadata": {"name": "default"}}))
    for name in names:
        _add(objects, CLUSTER_QUEUES, _cluster_queue(name))
        _add(objects, LOCAL_QUEUES, _local_queue(name))
    pods, weights = zip(*_PODS, strict=True)
    mean_pods = sum(count * weight for count, weight in _PODS) / sum(weights)
    job_class = JobClass(
        name="work",
        namespace="default",
        queues=tuple(names),
        arrivals=Arrivals(every=Exponential(mean_pods * MEAN_RUN_S / (NOMINAL * LOAD)), count=jobs // QUEUES),
        pod_sets=(_one_cpu(Choice(pods, (weights[0], weights[0] + weights[1], sum(weights)))),),
        runs=LogNormal(MEAN_RUN_S / 1.6487, 1.0),  # the mean is exp(1/2) times the median
    )
    return World(Path(), Scenario(seed=1, classes=(job_class,)), default_configuration(), objects)


def placed_on_nodes(jobs: int) -> World:
    """Return the same world with a node for each queue, and places on the nodes required."""
    return _with_nodes(jobs, NodeFit(mode="Require"))


def bound_by_sessions(jobs: int) -> World:
    """Return the same world with a node for each queue, and quota that does not look at the nodes."""
    return _with_nodes(jobs, NodeFit(mode="Off"))


def _with_nodes(jobs: int, node_fit: NodeFit) -> World:
    world = queues_alone(jobs)
    pool = NodePool("node", QUEUES, {"cpu": Quantity.of_units(NOMINAL)})
    return replace(
        world,
        scenario=replace(world.scenario, nodes=(pool,)),
        configuration=replace(world.configuration, node_fit=node_fit),
    )


def _one_cpu(count: Choice) -> PodSetShape:
    container = {"name": "main", "image": "simulated", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return PodSetShape("main", count, None, msgspec.Raw(codec.encode(template)))


def _cluster_queue(name: str) -> ClusterQueue:
    """Return a cluster queue with quota for cpu, in the cohort that its name begins with."""
    quota = {"name": "cpu", "nominalQuota": NOMINAL}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    spec = {
        "cohortName": name.partition("-")[0],
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
    }
    return codec.convert(ClusterQueue, {"metadata": {"name": name}, "spec": spec})


def _local_queue(name: str) -> LocalQueue:
    metadata = {"namespace": "default", "name": name}
    return codec.convert(LocalQueue, {"metadata": metadata, "spec": {"clusterQueue": name}})


def _add(objects: dict[tuple[str, str, Key], Any], resource: Resource[Any], obj: Any) -> None:
    objects[resource.api_version, resource.kind, metadata_of(obj).key] = obj


def waiting_workloads(number: int, queues: int) -> Iterator[tuple[Resource[Any], Any]]:
    """Yield the objects of a cluster in which so many workloads wait in the first queues, nothing runs."""
    for (api_version, kind, _), obj in queues_alone(0).objects.items():
        yield RESOURCES[api_version, kind], obj
    pods = [int(count) for count, weight in _PODS for _ in range(round(weight))]
    names = [f"c{index // COHORT}-q{index % COHORT}" for index in range(queues)]
    for index in range(number):
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        pod_set = {"name": "main", "count": pods[index % len(pods)], "template": template}
        metadata = {
            "name": f"work-{index}", "namespace": "default", "uid": f"uid-{index}", "resourceVersion": "1",
            "creationTimestamp": codec.to_builtins(at_epoch(BEGINS_S + index)),
        }  # fmt: skip
        spec = {"queueName": names[index % queues], "active": True, "priority": 0, "podSets": [pod_set]}
        yield WORKLOADS, codec.convert(Workload, {"metadata": metadata, "spec": spec})
