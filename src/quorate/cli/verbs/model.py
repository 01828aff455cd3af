"""The queueing core's model of a whole cluster, made from lists, to be asked and thrown away.

It is the model the controllers decide on, and it judges by the same cycle; but nothing it decides is
written anywhere.
"""

import asyncio
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOADS,
)
from quorate.queueing.decisions import Decision
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State

_MOST_CYCLES: Final = 10_000  # each decides on hundreds; a cluster this deep in work is not waited for


async def model_of(client: Client, configuration: Configuration, now: float) -> State:
    """The state of the core as a process would have it that starts now."""
    namespaces, limit_ranges, runtime_classes, flavors, cohorts = await asyncio.gather(
        client.list(NAMESPACES),
        client.list(LIMIT_RANGES),
        client.list(RUNTIME_CLASSES),
        client.list(RESOURCE_FLAVORS),
        client.list(COHORTS),
    )
    checks, cluster_queues, local_queues, workloads = await asyncio.gather(
        client.list(ADMISSION_CHECKS),
        client.list(CLUSTER_QUEUES),
        client.list(LOCAL_QUEUES),
        client.list(WORKLOADS),
    )
    state = State(configuration)
    for namespace in namespaces.items:
        state.put_namespace(namespace.metadata.name, namespace.metadata.labels)
    for limit_range in limit_ranges.items:
        state.put_limit_range(limit_range)
    for runtime_class in runtime_classes.items:
        state.put_runtime_class(runtime_class)
    for flavor in flavors.items:
        state.put_flavor(flavor)
    for cohort in cohorts.items:
        state.put_cohort(cohort)
    for check in checks.items:
        state.put_admission_check(check)
    for cluster_queue in cluster_queues.items:
        state.put_cluster_queue(cluster_queue)
    for local_queue in local_queues.items:
        state.put_local_queue(local_queue)
    for workload in workloads.items:
        state.put_workload(workload, now)
    return state


def evaluate_all(state: State, now: float) -> dict[Key, Decision]:
    """What the core would decide now about everybody; ``state`` goes on as if it were written."""
    decided: dict[Key, Decision] = {}
    admission_cycle = AdmissionCycle(state)
    for _ in range(_MOST_CYCLES):
        cycle = admission_cycle.run(now)
        decided |= {decision.key: decision for decision in cycle.decisions}
        if cycle.wake_at != now:
            break
    return decided
