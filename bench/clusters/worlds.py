"""The worlds of the benchmark of several clusters: those of ``bench.backfill``, split over unequal workers.

The machine of a world has 128 processors or GPUs.  One worker has as many, so that each job fits somewhere,
and the others have a part of it.  Submissions come faster by as much as the workers together are larger than
the machine, so that the load is that of the world.  The manager has quota for all jobs, so that every wait is
one of the workers; its flavor has no topology, since the workers place the pods.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from bench.backfill.worlds import Setting, world_of
from quorate.simulate.inputs.cluster_worlds import ClusterWorlds, cluster_worlds
from quorate.simulate.inputs.distributions import Exponential
from quorate.simulate.inputs.worker_clusters import WorkerCluster
from quorate.simulate.inputs.world import World

# Eighths of the machine, in the configured order of the workers.
EIGHTHS: Final[Mapping[int, tuple[int, ...]]] = {3: (4, 8, 2), 5: (3, 8, 2, 6, 4)}


def split_world(
    name: str, setting: Setting, clusters: int, jobs: int, seed: int, directory: Path
) -> ClusterWorlds:
    """Return a world of ``bench.backfill``, split over so many clusters; ``directory`` is for its files."""
    shares = [eighths / 8 for eighths in EIGHTHS[clusters]]
    world = _faster(world_of(name, setting, jobs, seed, directory), sum(shares))
    workers = tuple(WorkerCluster(chr(ord("a") + at), share) for at, share in enumerate(shares))
    return cluster_worlds(replace(world, scenario=replace(world.scenario, clusters=workers)))


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
