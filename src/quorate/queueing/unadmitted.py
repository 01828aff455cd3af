"""The words in which a workload that is not admitted is told why: Kueue's two vocabularies of reasons.

The granular one is what the rules here think in.  It is shown with the gate
UnadmittedWorkloadsObservability; without it each reason is shown as the coarser word that tools know from
before.  Specified in Kueue's KEP-10852.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from quorate.api.configuration_gates import Gates
from quorate.api.kueue import Workload
from quorate.api.meta import Condition, find_condition
from quorate.queueing import causes as why
from quorate.queueing import conditions as c
from quorate.queueing.conditions import condition

WAITING_FOR_QUOTA: Final = "WaitingForQuota"
NO_MATCHING_FLAVOR: Final = "NoMatchingFlavor"
EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
WAITING_FOR_PREEMPTED: Final = "WaitingForPreemptedWorkloads"
PENDING_EVALUATION: Final = "PendingEvaluation"
WAITING_FOR_PODS_READY: Final = "WaitingForPodsReady"
MISCONFIGURED: Final = "Misconfigured"
SUSPENDED: Final = "Suspended"
NO_RESERVATION: Final = "NoReservation"

_COARSE: Final = {
    WAITING_FOR_QUOTA: "Pending",
    NO_MATCHING_FLAVOR: "Pending",
    EXCEEDS_MAX_QUOTA: "Pending",
    WAITING_FOR_PREEMPTED: "Pending",
    PENDING_EVALUATION: "Pending",
    WAITING_FOR_PODS_READY: "Waiting",
    MISCONFIGURED: "Inadmissible",
    SUSPENDED: "Inadmissible",
}
OF_THE_CYCLE: Final = frozenset(
    {
        WAITING_FOR_QUOTA,
        NO_MATCHING_FLAVOR,
        EXCEEDS_MAX_QUOTA,
        WAITING_FOR_PREEMPTED,
        WAITING_FOR_PODS_READY,
    }
)  # reasons that stand until the next cycle says something else
# How much it would take to help, most first.
_SEVERITY: Final = (NO_MATCHING_FLAVOR, EXCEEDS_MAX_QUOTA, WAITING_FOR_QUOTA)


def shown(reason: str, gates: Gates) -> str:
    """The granular ``reason`` in the vocabulary that is switched on; others are the same in both."""
    return reason if gates.unadmitted_workloads_observability else _COARSE.get(reason, reason)


def reason_of(causes: Sequence[why.Cause]) -> str:
    """The one granular reason for all of ``causes``.

    What concerns the whole workload goes first.  Else each pod set is as far from fitting as the best of its
    flavors leaves it, and the worst pod set speaks.  A resource that no flavor covers is beyond any of them.
    """
    for cause in causes:
        if not isinstance(cause, why.PodSetCause):
            return _of_workload(cause)
    by_pod_set: dict[str, list[str]] = {}
    for cause in causes:
        assert isinstance(cause, why.PodSetCause), f"{cause} concerns no pod set"
        if isinstance(cause, why.ResourceUncovered):
            return NO_MATCHING_FLAVOR
        by_pod_set.setdefault(cause.pod_set, []).append(_of_flavor(cause))
    best = [max(reasons, key=_SEVERITY.index) for reasons in by_pod_set.values()]
    return min(best, key=_SEVERITY.index, default=PENDING_EVALUATION)


def _of_flavor(cause: why.PodSetCause) -> str:
    match cause:
        case why.QuotaShort():
            return WAITING_FOR_QUOTA
        case why.QuotaExceeded():
            return EXCEEDS_MAX_QUOTA
        case why.ResourceUncovered() | why.FlavorMissing():
            return NO_MATCHING_FLAVOR
        case why.TaintUntolerated() | why.AffinityMismatched():
            return NO_MATCHING_FLAVOR
    assert_never(cause)


def _of_workload(cause: why.WorkloadCause) -> str:
    match cause:
        case why.QueueInactive():
            return SUSPENDED
        case (
            why.QueueMissing()
            | why.NamespaceMismatched()
            | why.RequestsAboveLimits()
            | why.LimitRangeViolated()
        ):
            return MISCONFIGURED
        case why.RoomTaken() | why.TargetsOverlap():
            return WAITING_FOR_QUOTA
        case why.AwaitingPreemption():
            return WAITING_FOR_PREEMPTED
        case why.AwaitingPodsReady():
            return WAITING_FOR_PODS_READY
        case why.ChecksFailed() | why.BackingOff():
            return PENDING_EVALUATION
    assert_never(cause)


def not_reserved(workload: Workload, reason: str, message: str, now: float, gates: Gates) -> Condition:
    """No quota, for the granular ``reason``."""
    return condition(
        c.QUOTA_RESERVED, "False", shown(reason, gates), message, now, workload.metadata.generation
    )


def not_admitted(workload: Workload, now: float, gates: Gates, *, reserving: bool) -> Condition:
    """Not admitted, for want of a reservation or of checks that are ready."""
    all_ready = all(check.state == "Ready" for check in workload.status.admission_checks)
    granular = gates.unadmitted_workloads_observability
    if reserving:
        reason = "UnsatisfiedAdmissionChecks" if granular else "UnsatisfiedChecks"
        text = "The workload has not all checks ready"
    elif all_ready or granular:
        reason, text = NO_RESERVATION, "The workload has no reservation"
    else:
        reason = "NoReservationUnsatisfiedChecks"
        text = "The workload has no reservation and not all checks ready"
    return condition(c.ADMITTED, "False", reason, text, now, workload.metadata.generation)


def is_told(workload: Workload, new: Condition) -> bool:
    """Whether the workload's status says already what ``new`` does."""
    return c.says_the_same(find_condition(workload.status.conditions, new.type), new)
