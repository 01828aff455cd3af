"""The queueing model of a whole cluster, loaded once from lists and never written back.

The controllers decide on the same model with the same cycle.
"""

from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.controllers.feeds import queueing_feeds
from quorate.kube.client import Client
from quorate.kube.feed import load
from quorate.queueing.decisions import Decision
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State

_MAX_CYCLES: Final = 10_000  # each decides on hundreds of workloads; stop evaluating a larger backlog


async def model_of(client: Client, configuration: Configuration, now: float) -> State:
    """Return the model that a controller process would have if it started now."""
    state = State(configuration)
    await load(client, queueing_feeds(state, lambda: now))
    return state


def evaluate_all(state: State, now: float) -> dict[Key, Decision]:
    """Return the decision on every workload, as if each cycle's decisions were written to ``state``."""
    decided: dict[Key, Decision] = {}
    admission_cycle = AdmissionCycle(state)
    for _ in range(_MAX_CYCLES):
        cycle = admission_cycle.run(now)
        decided |= {decision.key: decision for decision in cycle.decisions}
        if cycle.wake_at != now:
            break
    return decided
