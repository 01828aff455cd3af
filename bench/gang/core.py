"""The measures that have limits: whole sessions, from the opening to the outcome.

Times are processor time, so that other work on the machine has little influence.
"""

import gc
import random
import tracemalloc
from itertools import count
from statistics import median
from time import thread_time
from typing import Final

from bench.gang.worlds import NOW_S, configuration, equal_nodes, group, hyper_nodes, model_of, pod
from quorate.api.core.pod import Pod
from quorate.api.interning import share_unchanged_metadata
from quorate.api.meta import Key
from quorate.gang.cache.model import Model
from quorate.gang.outcome import Outcome
from quorate.gang.session_run import run_session

NODES: Final = 5_000
MEMBERS: Final = 10
NODES_IN_USE: Final = 1_500  # each gets ten pods


def one_large_gang() -> float:
    """Return the seconds for a gang of 10,000 equal pods."""
    model = model_of(equal_nodes(NODES))
    model.set_group(group("large", 10_000))
    for number in range(10_000):
        model.set_pod(pod(number, "large", 4_000, 8))
    seconds, outcome = timed(model)
    assert len(outcome.binds) == 10_000, "the measure is of placement, not of refusals"
    return seconds


def small_gangs() -> float:
    """Return decisions a second for 1,000 gangs of 10 pods in 20 shapes on half-full nodes."""
    model = model_of(equal_nodes(NODES))
    numbers = count()
    _fill_half(model, numbers)
    kinds = _kinds(20)
    for gang in range(1_000):
        model.set_group(group(f"gang-{gang}", MEMBERS))
        for _ in range(MEMBERS):
            model.set_pod(pod(next(numbers), f"gang-{gang}", *kinds[gang % len(kinds)]))
    seconds, outcome = timed(model)
    assert len(outcome.binds) == 10_000, "the measure is of placement, not of refusals"
    return len(outcome.binds) / seconds


def gang_within_a_hyper_node() -> float:
    """Return the milliseconds for a gang of 1,000 pods within one block of 500 of 10,000 nodes.

    It is the median of several gangs. The session of a gang before them has read all nodes.
    """
    model = model_of(equal_nodes(2 * NODES))
    for hyper_node in hyper_nodes(2 * NODES, rack=25, block=20):
        model.set_hyper_node(hyper_node)
    numbers = count()
    times: list[float] = []
    for gang in range(8):
        model.set_group(group(f"gang-{gang}", 1_000, hard_tier=2))
        for _ in range(1_000):
            model.set_pod(pod(next(numbers), f"gang-{gang}", 4_000, 8))
        seconds, outcome = timed(model)
        assert len(outcome.binds) == 1_000, "the measure is of placement, not of refusals"
        times.append(1_000 * seconds)
    return median(times[1:])


def idle_session() -> float:
    """Return the milliseconds for a session over 50,000 pods where no gang can start.

    4,500 gangs run, and 500 wait.
    """
    model = model_of(equal_nodes(NODES))
    numbers = count()
    for gang in range(4_500):
        model.set_group(group(f"runs-{gang}", MEMBERS, "Running"))
        for member in range(MEMBERS):
            name = f"node-{(gang * MEMBERS + member) % NODES:05}"
            model.set_pod(pod(next(numbers), f"runs-{gang}", 3_000, 8, node=name))
    for gang in range(500):
        model.set_group(group(f"waits-{gang}", MEMBERS))
        for _ in range(MEMBERS):
            model.set_pod(pod(next(numbers), f"waits-{gang}", 90_000 + 100 * (gang % 20), 8))
    timed(model)  # the first session writes the status of every gang
    seconds, outcome = timed(model)
    assert not outcome.binds, "nothing can start"
    return 1_000 * seconds


def behind_hopeless_gangs() -> float:
    """Return the seconds of the session that places a gang behind 10,000 gangs that do not fit.

    Part of the members of each would find nodes, and they are of 20 shapes.
    """
    model = model_of(equal_nodes(NODES))
    numbers = count()
    for gang in range(10_000):
        model.set_group(group(f"a-{gang:05}", MEMBERS))
        for _ in range(MEMBERS):
            model.set_pod(pod(next(numbers), f"a-{gang:05}", 90_000 + 100 * (gang % 20), 8))
    timed(model)  # places those that fit, and writes the status of every gang
    model.set_group(group("fits", MEMBERS))
    for _ in range(MEMBERS):
        model.set_pod(pod(next(numbers), "fits", 1_000, 1))
    seconds, outcome = timed(model)
    assert len(outcome.binds) == MEMBERS, "only the gang that fits is placed"
    assert len(outcome.pending_reasons) > 9_000, "the gangs before it are tried"
    return seconds


