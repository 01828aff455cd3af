"""Copies of a workload in worker clusters: how they are made, and how they follow the workload."""

from typing import Any

from msgspec.structs import replace

from quorate.api.kueue import GROUP, PreemptionGate, Workload
from quorate.api.meta import ObjectMeta
from quorate.api.names.kueue import JOB_UID
from quorate.api.names.multikueue import ORIGIN, PREEMPTION_GATE
from quorate.controllers.multikueue.workload_copy import SpecSummary, WorkloadCopy, summary_of


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


def is_out_of_sync(workload: Workload, copy: WorkloadCopy) -> bool:
    """Return True if the specs differ in anything but the preemption gates, which each cluster has itself."""
    return summary_of(workload.spec) != copy.summary


def copy_update(workload: Workload, copy: WorkloadCopy, *, is_elastic: bool) -> dict[str, Any]:
    """Return the patch of the spec that brings a copy up to date in place; empty if it must be removed.

    The pods of an elastic workload may become fewer, and any workload may get another priority.
    """
    mine, theirs = summary_of(workload.spec), copy.summary
    changes: dict[str, Any] = {}
    if is_elastic and _has_shrunk(dict(theirs.counts), dict(mine.counts)):
        changes["podSets"] = workload.spec.pod_sets
    if _has_other_priority(mine, theirs):
        changes |= {"priorityClassRef": mine.priority_class_ref, "priority": mine.priority}
    return changes


def _has_shrunk(before: dict[str, int], now: dict[str, int]) -> bool:
    """Return True if some pod sets have fewer pods and none has more."""
    if before.keys() != now.keys():
        return False
    changes = [count - before[name] for name, count in now.items()]
    return min(changes, default=0) < 0 and max(changes, default=0) <= 0


def _has_other_priority(mine: SpecSummary, theirs: SpecSummary) -> bool:
    """Return True if the priority differs and follows from a WorkloadPriorityClass."""
    refs = [spec.priority_class_ref for spec in (mine, theirs)]
    if any(ref is not None and ref.group != GROUP for ref in refs) or refs[1] is None:
        return False
    return refs[0] is None or refs[0].name != refs[1].name or mine.priority != theirs.priority
