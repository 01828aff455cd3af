"""The worlds of the benchmark of several clusters: those of ``bench.backfill``, split over unequal workers.

The machine of a world has 128 processors or GPUs.  One worker has as many, so that each job fits somewhere,
and the others have a part of it.  Submissions come faster by as much as the workers together are larger than
the machine, so that the load is that of the world.  The manager has quota for all jobs, so that every wait is
one of the workers; its flavor has no topology, since the workers place the pods.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Raw, json
from msgspec.structs import replace

from bench.backfill.worlds import Setting, world_of
from quorate.api.quantity import Quantity
from quorate.kube.resources import CLUSTER_QUEUES, RESOURCE_FLAVORS, Resource
from quorate.simulate.inputs.distributions import Exponential
from quorate.simulate.inputs.scenario import PodSetShape
from quorate.simulate.inputs.world import World

# Eighths of the machine, in the configured order of the workers.
EIGHTHS: Final[Mapping[int, tuple[int, ...]]] = {3: (4, 8, 2), 5: (3, 8, 2, 6, 4)}
AMPLE: Final = 10_000  # machines: the quota of the manager


class ClusterWorlds(NamedTuple):
    manager: World
    workers: dict[str, World]  # by name, in the configured order


def cluster_worlds(
    name: str, setting: Setting, clusters: int, jobs: int, seed: int, directory: Path
) -> ClusterWorlds:
    """Return a world of ``bench.backfill``, split over so many clusters; ``directory`` is for its files."""
    world = world_of(name, setting, jobs, seed, directory)
    eighths = EIGHTHS[clusters]
    faster = _faster(world, sum(eighths) / 8)
    workers = {chr(ord("a") + at): _part(faster, part) for at, part in enumerate(eighths)}
    return ClusterWorlds(_without_topology(_with_quota(faster, 8 * AMPLE)), workers)


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


def _part(world: World, eighths: int) -> World:
    nodes = tuple(replace(pool, count=pool.count * eighths // 8) for pool in world.scenario.nodes)
    return _with_quota(replace(world, scenario=replace(world.scenario, nodes=nodes)), eighths)


def _with_quota(world: World, eighths: int) -> World:
    (queue,) = world.of_kind(CLUSTER_QUEUES)
    groups = tuple(
        replace(
            group,
            flavors=tuple(
                replace(
                    flavor,
                    resources=tuple(
                        replace(quota, nominal_quota=_eighths(quota.nominal_quota, eighths))
                        for quota in flavor.resources
                    ),
                )
                for flavor in group.flavors
            ),
        )
        for group in queue.spec.resource_groups
    )
    return _with_object(
        world, CLUSTER_QUEUES, replace(queue, spec=replace(queue.spec, resource_groups=groups))
    )


def _eighths(quota: Quantity, eighths: int) -> Quantity:
    return Quantity.of_milli(quota.milli * eighths // 8)


def _without_topology(world: World) -> World:
    (flavor,) = world.of_kind(RESOURCE_FLAVORS)
    classes = tuple(
        replace(class_, pod_sets=tuple(map(_without_request, class_.pod_sets)))
        for class_ in world.scenario.classes
    )
    without = replace(world, scenario=replace(world.scenario, nodes=(), classes=classes))
    return _with_object(
        without, RESOURCE_FLAVORS, replace(flavor, spec=replace(flavor.spec, topology_name=""))
    )


def _without_request(shape: PodSetShape) -> PodSetShape:
    template = json.decode(shape.template)
    template.pop("metadata", None)
    return replace(shape, template=Raw(json.encode(template)))


def _with_object(world: World, resource: Resource[Any], changed: Any) -> World:
    key = resource.api_version, resource.kind, changed.metadata.key
    return replace(world, objects={**world.objects, key: changed})
