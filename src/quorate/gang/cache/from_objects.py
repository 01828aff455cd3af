"""The conversion of API objects to the gang core's tasks, queues and quotas."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Final
from weakref import ReferenceType, ref

import msgspec

from quorate.api import codec
from quorate.api.configuration.planned_starts import BACKFILL
from quorate.api.core import ResourceQuota, Resources
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import quota_usage
from quorate.api.core.scheduling import PodSpec
from quorate.api.meta import Key, ObjectMeta, epoch
from quorate.api.names import volcano as names
from quorate.api.names.kueue import MAX_EXEC_TIME_SECONDS, QUEUE_NAME
from quorate.api.native_groups import PodGroupSpec as NativeGroupSpec
from quorate.api.quantity import Quantity
from quorate.api.syntax import parse_boolean, positive_int32, signed_int32
from quorate.api.volcano import OPEN, ROOT_QUEUE, PodGroup
from quorate.api.volcano import Queue as QueueObject
from quorate.gang.admission_record import admission_record
from quorate.gang.cache.gang import Gang, GroupMetadata
from quorate.gang.cache.group_owner import group_owner
from quorate.gang.cache.native_groups import native_group_of, native_topology
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.quota_admission import is_suspended
from quorate.gang.cache.sub_groups import gang_topology
from quorate.gang.cache.task import FINISHED_STATUSES, Task, TaskStatus
from quorate.gang.namespace_quota.evaluation import plain_resource
from quorate.gang.namespace_quota.quota import NamespaceQuota
from quorate.gang.outcome import Counts, GangStatus
from quorate.placement.resources import MEMORY, in_base_units, placed_pod_amounts
from quorate.placement.shapes import Shape
from quorate.quota.amount import CPU, UNLIMITED, base_units

DEFAULT_POD_PRIORITY: Final = 1  # of a pod to which no priority class was applied
CRITICAL_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
MAX_CACHED_TEMPLATES: Final = 4096  # more at once only if nearly every pod has its own template

_BACKFILLS: Final = {"None": False, "EASY": True}  # by the annotation; others do not count
_WEIGHT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def pod_group_key(pod: Pod, schedulers: Collection[str]) -> Key | None:
    """Return the key of the pod's group, of the native one if it has two.

    ``None``: it has none, or another scheduler places the pod.
    """
    if pod.spec.scheduler_name not in schedulers:
        return None
    name = pod.metadata.annotations.get(names.GROUP_NAME)
    return native_group_of(pod) or (Key(pod.metadata.namespace, name) if name else None)


def task_status_of(pod: Pod) -> TaskStatus:
    match pod.status.phase:
        case "Succeeded":
            return TaskStatus.SUCCEEDED
        case "Failed":
            return TaskStatus.FAILED
        case _ if pod.metadata.deletion_timestamp is not None:
            return TaskStatus.RELEASING
        case "Running":
            return TaskStatus.RUNNING
        case "Pending":
            return TaskStatus.BOUND if pod.node_name else TaskStatus.PENDING
        case _:
            return TaskStatus.UNKNOWN


def is_cut_short(before: Task | None, pod: Pod) -> bool:
    """Return True if ``pod`` was deleted first and ended then, as is assumed if it is new.

    ``before``: its task until now.
    """
    had_ended = before is not None and before.uid == pod.metadata.uid and before.status in FINISHED_STATUSES
    return pod.is_leaving and pod.has_ended and (not had_ended or before is None or before.cut_short)


def differ_only_in_status(one: Pod, other: Pod) -> bool:
    """Return True if two versions of a pod differ in nothing but node, phase and conditions.

    The resources in its status count only where they differ from what the pod requests.
    """
    before, after = one.metadata, other.metadata
    return (
        before.uid == after.uid
        and before.deletion_timestamp == after.deletion_timestamp
        and before.labels == after.labels
        and before.annotations == after.annotations
        and (one.spec is other.spec or one.spec == other.spec)
        and one.status.resource_claim_statuses == other.status.resource_claim_statuses
        and (one.status.in_use == other.status.in_use or placed_pod_amounts(one) == placed_pod_amounts(other))
    )


def task_from_pod(pod: Pod, key: Key, gang: Key, shape: Shape, quota_usage: Mapping[str, int]) -> Task:
    """Return the task of ``pod`` in ``gang``.

    The keys are parameters so that each is in memory once.
    """
    metadata, spec = pod.metadata, pod.spec
    annotations, gates = metadata.annotations, spec.scheduling_gates
    return Task(
        pod=pod,
        key=key,
        uid=metadata.uid,
        gang=gang,
        role=annotations.get(names.TASK_SPEC) or metadata.labels.get(names.TASK_SPEC, ""),
        shape=shape,
        priority=_priority_of(pod),
        created=_created(metadata.creation_timestamp),
        preemptable=_is_preemptable(metadata),
        may_preempt=spec.preemption_policy != "Never",
        critical=spec.priority_class_name in CRITICAL_CLASSES or metadata.namespace == "kube-system",
        gated=bool(gates),
        gated_after_admission=not all(
            names.is_removed_on_admission(gate.name, annotations) for gate in gates
        ),
        nominated_node=pod.status.nominated_node_name,
        quota_usage=quota_usage,
        status=task_status_of(pod),
        node=pod.node_name,
    )


@lru_cache(maxsize=1_024)
def _created(time: datetime | None) -> float:
    """Return one shared number for all objects that were created in the same second."""
    return 0.0 if time is None else epoch(time)


def _priority_of(pod: Pod) -> int:
    override = signed_int32(pod.metadata.annotations.get(names.TASK_PRIORITY, ""))
    if override is not None:
        return override
    return DEFAULT_POD_PRIORITY if pod.spec.priority is None else pod.spec.priority


class QuotaUsageCache:
    """The quota usage of pods, computed once for all pods of a template.

    Equal parts of decoded pods are one shared object, so that identity tells templates apart.
    """

    def __init__(self) -> None:
        # With the pod spec and the parts of the status for which it was computed.  While they exist, no other
        # object gets their identities; with the spec the usage goes, so that large pods are not kept.
        self._usages: dict[tuple[int, ...], tuple[ReferenceType[PodSpec], object, Mapping[str, int]]] = {}

    def of(self, pod: Pod) -> Mapping[str, int]:
        """Return the usage in base units, under every name by which a quota may limit it."""
        spec, in_use = pod.spec, pod.status.in_use
        parts = (spec.containers, spec.init_containers, spec.resources, spec.overhead)
        key = tuple(map(id, (*parts, *in_use)))
        cached = self._usages.get(key)
        if cached is not None:
            return cached[2]
        if len(self._usages) >= MAX_CACHED_TEMPLATES:
            self._usages.clear()
        usage = quota_amounts(quota_usage(spec, pod.status))
        self._usages[key] = (ref(spec, lambda _: self._usages.pop(key, None)), in_use, usage)
        return usage


def queue_from_object(queue: QueueObject) -> Queue:
    """Return ``queue`` in base units.

    Without a state it is open: its controller has not set one yet.
    """
    metadata, spec = queue.metadata, queue.spec
    is_root = metadata.name == ROOT_QUEUE
    return Queue(
        name=metadata.name,
        weight=spec.weight,
        priority=spec.priority,
        parent="" if is_root else spec.parent or ROOT_QUEUE,
        is_open=queue.status.state in ("", OPEN),
        reclaimable=spec.reclaimable,
        capability=capability_limits(spec.capability),
        deserved=in_base_units(spec.deserved),
        guarantee=in_base_units(spec.guarantee.resource),
        max_pod_groups=UNLIMITED if spec.max_pod_groups is None else spec.max_pod_groups,
        dequeue="fifo" if spec.dequeue_strategy == "fifo" else "traverse",
        created=epoch(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0,
        weighted_path=_weighted_path(metadata.annotations),
        affinity=spec.affinity,
        backfill=_BACKFILLS.get(metadata.annotations.get(BACKFILL, "")),
        node_group_limits=_node_group_limits(metadata.annotations.get(names.NODE_GROUP_LIMITS, "")),
    )


def _node_group_limits(text: str) -> Mapping[str, Mapping[str, int]] | None:
    """Return the limits by node group and resource, in base units; None if ``text`` is invalid."""
    if not text:
        return {}
    try:
        limits = codec.decode(dict[str, Resources], text.encode())
    except msgspec.DecodeError:
        return None
    return {group: in_base_units(quantities) for group, quantities in limits.items()}


def _weighted_path(annotations: Mapping[str, str]) -> tuple[tuple[str, Fraction], ...]:
    """Return the path in a queue's annotations without the root; weights are at least 1."""
    path = annotations.get(names.HIERARCHY, "").split("/")
    weights = annotations.get(names.HIERARCHY_WEIGHTS, "").split("/")
    if len(path) != len(weights) or not all(map(_WEIGHT.fullmatch, weights)):
        return ()
    steps = zip(path, weights, strict=True)
    return tuple((name, max(Fraction(1), Fraction(weight))) for name, weight in steps)[1:]


