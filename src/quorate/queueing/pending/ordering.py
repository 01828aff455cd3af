"""Queue order of pending workloads: effective priority first, then the queue-order timestamp, then uid."""

from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import Workload
from quorate.api.meta import Condition, find_condition, is_true
from quorate.api.names.kueue import ADMISSION_GATED_BY, PRIORITY_BOOST
from quorate.queueing import conditions as c
from quorate.queueing.conditions import created_at, transition_time
from quorate.queueing.limits import MAX_DIGITS

QueueOrder = tuple[int, float, str]  # negated priority, queue-order timestamp, uid: smaller comes first

_AFTER_PREEMPTOR_S: Final = (
    0.001  # stored times are whole seconds: this is after all workloads of that second
)


def effective_priority(workload: Workload, gates: Gates) -> int:
    """Return the priority and, with the gate PriorityBoost, the boost; an invalid boost counts as none."""
    priority = workload.spec.priority or 0
    return priority + priority_boost(workload) if gates.priority_boost else priority


def priority_boost(workload: Workload) -> int:
    text = workload.metadata.annotations.get(PRIORITY_BOOST, "")
    digits = text[1:] if text[:1] in ("+", "-") else text
    is_integer = digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS
    return int(text) if is_integer else 0


def queue_order(workload: Workload, configuration: Configuration) -> QueueOrder:
    return (
        -effective_priority(workload, configuration.gates),
        queue_order_timestamp(workload, configuration),
        workload.metadata.uid or str(workload.metadata.key),
    )


def queue_order_timestamp(workload: Workload, configuration: Configuration) -> float:
    """Return the time a workload is ordered by, epoch seconds.

    This is the eviction for a workload that was evicted through its own fault, and the creation for every
    other one: a preempted workload in particular keeps its rank.
    """
    conditions = workload.status.conditions
    evicted = find_condition(conditions, c.EVICTED)
    if evicted is not None and evicted.status == "True" and _loses_rank(evicted, configuration):
        return transition_time(evicted)
    if not configuration.gates.priority_sorting_within_cohort:
        # Ordered by time alone it would precede its preemptor and take the quota back.
        preempted = find_condition(conditions, c.PREEMPTED)
        if preempted is not None and _yielded_to_borrower(preempted):
            return transition_time(preempted) + _AFTER_PREEMPTOR_S
    return created_at(workload)


def _loses_rank(evicted: Condition, configuration: Configuration) -> bool:
    if evicted.reason in (c.ADMISSION_CHECK, c.START_REFUSED):
        return True
    rules = configuration.wait_for_pods_ready
    by_eviction = rules is None or rules.requeuing_strategy.timestamp == "Eviction"
    return evicted.reason == c.PODS_READY_TIMEOUT and by_eviction


def _yielded_to_borrower(preempted: Condition) -> bool:
    return preempted.status == "True" and preempted.reason == "InCohortReclaimWhileBorrowing"


def may_queue(workload: Workload, gates: Gates) -> bool:
    """Return True if a workload without quota may wait for quota, regardless of its queues."""
    conditions = workload.status.conditions
    if not workload.spec.active or workload.metadata.deletion_timestamp is not None:
        return False
    if workload.status.admission is not None:
        return False  # the rest of its last reservation must be removed before a new one is made
    if c.is_finished(workload) or c.has_quota_reservation(workload):
        return False
    reserved = find_condition(conditions, c.QUOTA_RESERVED)
    held_by = (c.ON_HOLD, c.ADMISSION_GATED) if gates.admission_gated_by else (c.ON_HOLD,)
    if reserved is not None and reserved.reason in held_by:
        return False  # until another reason is written
    if is_true(conditions, c.WAITING_FOR_REPLACEMENT):
        return False
    return not (gates.admission_gated_by and workload.metadata.annotations.get(ADMISSION_GATED_BY))


def affects_scheduling(old: Workload, new: Workload) -> bool:
    """Return True if an update makes an inadmissible workload worth another evaluation."""
    return (
        old.metadata.generation != new.metadata.generation
        or old.status.reclaimable_pods != new.status.reclaimable_pods
        or priority_boost(old) != priority_boost(new)
        or c.has_closed_preemption_gate(old) != c.has_closed_preemption_gate(new)
        or c.has_failed_check(old) != c.has_failed_check(new)
        or any(_condition(old, type_) != _condition(new, type_) for type_ in (c.EVICTED, c.REQUEUED))
    )


def _condition(workload: Workload, type_: str) -> Condition | None:
    """Return the condition, unless it is a Requeued that says only that devices cannot be counted."""
    condition = find_condition(workload.status.conditions, type_)
    return None if type_ == c.REQUEUED and c.is_inadmissible(condition) else condition
