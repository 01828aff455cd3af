"""Explain the state of a workload: why it waits, with numbers, and what would remove the reason.

A ``WorkloadExplanation`` is a value, so that a terminal and ``-o json`` show the same.  The queueing core
evaluates the workload (``queueing.explain``); this module renders the result.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from quorate.api.kueue import ADMISSION_GATED_BY, Workload
from quorate.api.meta import Key, Struct, find_condition
from quorate.cli.verbs.explain.remedies import Reason, reason_of, remedies
from quorate.cli.verbs.views import why_not_running
from quorate.queueing import conditions as c
from quorate.queueing.decisions import Decision, Preempt, Reserve
from quorate.queueing.explain import Explanation, QuotaHolder, explain
from quorate.queueing.state import State
from quorate.quota.amount import as_quantity

_RESUME: Final = "quorate workload resume queues it again"
ExplainedState = Literal["waits", "can start", "has quota", "runs in part", "runs", "finished", "kept out"]


class BlockedBy(Struct):
    """A workload that uses quota which the explained workload is short of."""

    workload: str
    cluster_queue: str
    flavor: str
    resource: str
    amount: str
    evicted: bool = False  # it is about to release the quota


class WorkloadExplanation(Struct):
    workload: str
    standing: ExplainedState
    says: str  # one sentence
    local_queue: str = ""
    cluster_queue: str = ""
    ahead: int | None = None  # pending workloads ahead of it in its cluster queue; None: it is not pending
    first_ahead: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    can_never_fit: bool = False
    held_by: tuple[BlockedBy, ...] = ()
    would_take: tuple[str, ...] = ()


def explanation_of(state: State, decided: Mapping[Key, Decision], workload: Workload) -> WorkloadExplanation:
    """Return the explanation; ``state`` has evaluated every workload, ``decided`` are the decisions."""
    key = workload.metadata.key
    decision = decided.get(key)
    standing, says = _state(workload, decision)
    result = WorkloadExplanation(
        workload=str(key),
        standing=standing,
        says=says,
        local_queue=workload.spec.queue_name,
        cluster_queue=_cluster_queue(state, workload),
    )
    if standing != "waits":
        return result
    explanation = explain(state, key)
    assert explanation is not None, f"{key} is neither excluded nor pending"
    return _with_reasons(result, state, explanation, key)


def _state(workload: Workload, decision: Decision | None) -> tuple[ExplainedState, str]:
    conditions = workload.status.conditions
    if c.is_finished(workload):
        finished = find_condition(conditions, c.FINISHED)
        return (
            "finished",
            finished.message if finished is not None and finished.message else "it has finished",
        )
    evicted = find_condition(conditions, c.EVICTED)
    if evicted is not None and evicted.status == "True" and c.has_quota_reservation(workload):
        resumed = "" if workload.spec.active else f" ({_RESUME})"
        return (
            "kept out",
            f"it is being evicted and holds its quota until its pods are gone: {evicted.message}{resumed}",
        )
    if not workload.spec.active:
        return "kept out", f"it is stopped, spec.active is false{_why_deactivated(workload)} ({_RESUME})"
    if isinstance(decision, Preempt):
        return "runs", f"it is about to be preempted for {decision.preemptor}"
    if c.is_admitted(workload):
        short = find_condition(conditions, c.NODE_FIT)
        admitted = f"it is admitted{_reduced_counts(workload)}"
        return ("runs", admitted) if short is None else ("has quota", f"it is {short.message}")
    if c.has_quota_reservation(workload):
        return "has quota", why_not_running(workload) or "it has quota, and all admission checks are ready"
    if workload.metadata.deletion_timestamp is not None:
        return "kept out", "it is being deleted"
    if gates := workload.metadata.annotations.get(ADMISSION_GATED_BY):
        return "kept out", f"its annotation {ADMISSION_GATED_BY} names closed gates: {gates}"
    if isinstance(decision, Reserve):
        return "can start", (
            f"cluster queue {decision.cluster_queue} has enough free quota for it now (if it stays pending, "
            "check that the controllers run with the same configuration)"
        )
    reserved = find_condition(conditions, c.QUOTA_RESERVED)
    if reserved is not None and reserved.reason == c.ON_HOLD:
        return "kept out", f"its job is on hold: {reserved.message}"
    return "waits", "it waits"


def _why_deactivated(workload: Workload) -> str:
    evicted = find_condition(workload.status.conditions, c.EVICTED)
    by_system = evicted is not None and evicted.reason.startswith(f"{c.DEACTIVATED}DueTo")
    return f": {evicted.message}" if evicted is not None and by_system else ""


def _reduced_counts(workload: Workload) -> str:
    """Return with how many pods a partially admitted workload starts; empty if with all."""
    requested = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    admission = workload.status.admission
    reduced = [
        f"{assigned.count} of {requested[assigned.name]} pods of {assigned.name}"
        for assigned in (admission.pod_set_assignments if admission is not None else ())
        if assigned.count is not None and assigned.count < requested.get(assigned.name, 0)
    ]
    return f" with {' and '.join(reduced)}" if reduced else ""


def _cluster_queue(state: State, workload: Workload) -> str:
    if workload.status.admission is not None:
        return workload.status.admission.cluster_queue
    local = state.ledger.local_queues.get(Key(workload.metadata.namespace, workload.spec.queue_name))
    return local.cluster_queue if local is not None else ""


def _with_reasons(
    result: WorkloadExplanation, state: State, explanation: Explanation, key: Key
) -> WorkloadExplanation:
    reasons = explanation.hold.reasons if explanation.hold is not None else ()
    if explanation.hold is None:
        says = "not evaluated yet: workloads ahead of it are evaluated first"
    elif explanation.can_never_fit:
        says = "it can never start with the current configuration, even if every other workload finishes"
    else:
        says = explanation.hold.message
    return msgspec.structs.replace(
        result,
        says=says,
        ahead=explanation.ahead,
        first_ahead=tuple(map(str, explanation.first_ahead)),
        reasons=tuple(map(reason_of, reasons)),
        can_never_fit=explanation.can_never_fit,
        held_by=tuple(map(_held_by, explanation.holders)),
        would_take=remedies(state, key, reasons, explanation),
    )


def _held_by(holder: QuotaHolder) -> BlockedBy:
    flavor, resource = holder.pair
    return BlockedBy(
        workload=str(holder.key),
        cluster_queue=holder.cluster_queue,
        flavor=flavor,
        resource=resource,
        amount=str(as_quantity(resource, holder.amount)),
        evicted=holder.evicted,
    )
