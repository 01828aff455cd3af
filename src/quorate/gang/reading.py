"""What the objects of the API mean to the gang core."""

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Final

from quorate.api.core import ResourceQuota, Resources
from quorate.api.core.scheduling import Pod
from quorate.api.meta import Key, epoch
from quorate.api.quantity import Quantity
from quorate.api.volcano import OPEN, ROOT_QUEUE
from quorate.api.volcano import Queue as QueueObject
from quorate.api.volcano.annotations import (
    GROUP_NAME,
    HIERARCHY,
    HIERARCHY_WEIGHTS,
    PREEMPTABLE,
    TASK_PRIORITY,
    TASK_SPEC,
    is_removed_on_admission,
)
from quorate.gang.queue import NamespaceQuota, Queue
from quorate.gang.quota import plain
from quorate.gang.task import Standing, Task
from quorate.placement.resources import MEMORY, in_base_units, placed_pod_amounts
from quorate.placement.shapes import Shape
from quorate.quota.amount import CPU, UNLIMITED, base_units

DEFAULT_POD_PRIORITY: Final = 1  # of a pod to which no priority class was applied
CRITICAL_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})

_WEIGHT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def group_of(pod: Pod, schedulers: Collection[str]) -> Key | None:
    """The pod group that ``pod`` belongs to; ``None`` when it has none, or another scheduler places it."""
    name = pod.metadata.annotations.get(GROUP_NAME)
    return Key(pod.metadata.namespace, name) if name and pod.spec.scheduler_name in schedulers else None


def is_gone(pod: Pod) -> bool:
    """Whether it holds nothing any more: its containers have ended for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def standing_of(pod: Pod) -> Standing:
    match pod.status.phase:
        case "Succeeded":
            return Standing.SUCCEEDED
        case "Failed":
            return Standing.FAILED
        case _ if pod.metadata.deletion_timestamp is not None:
            return Standing.RELEASING
        case "Running":
            return Standing.RUNNING
        case "Pending":
            return Standing.BOUND if pod.node_name else Standing.PENDING
        case _:
            return Standing.UNKNOWN


def differ_in_standing_only(one: Pod, other: Pod) -> bool:
    """Whether two versions of a pod differ in nothing but its node, its phase and what is told of them.

    What its containers are said to hold counts only where it is not what the pod asks for.
    """
    before, after = one.metadata, other.metadata
    return (
        before.uid == after.uid
        and before.deletion_timestamp == after.deletion_timestamp
        and before.labels == after.labels
        and before.annotations == after.annotations
        and (one.spec is other.spec or one.spec == other.spec)
        and (
            _containers_of(one) == _containers_of(other)
            or placed_pod_amounts(one) == placed_pod_amounts(other)
        )
    )


def _containers_of(pod: Pod) -> object:
    return pod.status.container_statuses, pod.status.init_container_statuses


def task_of(pod: Pod, key: Key, gang: Key, shape: Shape, quota_usage: Mapping[str, int]) -> Task:
    """What ``pod`` is in ``gang``.  Its ``key`` is given, as is the gang's, to be in memory once."""
    metadata, spec = pod.metadata, pod.spec
    annotations, gates = metadata.annotations, spec.scheduling_gates
    return Task(
        pod=pod,
        key=key,
        uid=metadata.uid,
        gang=gang,
        role=annotations.get(TASK_SPEC) or metadata.labels.get(TASK_SPEC, ""),
        shape=shape,
        priority=_priority_of(pod),
        created=_created(metadata.creation_timestamp),
        preemptable=annotations.get(PREEMPTABLE, "true").lower() != "false",
        preempts=spec.preemption_policy != "Never",
        critical=spec.priority_class_name in CRITICAL_CLASSES or metadata.namespace == "kube-system",
        gated=bool(gates),
        gated_by_others=not all(is_removed_on_admission(gate.name, annotations) for gate in gates),
        nominated=pod.status.nominated_node_name,
        quota_usage=quota_usage,
        standing=standing_of(pod),
        node=pod.node_name,
    )


@lru_cache(maxsize=1_024)
def _created(moment: datetime | None) -> float:
    """One number for all pods of a second, of which a gang has many."""
    return 0.0 if moment is None else epoch(moment)


def _priority_of(pod: Pod) -> int:
    override = pod.metadata.annotations.get(TASK_PRIORITY, "")
    if override.removeprefix("-").isdecimal():
        return int(override)
    return DEFAULT_POD_PRIORITY if pod.spec.priority is None else pod.spec.priority


def queue_of(queue: QueueObject) -> Queue:
    """``queue`` in base units.  One without a state is open: its controller has not come by yet."""
    metadata, spec = queue.metadata, queue.spec
    is_root = metadata.name == ROOT_QUEUE
    return Queue(
        name=metadata.name,
        weight=spec.weight,
        priority=spec.priority,
        parent="" if is_root else spec.parent or ROOT_QUEUE,
        is_open=queue.status.state in ("", OPEN),
        reclaimable=spec.reclaimable,
        capability=limits(spec.capability),
        deserved=in_base_units(spec.deserved),
        guarantee=in_base_units(spec.guarantee.resource),
        max_pod_groups=UNLIMITED if spec.max_pod_groups is None else spec.max_pod_groups,
        dequeue="fifo" if spec.dequeue_strategy == "fifo" else "traverse",
        created=epoch(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0,
        weights=_weights(metadata.annotations),
    )


def _weights(annotations: Mapping[str, str]) -> tuple[tuple[str, Fraction], ...]:
    """The path a queue's annotations give it in a tree of weights, without the root; weights from 1 up."""
    path = annotations.get(HIERARCHY, "").split("/")
    weights = annotations.get(HIERARCHY_WEIGHTS, "").split("/")
    if len(path) != len(weights) or not all(map(_WEIGHT.fullmatch, weights)):
        return ()
    steps = zip(path, weights, strict=True)
    return tuple((name, max(Fraction(1), Fraction(weight))) for name, weight in steps)[1:]


def limits(quantities: Resources) -> dict[str, int]:
    """What a queue may have at most.  Of cpu and memory 0 is no limit (source: Volcano), of others it is."""
    return {
        resource: amount
        for resource, amount in in_base_units(quantities).items()
        if amount > 0 or resource not in (CPU, MEMORY)
    }


def quota_of(quota: ResourceQuota) -> NamespaceQuota:
    """``quota`` as its controller last counted it, under the names as they stand there."""
    return NamespaceQuota(
        key=quota.metadata.key,
        hard=quota_units(quota.status.hard or quota.spec.hard),
        used=quota_units(quota.status.used),
        spec=quota.spec,
    )


def quota_units(amounts: Mapping[str, Quantity]) -> Mapping[str, int]:
    """``amounts`` in base units under the names that quotas use: ``requests.cpu`` counts milli-cpus too."""
    return {name: base_units(CPU if plain(name) == CPU else name, amount) for name, amount in amounts.items()}
