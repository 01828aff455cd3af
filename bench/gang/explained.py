"""The cost of the explanation of one pod group on a large cluster: sessions that are rehearsed in turn."""

from itertools import count
from time import thread_time
from typing import Final

from msgspec.structs import replace

from bench.gang.core import MEMBERS, NODES
from bench.gang.worlds import NOW_S, configuration, equal_nodes, group, model_of, pod
from quorate.api.quantity import parse_text
from quorate.api.volcano import PodGroup
from quorate.gang.explanation import GroupFacts
from quorate.gang.remedies import group_facts

RUNNING: Final = 5_000  # gangs
WAITING: Final = 1_000  # gangs, with members of more cpus than any node has free
ACTIONS: Final = "enqueue, allocate, backfill, preempt"


def waiting_group(number: int) -> PodGroup:
    waits = group(f"waits-{number}", MEMBERS, "Pending")
    return replace(waits, spec=replace(waits.spec, min_resources={"cpu": parse_text("900")}))


def explained_group() -> float:
    """Return the seconds for the reasons and remedies of a group, in the model of 50,000 pods."""
    model, numbers = model_of(equal_nodes(NODES)), count()
    for gang in range(RUNNING):
        model.set_group(group(f"runs-{gang}", MEMBERS, "Running"))
        for member in range(MEMBERS):
            name = f"node-{(gang * MEMBERS + member) % NODES:05}"
            model.set_pod(pod(next(numbers), f"runs-{gang}", 3_000, 8, node=name))
    for gang in range(WAITING):
        model.set_group(waiting_group(gang))
        for _ in range(MEMBERS):
            model.set_pod(pod(next(numbers), f"waits-{gang}", 90_000 + 100 * (gang % 20), 8))
    steps = group_facts(model, waiting_group(0), configuration(actions=ACTIONS), NOW_S)
    began = thread_time()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            facts: GroupFacts = end.value
            break
    assert facts.remedies, "the measure is of the search for remedies"
    return thread_time() - began
