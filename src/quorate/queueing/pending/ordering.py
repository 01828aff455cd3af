"""The order of pending workloads: priority first, then the queue-order timestamp, then uid."""

from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import ADMISSION_GATED_BY, Workload
from quorate.api.meta import Condition, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.conditions import created_at, transition_time

QueueOrder = tuple[int, float, str]  # negated priority, queue-order timestamp, uid: smaller goes first
PRIORITY_BOOST_ANNOTATION: Final = "kueue.x-k8s.io/priority-boost"


def effective_priority(workload: Workload, gates: Gates) -> int:
    """A boost that is no signed integer counts as none: the webhook, where there is one, refuses it."""
    own = workload.spec.priority or 0
    return own + priority_boost(workload) if gates.priority_boost else own


def priority_boost(workload: Workload) -> int:
    text = workload.metadata.annotations.get(PRIORITY_BOOST_ANNOTATION, "")
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else 0


_DIGITS: Final = 10  # of the greatest 32-bit integer; more would only make the sum unreadable


_WAITING_FOR_REPLACEMENT: Final = "WaitingForReplacementPods"
_BEHIND_S: Final = 0.001  # stored times are whole seconds: enough to be behind whoever came in that second


def queue_order(workload: Workload, configuration: Configuration) -> QueueOrder:
    return (
        -effective_priority(workload, configuration.gates),
        queue_order_timestamp(workload, configuration),
        workload.metadata.uid or str(workload.metadata.key),
    )


def queue_order_timestamp(workload: Workload, configuration: Configuration) -> float:
    """The queue-order timestamp.

    Who lost its place through a fault of its own queues anew from the eviction; everybody else, a
    preempted workload above all, keeps the place its creation gave it.
    """
    conditions = workload.status.conditions
    evicted = find_condition(conditions, c.EVICTED)
    if evicted is not None and evicted.status == "True" and _loses_its_place(evicted, configuration):
        return transition_time(evicted)
    if not configuration.gates.priority_sorting_within_cohort:
        # By time alone it would be ahead of the one it was preempted for, and take the quota back.
        preempted = find_condition(conditions, c.PREEMPTED)
        if preempted is not None and _gave_way_to_a_borrower(preempted):
            return transition_time(preempted) + _BEHIND_S
    return created_at(workload)


def _loses_its_place(evicted: Condition, configuration: Configuration) -> bool:
    if evicted.reason == c.ADMISSION_CHECK:
        return True
    rules = configuration.wait_for_pods_ready
    by_eviction = rules is None or rules.requeuing_strategy.timestamp == "Eviction"
    return evicted.reason == c.PODS_READY_TIMEOUT and by_eviction


def _gave_way_to_a_borrower(preempted: Condition) -> bool:
    return preempted.status == "True" and preempted.reason == "InCohortReclaimWhileBorrowing"


def may_queue(workload: Workload, gates: Gates) -> bool:
    """Whether a workload that holds no quota may wait for some, queues aside."""
    conditions = workload.status.conditions
    if not workload.spec.active or workload.metadata.deletion_timestamp is not None:
        return False
    if c.is_finished(workload) or c.has_quota_reservation(workload):
        return False
    if workload.status.admission is not None:
        return False  # until what is left of its last reservation is gone: a new one may not replace it
    reserved = find_condition(conditions, c.QUOTA_RESERVED)
    held_by = (c.ON_HOLD, c.ADMISSION_GATED) if gates.admission_gated_by else (c.ON_HOLD,)
    if reserved is not None and reserved.reason in held_by:
        return False  # until it was told that it is free
    replacement = find_condition(conditions, _WAITING_FOR_REPLACEMENT)
    if replacement is not None and replacement.status == "True":
        return False
    return not (gates.admission_gated_by and workload.metadata.annotations.get(ADMISSION_GATED_BY))


def affects_scheduling(old: Workload, new: Workload) -> bool:
    """Whether a workload found inadmissible deserves another look, its queue unchanged."""
    return (
        old.metadata.generation != new.metadata.generation
        or old.status.reclaimable_pods != new.status.reclaimable_pods
        or priority_boost(old) != priority_boost(new)
        or any(
            find_condition(old.status.conditions, type_) != find_condition(new.status.conditions, type_)
            for type_ in (c.EVICTED, c.REQUEUED)
        )
    )
