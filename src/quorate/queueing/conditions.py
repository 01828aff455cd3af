"""The conditions of a Workload: their types and reasons, how to read them, and how to build them.

The reasons of QuotaReserved=False exist in two vocabularies.  All rules use the granular one, which is shown
with the gate UnadmittedWorkloadsObservability; without the gate each reason is shown as the coarser one that
older tools know.  Specified in Kueue's KEP-10852.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, assert_never

from quorate.api.kueue import Admission, ResourceGroup, Workload
from quorate.api.meta import (
    Condition,
    ConditionStatus,
    Key,
    at_epoch,
    epoch,
    find_condition,
    is_true,
    with_condition,
)
from quorate.api.names.kueue import IS_GROUP_WORKLOAD
from quorate.api.volcano import GROUP as VOLCANO_GROUP
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.limits import MAX_MESSAGE_BYTES

if TYPE_CHECKING:  # lists of workloads need no Configuration
    from quorate.api.configuration.feature_gates import Gates

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
PODS_READY: Final = "PodsReady"
# Of a pod group that is not whole; also the granular reason of QuotaReserved=False
WAITING_FOR_REPLACEMENT: Final = "WaitingForReplacementPods"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
INADMISSIBLE: Final = "Inadmissible"
FINISHED: Final = "Finished"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
BLOCKED_ON_PREEMPTION_GATES: Final = "BlockedOnPreemptionGates"

# Ours: False while the pods of a workload with quota fit no node
NODE_FIT: Final = "quorate.dev/NodeFit"

# Ours: False while the API server refuses what the controllers must change in the job
JOB_UPDATED: Final = "quorate.dev/JobUpdated"

# Ours: True while pods of a workload use more than quota is charged for
OUTSIDE_QUOTA: Final = "quorate.dev/OutsideQuota"

# Ours: True while the start of a pending workload is planned; see ``planning.announced_starts``
PLANNED_START: Final = "quorate.dev/PlannedStart"

# Ours: True while a workload waits for quota; its reason is the code of the typed reason that decides, its
# message has the numbers.  It is written and removed together with conditions of Kueue, never alone.
WAITING: Final = "quorate.dev/Waiting"

_ENDS_WAITING: Final = frozenset({QUOTA_RESERVED, EVICTED, FINISHED})

# Reasons of QuotaReserved=False, equal in both vocabularies
ON_HOLD: Final = "OnHold"
ADMISSION_GATED: Final = "AdmissionGated"

# Granular reasons of QuotaReserved=False
WAITING_FOR_QUOTA: Final = "WaitingForQuota"
NO_MATCHING_FLAVOR: Final = "NoMatchingFlavor"
EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
TOPOLOGY_PLACEMENT_FAILED: Final = "TopologyPlacementFailed"  # not even if no pods had places
WAITING_FOR_PREEMPTED: Final = "WaitingForPreemptedWorkloads"
PENDING_EVALUATION: Final = "PendingEvaluation"
WAITING_FOR_PODS_READY: Final = "WaitingForPodsReady"
MISCONFIGURED: Final = "Misconfigured"
SUSPENDED: Final = "Suspended"

_COARSE_REASONS: Final = {
    WAITING_FOR_QUOTA: "Pending",
    NO_MATCHING_FLAVOR: "Pending",
    EXCEEDS_MAX_QUOTA: "Pending",
    TOPOLOGY_PLACEMENT_FAILED: "Pending",
    WAITING_FOR_PREEMPTED: "Pending",
    PENDING_EVALUATION: "Pending",
    WAITING_FOR_REPLACEMENT: "Pending",
    WAITING_FOR_PODS_READY: "Waiting",
    MISCONFIGURED: "Inadmissible",
    SUSPENDED: "Inadmissible",
}
# Reasons that a cycle wrote, and that stay until a later cycle writes another one.
CYCLE_REASONS: Final = frozenset(
    {
        WAITING_FOR_QUOTA,
        NO_MATCHING_FLAVOR,
        EXCEEDS_MAX_QUOTA,
        TOPOLOGY_PLACEMENT_FAILED,
        WAITING_FOR_PREEMPTED,
        WAITING_FOR_PODS_READY,
    }
)
# From the reason that takes the largest change to resolve to the one that takes the smallest.
_SEVERITY: Final = (NO_MATCHING_FLAVOR, EXCEEDS_MAX_QUOTA, WAITING_FOR_QUOTA, TOPOLOGY_PLACEMENT_FAILED)

# Reasons of Admitted=False
NO_RESERVATION: Final = "NoReservation"
PENDING_TOPOLOGY: Final = "PendingDelayedTopologyRequests"

# Reason of Finished
OWNER_NOT_FOUND: Final = "OwnerNotFound"
OWNER_NOT_FOUND_TEXT: Final = "The workload's owner no longer exists"

# Reasons of Evicted
PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
ADMISSION_CHECK: Final = "AdmissionCheck"
NODE_FAILURES: Final = "NodeFailures"
BOUND_OVERRUN: Final = "BoundOverrun"  # of a workload that passed one with a planned start
START_REFUSED: Final = "StartRefused"  # also of JobUpdated=False and DeactivationTarget
RESERVED_WINDOW: Final = "ReservedWindow"
CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
DEACTIVATED: Final = "Deactivated"  # alone (by the user) or as a prefix of DeactivatedDueTo<cause>

# Reason of JobUpdated=False
STOP_REFUSED: Final = "StopRefused"

# Reason of Finished, and of the event
SLICE_REPLACED: Final = "WorkloadSliceReplaced"

# Reasons of DeactivationTarget
REQUEUING_LIMIT_EXCEEDED: Final = "RequeuingLimitExceeded"
MAXIMUM_EXECUTION_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"

_SHORT: Final = MAX_MESSAGE_BYTES // 4  # characters that never need more bytes than a message may have


def new_condition(
    type_: str, status: ConditionStatus, reason: str, message: str, now: float, generation: int = 0
) -> Condition:
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message if len(message) <= _SHORT else truncate_message(message),
        last_transition_time=at_epoch(now),
        observed_generation=generation,
    )


def truncate_message(message: str) -> str:
    """Cut the message to the length that the API accepts."""
    encoded = message.encode()
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return message
    return encoded[:MAX_MESSAGE_BYTES].decode(errors="ignore")


def with_conditions(conditions: Iterable[Condition], *new: Condition) -> tuple[Condition, ...]:
    """Return ``conditions`` with each of ``new`` in place of the condition of its type, or appended.

    A new QuotaReserved, Evicted or Finished ends the wait that ``WAITING`` describes, and so does a quota
    reservation of another program; the time of a wait with the same code is kept.  They also end
    Requeued=False with the reason ``INADMISSIBLE``.
    """
    result = tuple(conditions)
    ends_waiting, codes = False, []
    for one in new:
        ends_waiting = ends_waiting or one.type in _ENDS_WAITING
        if one.type == WAITING:
            codes.append(one.reason)
    if ends_waiting:
        for one in result:
            if (one.type == WAITING and one.reason not in codes) or (
                one.type == REQUEUED and is_inadmissible(one)
            ):
                result = without_condition(result, one.type)
    for one in new:
        result = with_condition(result, one)
    reserved = planned = None
    for condition in result:
        if condition.type == QUOTA_RESERVED:
            reserved = condition
        elif condition.type == PLANNED_START:
            planned = condition
    if reserved is None or reserved.status != "True":
        return result
    if planned is not None and planned.status == "True":
        result = with_condition(result, _started(planned, reserved))
    return without_condition(result, WAITING)


def _started(planned: Condition, reserved: Condition) -> Condition:
    """Return what is left of a planned start once there is quota."""
    return Condition(
        type=PLANNED_START,
        status="False",
        reason="Started",
        message=f"Previously: {planned.message}",
        last_transition_time=reserved.last_transition_time,
        observed_generation=planned.observed_generation,
    )


def without_condition(conditions: tuple[Condition, ...], type_: str) -> tuple[Condition, ...]:
    for condition in conditions:  # for each admission: mostly there is none
        if condition.type == type_:
            return tuple([one for one in conditions if one.type != type_])
    return conditions


def is_unchanged(old: Condition | None, new: Condition) -> bool:
    """Return True if status, reason and message are the same."""
    return old is not None and (old.status, old.reason, old.message) == (new.status, new.reason, new.message)


def has_condition(workload: Workload, new: Condition) -> bool:
    """Return True if the workload has the condition with the same status, reason and message."""
    return is_unchanged(find_condition(workload.status.conditions, new.type), new)


def transition_time(condition: Condition) -> float:
    """Return the last transition time, epoch seconds; 0.0 if it is not set.

    The API requires it, except where the CRD has no schema.
    """
    return 0.0 if condition.last_transition_time is None else epoch(condition.last_transition_time)


def created_at(workload: Workload) -> float:
    created = workload.metadata.creation_timestamp
    assert created is not None, f"workload {workload.metadata.key} was never stored"
    return epoch(created)


def has_quota_reservation(workload: Workload) -> bool:
    return is_true(workload.status.conditions, QUOTA_RESERVED)


def is_admitted(workload: Workload) -> bool:
    return is_true(workload.status.conditions, ADMITTED)


def awaits_places(admission: Admission | None) -> bool:
    """Return True if some pods get their places only when all admission checks are Ready."""
    return admission is not None and any(
        assignment.delayed_topology_request == "Pending" and assignment.topology_assignment is None
        for assignment in admission.pod_set_assignments
    )


def is_finished(workload: Workload) -> bool:
    return is_true(workload.status.conditions, FINISHED)


def is_evicted(workload: Workload) -> bool:
    return is_true(workload.status.conditions, EVICTED)


def has_closed_preemption_gate(workload: Workload) -> bool:
    """Return True if a gate keeps the workload from preempting others; one without a position is closed."""
    if not workload.spec.preemption_gates:
        return False
    opened = {gate.name for gate in workload.status.preemption_gates if gate.position == "Open"}
    return any(gate.name not in opened for gate in workload.spec.preemption_gates)


def has_failed_check(workload: Workload) -> bool:
    """Return True if an admission check keeps the workload from being nominated."""
    checks = workload.status.admission_checks
    return bool(checks) and any(check.state in ("Retry", "Rejected") for check in checks)


def is_of_single_pod(workload: Workload) -> bool:
    """Return True if one pod is the only owner: without it, the workload has no pods, as in Kueue.

    A pod group may replace its pods.
    """
    metadata = workload.metadata
    if len(metadata.owner_references) != 1 or metadata.annotations.get(IS_GROUP_WORKLOAD) == "true":
        return False
    (owner,) = metadata.owner_references
    return (owner.api_version, owner.kind) == ("v1", "Pod")


def pod_group_of(workload: Workload) -> Key | None:
    """Return the Volcano pod group of which the workload is; None if it is of something else."""
    owner = workload.metadata.controller
    if owner is None or owner.kind != "PodGroup" or not owner.api_version.startswith(f"{VOLCANO_GROUP}/"):
        return None
    return Key(workload.metadata.namespace, owner.name)


def is_preempted(workload: Workload) -> bool:
    """Return True if it is being evicted for another workload."""
    evicted = find_condition(workload.status.conditions, EVICTED)
    return evicted is not None and (evicted.status, evicted.reason) == ("True", "Preempted")


def executed_s(workload: Workload, now: float) -> int | None:
    """Return how long the workload has been admitted, all its admissions together; None if it never was."""
    past_s = workload.status.accumulated_past_execution_time_seconds
    admitted = find_condition(workload.status.conditions, ADMITTED)
    if admitted is None or admitted.status != "True":
        return past_s
    return (past_s or 0) + int(now - transition_time(admitted))


def queued_since(workload: Workload) -> float:
    """Return when the workload was last requeued, or created if it never was (epoch seconds)."""
    requeued = find_condition(workload.status.conditions, REQUEUED)
    if requeued is not None and requeued.status == "True" and requeued.last_transition_time is not None:
        return transition_time(requeued)
    return created_at(workload)


def requeue_at(workload: Workload) -> float | None:
    """Return the end of the backoff, epoch seconds; None if the workload does not back off."""
    state = workload.status.requeue_state
    return epoch(state.requeue_at) if state is not None and state.requeue_at is not None else None


def is_inadmissible(requeued: Condition | None) -> bool:
    """Return True if Requeued=False says only that the devices of a workload cannot be counted.

    Source: Kueue 0.20, which removes the condition once they can.
    """
    return requeued is not None and (requeued.status, requeued.reason) == ("False", INADMISSIBLE)


_RESTARTS: Final = {
    LOCAL_QUEUE_STOPPED: ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
    CLUSTER_QUEUE_STOPPED: ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
}


def restarted(workload: Workload, now: float) -> Condition | None:
    """Return Requeued=True for a workload that the stop of its queue evicted: the queue runs again.

    None if the workload was not evicted by a stop, or is requeued already.
    """
    requeued = find_condition(workload.status.conditions, REQUEUED)
    if requeued is None or requeued.status != "False" or requeued.reason not in _RESTARTS:
        return None
    reason, message = _RESTARTS[requeued.reason]
    return new_condition(REQUEUED, "True", reason, message, now, workload.metadata.generation)


def is_backing_off(workload: Workload, now: float) -> bool:
    """Return True if a backoff or Requeued=False keeps the workload from being tried by any event.

    A stop of its queue does not: the queue itself admits nothing until it runs again, and then the workload
    must not lose its rank to workloads that were not evicted.
    """
    requeued = find_condition(workload.status.conditions, REQUEUED)
    if (
        requeued is not None
        and requeued.status == "False"
        and requeued.reason not in (INADMISSIBLE, *_RESTARTS)
    ):
        return True
    until = requeue_at(workload)
    return until is not None and until > now


def not_reserved(workload: Workload, reason: str, message: str, now: float, gates: "Gates") -> Condition:
    """Return QuotaReserved=False with the granular ``reason``."""
    return new_condition(
        QUOTA_RESERVED, "False", shown_reason(reason, gates), message, now, workload.metadata.generation
    )


def not_admitted(workload: Workload, now: float, gates: "Gates", *, reserving: bool) -> Condition:
    """Return Admitted=False, for lack of a reservation, of admission checks in state Ready, or of places."""
    all_ready = all(check.state == "Ready" for check in workload.status.admission_checks)
    granular = gates.unadmitted_workloads_observability
    if reserving and all_ready and awaits_places(workload.status.admission):
        reason, text = PENDING_TOPOLOGY, "There are pending delayed topology requests"
    elif reserving:
        reason = "UnsatisfiedAdmissionChecks" if granular else "UnsatisfiedChecks"
        text = "The workload has not all checks ready"
    elif all_ready or granular:
        reason, text = NO_RESERVATION, "The workload has no reservation"
    else:
        reason = "NoReservationUnsatisfiedChecks"
        text = "The workload has no reservation and not all checks ready"
    return new_condition(ADMITTED, "False", reason, text, now, workload.metadata.generation)


def shown_reason(reason: str, gates: "Gates") -> str:
    """Return the granular ``reason`` in the vocabulary that the gates select."""
    return reason if gates.unadmitted_workloads_observability else _COARSE_REASONS.get(reason, reason)


def granular_reason(reasons: Sequence[r.InadmissibleReason], groups: Sequence[ResourceGroup] = ()) -> str:
    """Return the one granular reason for all ``reasons``, in a cluster queue with resource ``groups``.

    A reason that concerns the whole workload comes first.  Otherwise the pod set with the most severe reason
    decides.  A resource that no flavor covers is the most severe.
    """
    for reason in reasons:
        if not isinstance(reason, r.PodSetReason):
            return _of_workload(reason)
    by_pod_set: dict[str, list[r.PodSetReason]] = {}
    for reason in reasons:
        assert isinstance(reason, r.PodSetReason), f"{reason} concerns no pod set"
        if isinstance(reason, r.ResourceUncovered):
            return NO_MATCHING_FLAVOR
        by_pod_set.setdefault(reason.pod_set, []).append(reason)
    of_pod_sets = [_of_pod_set(of_pod_set, groups) for of_pod_set in by_pod_set.values()]
    return min(of_pod_sets, key=_SEVERITY.index, default=PENDING_EVALUATION)


def _of_pod_set(reasons: Sequence[r.PodSetReason], groups: Sequence[ResourceGroup]) -> str:
    """Return the reason for one pod set, which needs a flavor of each group, with room for all resources.

    A flavor has the most severe reason of its resources, a group the least severe reason of its flavors.
    The most severe reason of the groups decides, unless only places are missing.
    """
    group_of = {quotas.name: index for index, group in enumerate(groups) for quotas in group.flavors}
    by_group: dict[int, dict[str, str]] = {}
    places: list[str] = []
    for reason in reasons:
        granular = _of_flavor(reason)
        if isinstance(reason, r.ResourceUncovered | r.PlacementRefused | r.NodesLackRoom):
            places.append(granular)
            continue
        flavor = reason.flavor
        by_flavor = by_group.setdefault(group_of.get(flavor, len(groups)), {})
        by_flavor[flavor] = min(by_flavor.get(flavor, granular), granular, key=_SEVERITY.index)
    of_groups = [max(by_flavor.values(), key=_SEVERITY.index) for by_flavor in by_group.values()]
    most_severe = [min(granular, key=_SEVERITY.index) for granular in (of_groups, places) if granular]
    return max(most_severe, key=_SEVERITY.index)


def deciding_reason(
    reasons: Sequence[r.InadmissibleReason], groups: Sequence[ResourceGroup] = ()
) -> r.InadmissibleReason | None:
    """Return the first of ``reasons`` that ``granular_reason`` goes by; None without reasons."""
    granular = granular_reason(reasons, groups)
    for reason in reasons:
        if not isinstance(reason, r.PodSetReason) or _of_flavor(reason) == granular:
            return reason
    return next(iter(reasons), None)


def _of_flavor(reason: r.PodSetReason) -> str:
    match reason:
        case r.QuotaShort(is_no_fit=False):
            return WAITING_FOR_QUOTA
        case r.QuotaShort():
            return TOPOLOGY_PLACEMENT_FAILED
        case r.QuotaExceeded():
            return EXCEEDS_MAX_QUOTA
        case r.ResourceUncovered() | r.FlavorMissing():
            return NO_MATCHING_FLAVOR
        case r.TaintUntolerated() | r.AffinityMismatched() | r.TopologyMismatched():
            return NO_MATCHING_FLAVOR
        case r.PlacementRefused(is_no_fit=True, requested=requested) if requested:
            return TOPOLOGY_PLACEMENT_FAILED
        case r.PlacementRefused() | r.NodesLackRoom():
            return WAITING_FOR_QUOTA
    assert_never(reason)


def _of_workload(reason: r.WorkloadReason) -> str:
    match reason:
        case r.QueueInactive():
            return SUSPENDED
        case r.QueueMissing() | r.NamespaceMismatched():
            return MISCONFIGURED
        case r.RequestsAboveLimits() | r.DevicesUncounted() | r.LimitRangeViolated():
            return MISCONFIGURED
        case r.NoLongerFits() | r.TargetsOverlap() | r.ReservedForEarlierWorkload() | r.ReservedWindow():
            return WAITING_FOR_QUOTA
        case r.PreemptionGated():  # Kueue's is AdmissionGated, which its other gate clears again
            return WAITING_FOR_QUOTA
        case r.AwaitingPreemption() | r.AwaitingOtherPreemption():
            return WAITING_FOR_PREEMPTED
        case r.AwaitingPodsReady():
            return WAITING_FOR_PODS_READY
        case r.ChecksFailed() | r.BackingOff() | r.EvaluationFailed():
            return PENDING_EVALUATION
    assert_never(reason)
