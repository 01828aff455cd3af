"""How many gangs start and how many GPUs are stranded on a fragmented cluster.

The baselines place the same pods by the same scores, but one by one, job after job: the best that a scheduler
without gangs does.  A GPU is *stranded* if it is free while gangs wait, or allocated to a member of a gang
that could not start.
"""

import random
from collections import Counter
from typing import Final, NamedTuple

from bench.gang.worlds import NOW_S, PACK, SPREAD, configuration, gpu_node, group, model_of, pod
from quorate.api.meta import Key
from quorate.gang.session_run import run_session

NODES: Final = 100
GPUS: Final = 8
GANGS: Final = 120
SIZES: Final = ((2, 8), (4, 4), (4, 8), (8, 2), (8, 4), (16, 1), (3, 6))  # members, and GPUs of each member


class Quality(NamedTuple):
    started: int
    working_gpus: int  # of gangs that started
    stranded_gpus: int


SCHEDULERS: Final = {
    "gangs, packed": (True, PACK),
    "gangs, spread": (True, SPREAD),
    "single pods, binpack": (False, PACK),
    "single pods, least allocated": (False, SPREAD),
}


def measure(*, by_gang: bool, scores: str, seed: int) -> Quality:
    """Place gangs on a cluster of which about a third is allocated, scattered over the nodes."""
    rng = random.Random(seed)
    model = model_of(gpu_node(number, GPUS) for number in range(NODES))
    numbers = iter(range(1_000_000))
    free = 0
    model.set_group(group("other-pods", 1, "Running"))
    for number in range(NODES):
        taken = rng.choice((0, 0, 1, 2, 3, 4, 5, 6))
        free += GPUS - taken
        if taken:
            model.set_pod(pod(next(numbers), "other-pods", 1_000, 4, taken, f"gpu-{number:05}"))
    sizes = [rng.choice(SIZES) for _ in range(GANGS)]
    owners: dict[Key, int] = {}
    for gang, (count, gpus) in enumerate(sizes):
        for number in range(count):
            name = f"gang-{gang:04}" if by_gang else f"gang-{gang:04}-{number:02}"
            model.set_group(group(name, count if by_gang else 1))
            member = pod(next(numbers), name, 1_000, 4, gpus)
            owners[member.metadata.key] = gang
            model.set_pod(member)
    outcome = run_session(model, configuration(scores, "allocate, backfill"), NOW_S)
    placed = Counter(owners[bind.task] for bind in outcome.binds)
    started = [gang for gang, (count, _) in enumerate(sizes) if placed[gang] == count]
    working = sum(sizes[gang][0] * sizes[gang][1] for gang in started)
    return Quality(len(started), working, free - working)
