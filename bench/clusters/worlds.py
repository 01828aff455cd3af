"""The worlds of the benchmark of several clusters: those of ``bench.backfill``, split over unequal workers.

The machine of a world has 128 processors or GPUs.  One worker has as many, so that each job fits somewhere,
and the others have a part of it.  Submissions come faster by as much as the workers together are larger than
the machine, so that the load is that of the world.  The manager has quota for all jobs, so that every wait is
one of the workers.

Clusters that are *unlike*: the first three of five are small, and half of the largest cluster is taken by a
workload of its own for ten hours.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Raw, json
from msgspec.structs import replace

from bench.backfill.worlds import Setting, world_of
from quorate.api.kueue import PodSet, Workload, WorkloadSpec
from quorate.api.meta import ObjectMeta, Uid, at_epoch
from quorate.kube.resources import LOCAL_QUEUES, WORKLOADS
from quorate.simulate.inputs.cluster_worlds import ClusterWorlds, cluster_worlds
from quorate.simulate.inputs.distributions import Exponential
from quorate.simulate.inputs.worker_clusters import WorkerCluster
from quorate.simulate.inputs.world import World

# Eighths of the machine, in the configured order of the workers.
EIGHTHS: Final[Mapping[str, tuple[int, ...]]] = {
    "3 clusters": (4, 8, 2),
    "5 clusters": (3, 8, 2, 6, 4),
    "10 clusters": (3, 8, 2, 6, 4, 1, 5, 2, 4, 3),
    "5 unlike clusters": (2, 1, 1, 8, 4),
}
UNLIKE: Final = "5 unlike clusters"
BUSY: Final = "d"  # of the unlike clusters
BUSY_S: Final = 36_000


def split_world(
    name: str, setting: Setting, clusters: str, jobs: int, seed: int, directory: Path
) -> ClusterWorlds:
    """Return a world of ``bench.backfill``, split over ``clusters``; ``directory`` is for its files."""
    shares = [eighths / 8 for eighths in EIGHTHS[clusters]]
    world = _faster(world_of(name, setting, jobs, seed, directory), sum(shares))
    workers = tuple(WorkerCluster(chr(ord("a") + at), share) for at, share in enumerate(shares))
    split = cluster_worlds(replace(world, scenario=replace(world.scenario, clusters=workers)))
    if clusters == UNLIKE:
        split.workers[BUSY] = _busy(split.workers[BUSY])
    return split


def pooled_world(name: str, setting: Setting, clusters: str, jobs: int, seed: int, directory: Path) -> World:
    """Return the world of ``split_world`` with one cluster of the same size: what the split costs nothing."""
    share = sum(EIGHTHS[clusters]) / 8
    world = _faster(world_of(name, setting, jobs, seed, directory), share)
    scenario = replace(world.scenario, clusters=(WorkerCluster("all", share),))
    pooled = cluster_worlds(replace(world, scenario=scenario)).workers["all"]
    return _busy(pooled) if clusters == UNLIKE else pooled


def _busy(world: World) -> World:
    """Return ``world`` with a workload of its own, which takes half of the machine from the start."""
    (queue,) = world.of_kind(LOCAL_QUEUES)
    classes = world.classes
    resources = json.decode(classes[0].pod_sets[0].template)["spec"]["containers"][0]["resources"]["requests"]
    (resource,) = resources
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {resource: "1"}}}]}}
    workload = Workload(
        metadata=ObjectMeta(
            namespace=queue.metadata.namespace, name="own", uid=Uid("own"),
            creation_timestamp=at_epoch(world.begins_s - 1),
        ),
        spec=WorkloadSpec(
            queue_name=queue.metadata.name,
            pod_sets=(PodSet(name="main", count=64, template=Raw(json.encode(template))),),
            maximum_execution_time_seconds=BUSY_S,
        ),
    )  # fmt: skip
    key = WORKLOADS.api_version, WORKLOADS.kind, workload.metadata.key
    return replace(world, objects={**world.objects, key: workload})


def _faster(world: World, times: float) -> World:
    """Return ``world`` with submissions that come so many times faster."""
    scenario = world.scenario
    traces = tuple(replace(trace, stretch=trace.stretch / times) for trace in scenario.traces)
    classes = []
    for class_ in scenario.classes:
        every = class_.arrivals.every
        assert isinstance(every, Exponential)
        arrivals = replace(class_.arrivals, every=Exponential(every.mean / times))
        classes.append(replace(class_, arrivals=arrivals))
    return replace(world, scenario=replace(scenario, traces=traces, classes=tuple(classes)))