def capability_limits(quantities: Resources) -> dict[str, int]:
    """Return the limits of a ``capability``.

    For cpu and memory, 0 means no limit (source: Volcano); for other resources it is the limit.
    """
    return {
        resource: amount
        for resource, amount in in_base_units(quantities).items()
        if amount > 0 or resource not in (CPU, MEMORY)
    }


def quota_from_object(quota: ResourceQuota) -> NamespaceQuota:
    """Return ``quota`` in base units, with the usage that its controller reported."""
    return NamespaceQuota(
        key=quota.metadata.key,
        hard=quota_amounts(quota.status.hard or quota.spec.hard),
        used=quota_amounts(quota.status.used),
        spec=quota.spec,
    )


def status_from_object(group: PodGroup) -> GangStatus:
    """Return the status of ``group``, with the parts in annotations."""
    metadata, status = group.metadata, group.status
    counts = Counts(status.running, status.succeeded, status.failed)
    record = admission_record(metadata.annotations)
    return GangStatus(metadata.key, metadata.uid, status.phase, status.conditions, counts, record)


def has_status(group: PodGroup, status: GangStatus) -> bool:
    """Return True if ``group`` has ``status``, to the precision in which times are written."""
    stored = status_from_object(group)
    return (
        stored.admission.annotations() == status.admission.annotations()
        and replace(stored, admission=status.admission) == status
    )