def behind_gangs_of_many_shapes() -> float:
    """Return the seconds of the session that places a gang behind 1,000 gangs of as many shapes.

    No member of them fits any node.
    """
    model = model_of(equal_nodes(NODES))
    numbers = count()
    for gang in range(1_000):
        model.set_group(group(f"a-{gang:04}", MEMBERS))
        for _ in range(MEMBERS):
            model.set_pod(pod(next(numbers), f"a-{gang:04}", 200_000 + 10 * gang, 8))
    model.set_group(group("first", MEMBERS))
    for _ in range(MEMBERS):
        model.set_pod(pod(next(numbers), "first", 1_000, 1))
    timed(model)  # places the first one, and writes the status of every gang
    model.set_group(group("fits", MEMBERS))
    for _ in range(MEMBERS):
        model.set_pod(pod(next(numbers), "fits", 1_000, 1))
    seconds, outcome = timed(model)
    assert len(outcome.binds) == MEMBERS, "only the gang that fits is placed"
    assert len(outcome.pending_reasons) == 1_000, "the gangs before it are tried"
    return seconds


def behind_gangs_that_fit_in_part() -> float:
    """Return the seconds of the session that places a gang behind 1,000 gangs of as many shapes.

    A third of the nodes takes one member of each, so that all of these nodes would be filled in vain.
    """
    model = model_of(equal_nodes(50))
    numbers = count()
    for gang in range(1_000):
        model.set_group(group(f"a-{gang:04}", 60))
        for _ in range(60):
            model.set_pod(pod(next(numbers), f"a-{gang:04}", 90_000 + 3 * gang, 8))
    timed(model)  # writes the status of every gang
    model.set_group(group("fits", MEMBERS))
    for _ in range(MEMBERS):
        model.set_pod(pod(next(numbers), "fits", 1_000, 1))
    seconds, outcome = timed(model)
    assert len(outcome.binds) == MEMBERS, "only the gang that fits is placed"
    assert len(outcome.pending_reasons) == 1_000, "the gangs before it are tried"
    return seconds


def bytes_a_pod() -> float:
    """Return the memory of one running pod: decoded, in its informer's cache, and in the model."""
    model = model_of(equal_nodes(NODES_IN_USE))
    watched: dict[Key, Pod] = {}
    numbers = count()

    def add(gang: int) -> None:
        model.set_group(group(f"runs-{gang}", MEMBERS, "Running"))
        for _ in range(MEMBERS):
            number = next(numbers)
            name = f"node-{number % NODES_IN_USE:05}"
            for node in ("", name):  # it is created, and then it runs
                stored = pod(number, f"runs-{gang}", 1_000, 4, node=node)
                if node:
                    share_unchanged_metadata(watched[stored.metadata.key].metadata, stored.metadata)
                watched[stored.metadata.key] = stored
                model.set_pod(stored)

    for gang in range(4 * NODES_IN_USE // MEMBERS):  # allocates all that exists once
        add(gang)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for gang in range(4 * NODES_IN_USE // MEMBERS, NODES_IN_USE):
        add(gang)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / (6 * NODES_IN_USE)


def timed(model: Model, actions: str = "enqueue, allocate, backfill") -> tuple[float, Outcome]:
    """Run a session; return its seconds and its outcome."""
    settings = configuration(actions=actions)
    gc.collect()
    before = thread_time()
    outcome = run_session(model, settings, NOW_S)
    return thread_time() - before, outcome


def _fill_half(model: Model, numbers: "count[int]") -> None:
    """Add running pods to all nodes until half of their cpus are used."""
    model.set_group(group("other-pods", 1, "Running"))
    cluster = model.cluster
    for name in sorted(cluster.names()):
        index = cluster.index(name)
        while 2 * cluster.used[0, index] < cluster.allocatable[0, index]:
            model.set_pod(pod(next(numbers), "other-pods", 8_000, 16, node=name))


def _kinds(how_many: int) -> list[tuple[int, int]]:
    """Return different requests of one to eight cpus, and of memory."""
    rng = random.Random(7)
    found: dict[tuple[int, int], None] = {}
    while len(found) < how_many:
        found[rng.randint(1_000, 8_000), rng.randint(1, 32)] = None
    return list(found)
