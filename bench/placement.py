"""``python -m bench.placement``: how fast nodes are found for pods, alone in one process.

Ends with status 1 when a limit of ``limits.yaml`` is broken.  Times are processor time, so that what else
runs on the machine disturbs little.
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
from bench.nodes import PACKING, SPREADING, Crowd, make_node, pod_as_stored, uids
from quorate.api import codec
from quorate.api.core.scheduling import Pod
from quorate.api.meta import Uid
from quorate.placement.cluster import AllocationState
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.node_finder import Choice
from quorate.placement.scoring import Scoring

NODES: Final = 5_000


def one_large_gang(scoring: Scoring) -> float:
    """Seconds for 10,000 equal pods on nodes that nobody was placed on before."""
    crowd = Crowd(NODES, scoring)
    (kind,) = crowd.kinds(1, seed=7)
    before = thread_time()
    for pod in islice(uids(), 10_000):
        choice = crowd.node_finder.best(kind)
        assert isinstance(choice, Choice), f"there is room for all of them: {choice}"
        crowd.cluster.add_pod(pod, kind, choice.node, AllocationState.USED)
    taken = thread_time() - before
    assert crowd.cluster.total_used["pods"] == 10_000, "time placing, not refusing"
    return taken


def small_gangs() -> float:
    """Decisions a second for 1,000 gangs of 10 pods in 20 shapes, in turn, on nodes that are half full."""
    crowd = Crowd(NODES, SPREADING)
    kinds = crowd.kinds(20, seed=7)
    pod_counts = crowd.fill_half(kinds, seed=8)
    pods = uids()
    before = thread_time()
    for gang in range(1_000):
        kind = kinds[gang % len(kinds)]
        for _ in range(10):
            choice = crowd.node_finder.best(kind)
            assert isinstance(choice, Choice), f"there is room for all of them: {choice}"
            crowd.cluster.add_pod(next(pods), kind, choice.node, AllocationState.USED)
    taken = thread_time() - before
    assert crowd.cluster.total_used["pods"] == pod_counts + 10_000, "time placing, not refusing"
    return 10_000 / taken


def mixed_pods() -> float:
    """Decisions a second when no two pods in a row are of one shape, 20 of them in turn."""
    crowd = Crowd(NODES, SPREADING)
    kinds = crowd.kinds(20, seed=7)
    crowd.fill_half(kinds, seed=8)
    count = 2_000
    before = thread_time()
    for number, pod in enumerate(islice(uids(), count)):
        kind = kinds[number % len(kinds)]
        choice = crowd.node_finder.best(kind)
        assert isinstance(choice, Choice), f"there is room for all of them: {choice}"
        crowd.cluster.add_pod(pod, kind, choice.node, AllocationState.USED)
    return count / (thread_time() - before)


def refusals() -> float:
    """Milliseconds to refuse 1,000 gangs of 20 shapes for which there is no room anywhere."""
    crowd = Crowd(NODES, SPREADING)
    crowd.fill_half(crowd.kinds(20, seed=7), seed=8)
    kinds = [crowd.shapes.of(codec.decode(Pod, pod_as_stored(0, 100_000 + cpu, 1))) for cpu in range(20)]
    before = thread_time()
    for gang in range(1_000):
        verdict = crowd.node_finder.best(kinds[gang % len(kinds)])
        assert isinstance(verdict, Diagnosis), f"there is no room: {verdict}"
        assert verdict.never_fits, "no node is so large"
    return 1_000 * (thread_time() - before)


def pod_event() -> float:
    """Microseconds for a pod that comes or goes."""
    crowd = Crowd(NODES, SPREADING)
    (kind,) = crowd.kinds(1, seed=7)
    names = list(crowd.cluster.names())
    pods = list(islice(uids(), 20_000))
    before = thread_time()
    for number, pod in enumerate(pods):
        crowd.cluster.add_pod(pod, kind, names[number % len(names)], AllocationState.USED)
    for pod in pods:
        crowd.cluster.remove_pod(pod)
    return 1e6 * (thread_time() - before) / (2 * len(pods))


def node_event() -> float:
    """Microseconds for a node that goes, a node that comes, and a decision after each."""
    crowd = Crowd(NODES, SPREADING)
    (kind,) = crowd.kinds(1, seed=7)
    crowd.node_finder.best(kind)
    count = 200
    before = thread_time()
    for number in range(count):
        node = make_node(number)
        crowd.cluster.remove_node(node.metadata.name)
        crowd.node_finder.best(kind)
        crowd.cluster.set_node(node)
        crowd.node_finder.best(kind)
    return 1e6 * (thread_time() - before) / (2 * count)


def bytes_a_pod() -> float:
    """The memory one placed pod takes: the object as decoded, and all that is kept of it."""
    crowd = Crowd(NODES, SPREADING)
    names = list(crowd.cluster.names())
    pods: dict[Uid, Pod] = {}

    def add(number: int) -> None:
        stored = pod_as_stored(number, 1_000 + number % 20, 4, job=f"train-{number // 10}")
        pod = codec.decode(Pod, stored)
        pods[pod.metadata.uid] = pod
        crowd.cluster.add_pod(
            pod.metadata.uid, crowd.shapes.of(pod), names[number % NODES], AllocationState.USED
        )

    count = 4 * NODES
    for number in range(count):  # so that everything there is one of is there, and caches are full
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


def main(rounds: Annotated[int, typer.Option(min=1, help="How often to measure each thing.")] = 3) -> None:
    """Measure placement, and hold it to its limits."""
    console = Console()
    with console.status("measuring placement"):
        values = {name: [measure() for _ in range(rounds)] for name, measure in MEASURES.items()}
    sys.exit(check_limits(values, console))


if __name__ == "__main__":
    typer.run(main)
