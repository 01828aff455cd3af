"""Copies of a workload in worker clusters: how they are made, and how they follow the workload."""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quorate.api.batch import EMPTY_OBJECT
from quorate.api.kueue import GROUP, PodSet, PreemptionGate, Workload, WorkloadSpec
from quorate.api.meta import ObjectMeta
from quorate.api.names.kueue import JOB_UID
from quorate.api.names.multikueue import ORIGIN, PREEMPTION_GATE
from quorate.api.quantity import InvalidQuantity, parse_quantity

_AMOUNTS: Final = ("requests", "limits")  # fields of pod templates


def workload_copy(workload: Workload, origin: str, *, is_gated: bool) -> Workload:
    """Return the object to create in a worker cluster; if gated, it may preempt once we open its gate."""
    metadata = workload.metadata
    labels = {name: value for name, value in metadata.labels.items() if name != JOB_UID}
    spec = workload.spec
    if is_gated:
        spec = replace(spec, preemption_gates=(PreemptionGate(name=PREEMPTION_GATE),))
    return Workload(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            labels={**labels, ORIGIN: origin},
            annotations=metadata.annotations,
        ),
        spec=spec,
    )


def is_out_of_sync(workload: Workload, copy: Workload) -> bool:
    """Return True if the specs differ in anything but the preemption gates, which each cluster has itself."""
    mine, theirs = (replace(each.spec, pod_sets=(), preemption_gates=()) for each in (workload, copy))
    return mine != theirs or not _are_equal(workload.spec.pod_sets, copy.spec.pod_sets)


def _are_equal(mine: tuple[PodSet, ...], theirs: tuple[PodSet, ...]) -> bool:
    """Compare pod sets; the controllers of the worker cluster may have encoded the templates anew."""
    if mine == theirs:
        return True
    bare = [tuple(replace(each, template=EMPTY_OBJECT) for each in pod_sets) for pod_sets in (mine, theirs)]
    return bare[0] == bare[1] and all(
        _content(msgspec.json.decode(one.template)) == _content(msgspec.json.decode(other.template))
        for one, other in zip(mine, theirs, strict=True)
    )


def _content(value: Any) -> Any:
    """Return ``value`` without empty fields, and with its amounts as numbers.

    Kueue writes empty fields that a job leaves out, and each amount in its shortest form.
    """
    match value:
        case dict():
            fields = {
                key: _amounts(item) if key in _AMOUNTS and isinstance(item, dict) else _content(item)
                for key, item in value.items()
            }
            return {key: item for key, item in fields.items() if item not in (None, "", {}, [])}
        case list():
            return [_content(item) for item in value]
        case _:
            return value


def _amounts(quantities: dict[str, Any]) -> dict[str, Any]:
    try:
        return {resource: parse_quantity(amount) for resource, amount in quantities.items()}
    except (InvalidQuantity, TypeError):
        return quantities


def copy_update(workload: Workload, copy: Workload, *, is_elastic: bool) -> WorkloadSpec | None:
    """Return the spec that brings a copy up to date in place; None if the copy must be removed.

    The pods of an elastic workload may become fewer, and any workload may get another priority.
    """
    spec = copy.spec
    if is_elastic and _has_shrunk(spec.pod_sets, workload.spec.pod_sets):
        spec = workload.spec
    if _has_other_priority(workload.spec, copy.spec):
        mine = workload.spec
        spec = replace(spec, priority_class_ref=mine.priority_class_ref, priority=mine.priority)
    spec = replace(spec, preemption_gates=copy.spec.preemption_gates)
    return None if spec == copy.spec else spec


def _has_shrunk(before: tuple[PodSet, ...], now: tuple[PodSet, ...]) -> bool:
    """Return True if some pod sets have fewer pods and none has more."""
    counts = {pod_set.name: pod_set.count for pod_set in before}
    if counts.keys() != {pod_set.name for pod_set in now}:
        return False
    changes = [pod_set.count - counts[pod_set.name] for pod_set in now]
    return min(changes, default=0) < 0 and max(changes, default=0) <= 0


def _has_other_priority(mine: WorkloadSpec, theirs: WorkloadSpec) -> bool:
    """Return True if the priority differs and follows from a WorkloadPriorityClass."""
    refs = [spec.priority_class_ref for spec in (mine, theirs)]
    if any(ref is not None and ref.group != GROUP for ref in refs) or refs[1] is None:
        return False
    return refs[0] is None or refs[0].name != refs[1].name or mine.priority != theirs.priority
