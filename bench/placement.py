"""``python -m bench.placement``: measure node selection, alone in one process.

Exit with status 1 if a limit of ``limits.yaml`` is exceeded.  Times are processor time, which other load on
the machine affects little.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from itertools import islice
from time import thread_time
from typing import Annotated, Final

import typer
from rich.console import Console

from bench.limits import check_limits
from bench.nodes import PACKING, SPREADING, World, make_node, pod_as_stored, uids
from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.meta import Uid
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.node_finder import Choice
from quorate.placement.scoring import Scoring

NODES: Final = 5_000


def one_large_gang(scoring: Scoring) -> float:
    """Return the seconds to place 10,000 equal pods on empty nodes."""
    world = World(NODES, scoring)
    (shape,) = world.make_shapes(1, seed=7)
    before = thread_time()
    for pod in islice(uids(), 10_000):
        choice = world.finder.best(shape)
        assert isinstance(choice, Choice), f"all pods must fit: {choice}"
        world.cluster.add_pod(pod, shape, choice.node, AllocationState.USED)
    taken = thread_time() - before
    assert world.cluster.total_used["pods"] == 10_000, "measure placing, not refusing"
    return taken


def small_gangs() -> float:
    """Return decisions a second for 1,000 gangs of 10 pods, of 20 shapes in turn.

    The nodes are half full.
    """
    world = World(NODES, SPREADING)
    shapes = world.make_shapes(20, seed=7)
    running = world.fill_half(shapes, seed=8)
    pods = uids()
    before = thread_time()
    for gang in range(1_000):
        shape = shapes[gang % len(shapes)]
        for _ in range(10):
            choice = world.finder.best(shape)
            assert isinstance(choice, Choice), f"all pods must fit: {choice}"
            world.cluster.add_pod(next(pods), shape, choice.node, AllocationState.USED)
    taken = thread_time() - before
    assert world.cluster.total_used["pods"] == running + 10_000, "measure placing, not refusing"
    return 10_000 / taken


def mixed_pods() -> float:
    """Return decisions a second for single pods of 20 shapes in turn."""
    world = World(NODES, SPREADING)
    shapes = world.make_shapes(20, seed=7)
    world.fill_half(shapes, seed=8)
    count = 2_000
    before = thread_time()
    for number, pod in enumerate(islice(uids(), count)):
        shape = shapes[number % len(shapes)]
        choice = world.finder.best(shape)
        assert isinstance(choice, Choice), f"all pods must fit: {choice}"
        world.cluster.add_pod(pod, shape, choice.node, AllocationState.USED)
    return count / (thread_time() - before)


def refusals() -> float:
    """Return the milliseconds to diagnose 1,000 gangs of 20 shapes that fit no node."""
    world = World(NODES, SPREADING)
    world.fill_half(world.make_shapes(20, seed=7), seed=8)
    shapes = [world.shapes.of(codec.decode(Pod, pod_as_stored(0, 100_000 + cpu, 1))) for cpu in range(20)]
    before = thread_time()
    for gang in range(1_000):
        diagnosis = world.finder.best(shapes[gang % len(shapes)])
        assert isinstance(diagnosis, Diagnosis), f"no pod may fit: {diagnosis}"
        assert diagnosis.never_fits, "no node is large enough"
    return 1_000 * (thread_time() - before)


def pod_event() -> float:
    """Return the microseconds to add or remove a pod."""
    world = World(NODES, SPREADING)
    (shape,) = world.make_shapes(1, seed=7)
    names = list(world.cluster.names())
    pods = list(islice(uids(), 20_000))
    before = thread_time()
    for number, pod in enumerate(pods):
        world.cluster.add_pod(pod, shape, names[number % len(names)], AllocationState.USED)
    for pod in pods:
        world.cluster.remove_pod(pod)
    return 1e6 * (thread_time() - before) / (2 * len(pods))


def node_event() -> float:
    """Return the microseconds to add or remove a node, with one decision after it."""
    world = World(NODES, SPREADING)
    (shape,) = world.make_shapes(1, seed=7)
    world.finder.best(shape)
    count = 200
    before = thread_time()
    for number in range(count):
        node = make_node(number)
        world.cluster.remove_node(node.metadata.name)
        world.finder.best(shape)
        world.cluster.set_node(node)
        world.finder.best(shape)
    return 1e6 * (thread_time() - before) / (2 * count)


def bytes_a_pod() -> float:
    """Return the bytes per placed pod: the decoded object and all that is retained of it."""
    world = World(NODES, SPREADING)
    names = list(world.cluster.names())
    pods: dict[Uid, Pod] = {}

    def add(number: int) -> None:
        stored = pod_as_stored(number, 1_000 + number % 20, 4, job=f"train-{number // 10}")
        pod = codec.decode(Pod, stored)
        pods[pod.metadata.uid] = pod
        world.cluster.add_pod(
            pod.metadata.uid, world.shapes.of(pod), names[number % NODES], AllocationState.USED
        )

    count = 4 * NODES
    for number in range(count):  # fill all shared objects and caches
        add(number)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(count):
        add(count + number)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / count


MEASURES: Final[Mapping[str, Callable[[], float]]] = {
    "placement: 10,000 pods on 5,000 nodes, spread, s": lambda: one_large_gang(SPREADING),
    "placement: 10,000 pods on 5,000 nodes, packed, s": lambda: one_large_gang(PACKING),
    "placement: 1,000 × 10 of 20 shapes, a second": small_gangs,
    "placement: 20 shapes in turn, a second": mixed_pods,
    "placement: 1,000 refusals, ms": refusals,
    "placement: a pod comes or goes, µs": pod_event,
    "placement: a node comes or goes, µs": node_event,
    "placement: bytes a pod": bytes_a_pod,
}


def main(
    rounds: Annotated[int, typer.Option(min=1, help="The number of measurements of each shape.")] = 3,
) -> None:
    """Measure placement and compare it with its limits."""
    console = Console()
    with console.status("measuring placement"):
        values = {name: [measure() for _ in range(rounds)] for name, measure in MEASURES.items()}
    sys.exit(check_limits(values, console))


if __name__ == "__main__":
    typer.run(main)