def set_group_fields(gang: Gang, group: PodGroup, native: NativeGroupSpec | None) -> None:
    """Set the fields of ``gang`` that follow from the metadata and spec of its pod group alone."""
    gang.native = native
    metadata, spec = group.metadata, group.spec
    gang.generation += 1
    gang.uid, gang.spec, gang.owner = metadata.uid, spec, group_owner(group)
    gang.is_terminating = metadata.deletion_timestamp is not None
    gang.queue = spec.queue or "default"
    gang.min_member = spec.min_member
    gang.min_resources = None if spec.min_resources is None else in_base_units(spec.min_resources)
    gang.quota_minimum = quota_amounts(spec.min_resources or {})
    if native is not None:
        gang.set_topology(native_topology(native))
    elif spec.network_topology is not None or spec.sub_group_policy:
        gang.set_topology(gang_topology(spec))
    elif gang.topology is not None:
        gang.set_topology(None)
    gang.metadata = GroupMetadata(
        maximum_s=positive_int32(metadata.labels.get(MAX_EXEC_TIME_SECONDS, "")),
        local_queue=metadata.labels.get(QUEUE_NAME, ""),
        preemptable=_is_preemptable(metadata),
        annotations=metadata.annotations,
        is_suspended=is_suspended(metadata.annotations),
    )
    gang.created = _created(metadata.creation_timestamp)


def _is_preemptable(metadata: ObjectMeta) -> bool:
    """Return what the annotation says, or else the label; what is neither true nor false protects."""
    text = metadata.annotations.get(names.PREEMPTABLE, metadata.labels.get(names.PREEMPTABLE))
    return text is None or bool(parse_boolean(text))


def quota_amounts(quantities: Mapping[str, Quantity]) -> Mapping[str, int]:
    """Return base units under the names that quotas use: ``requests.cpu`` is in milli-cpus too."""
    return {
        name: base_units(CPU if plain_resource(name) == CPU else name, quantity)
        for name, quantity in quantities.items()
    }
