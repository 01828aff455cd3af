"""The series of the controllers: Kueue's and Volcano's, as their dashboards read them, and ours.

Every series but ``kueue_build_info`` and Volcano's also has the label ``replica_role``.
"""

from functools import partial
from typing import Final, Literal

import msgspec

from quorate.api.configuration.metric_labels import LabelSource

Kind = Literal["counter", "gauge", "histogram"]
ROLE: Final = "replica_role"
LOCAL_QUEUE: Final = ("name", "namespace")

_GO_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # of Go's client
_WAIT_S: Final = tuple(1.0 if n == 0 else 2.5 * 2 ** (n - 1) for n in range(14))  # 1, 2.5, 5 … 10240
_LONG_WAIT_S: Final = (*_WAIT_S, 20480.0, 40960.0)
_QUEUE: Final = ("cluster_queue",)
_RESERVATION: Final = ("reservation",)
_CLASS: Final = ("priority_class",)
_WHY: Final = ("reason", "underlying_cause")
_QUOTA: Final = ("cohort", "cluster_queue", "flavor", "resource")
_LOCAL_QUOTA: Final = (*LOCAL_QUEUE, "flavor", "resource")
_TREE: Final = ("parent_cohort", "root_cohort")
_OF_LOCAL_WORKLOADS: Final[tuple[LabelSource, ...]] = ("LocalQueue", "Workload")


def exponential_buckets(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return ``count`` bounds from ``low`` to ``high`` in a geometric series."""
    factor = (high / low) ** (1 / (count - 1))
    return tuple(low * factor**step for step in range(count))


class Family(msgspec.Struct, frozen=True):
    """All series of one name."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()  # upper bounds in the unit of the name, without infinity
    sources: tuple[LabelSource, ...] = ()  # of custom labels


def _with_role(
    kind: Kind,
    name: str,
    labels: tuple[str, ...],
    text: str,
    *bounds: float,
    sources: tuple[LabelSource, ...] = (),
    prefix: str = "kueue",
) -> Family:
    sources = sources or _sources_by_labels(labels)
    return Family(f"{prefix}_{name}", kind, (*labels, ROLE), text, bounds, sources)


_ours: Final = partial(_with_role, prefix="quorate")


def _sources_by_labels(labels: tuple[str, ...]) -> tuple[LabelSource, ...]:
    """Return the default source of custom labels: the object that the labels identify."""
    if labels[: len(LOCAL_QUEUE)] == LOCAL_QUEUE:
        return ("LocalQueue",)
    if "cluster_queue" in labels or "preempting_cluster_queue" in labels:
        return ("ClusterQueue",)
    return ("Cohort",) if "cohort" in labels else ()


def _of_both_queues(
    kind: Kind, name: str, labels: tuple[str, ...], text: str, *bounds: float
) -> tuple[Family, Family]:
    """Return a series by cluster queue, and the same by local queue."""
    return (
        _with_role(kind, name, (*_QUEUE, *labels), text, *bounds),
        _with_role(kind, f"local_queue_{name}", (*LOCAL_QUEUE, *labels), f"{text}, by local queue", *bounds),
    )


_BUILD: Final = ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform")

OF_KUEUE: Final[tuple[Family, ...]] = (
    Family("kueue_build_info", "gauge", _BUILD, "Build information, in labels; always 1"),
    _with_role("counter", "admission_attempts_total", ("result",), "Cycles with at least one decision"),
    _with_role(
        "histogram", "admission_attempt_duration_seconds", ("result",), "Duration of such a cycle", *_GO_S
    ),
    # Transitions of workloads.
    *_of_both_queues("counter", "quota_reserved_workloads_total", _CLASS, "Reservations of quota"),
    *_of_both_queues(
        "histogram", "quota_reserved_wait_time_seconds", _CLASS,
        "From creation or the last requeue to the reservation of quota", *_WAIT_S,
    ),
    _with_role("counter", "admitted_workloads_total", (*_QUEUE, *_CLASS), "Admissions"),
    _with_role(
        "counter", "local_queue_admitted_workloads_total", (*LOCAL_QUEUE, *_CLASS),
        "Admissions, by local queue", sources=_OF_LOCAL_WORKLOADS,
    ),
    _with_role(
        "histogram", "admission_wait_time_seconds", (*_QUEUE, *_CLASS),
        "From creation or the last requeue to admission", *_LONG_WAIT_S,
    ),
    _with_role(
        "histogram", "local_queue_admission_wait_time_seconds", (*LOCAL_QUEUE, *_CLASS),
        "From creation or the last requeue to admission, by local queue", *_WAIT_S,
        sources=_OF_LOCAL_WORKLOADS,
    ),
    *_of_both_queues(
        "histogram", "admission_checks_wait_time_seconds", _CLASS,
        "From the reservation of quota to admission, of workloads with admission checks", *_WAIT_S,
    ),
    *_of_both_queues(
        "histogram", "ready_wait_time_seconds", _CLASS,
        "From creation or the last requeue until all pods were ready for the first time", *_WAIT_S,
    ),
    *_of_both_queues(
        "histogram", "admitted_until_ready_wait_time_seconds", _CLASS,
        "From admission until all pods were ready for the first time", *_WAIT_S,
    ),
    _with_role(
        "histogram", "workload_creation_latency_seconds", ("job_kind",),
        "From the creation of a job to that of its Workload", *(0.01 * 2**n for n in range(11)),
        sources=("LocalQueue",),
    ),
    _with_role(
        "histogram", "pod_scheduling_gate_removal_seconds", ("name", *_QUEUE, "is_group"),
        "From admission until a scheduling gate of a pod was removed", *_GO_S,
    ),
    *_of_both_queues("counter", "evicted_workloads_total", (*_WHY, *_CLASS), "Evictions"),
    _with_role(
        "counter", "evicted_workloads_once_total", (*_QUEUE, *_WHY, *_CLASS),
        "First evictions of a workload for this reason",
    ),
    _with_role(
        "histogram", "pods_ready_to_evicted_time_seconds", (*_QUEUE, *_WHY),
        "From all pods being ready to the eviction", *_WAIT_S,
    ),
    _with_role(
        "histogram", "workload_eviction_latency_seconds", (*_QUEUE, "reason"),
        "From the eviction until the quota was released", *_WAIT_S,
    ),
    _with_role(
        "counter", "preempted_workloads_total", ("preempting_cluster_queue", "reason"), "Preemptions decided"
    ),
    *_of_both_queues(
        "histogram", "workload_recovery_wait_time_seconds", _CLASS,
        "From the loss of a pod until all pods were ready again", *_WAIT_S,
    ),
    *_of_both_queues("counter", "finished_workloads_total", _CLASS, "Workloads that finished"),
    *_of_both_queues(
        "histogram", "execution_time_seconds", _CLASS,
        "Time for which a finished workload was admitted, over all its admissions", *_LONG_WAIT_S,
    ),
    _with_role(
        "counter", "preemption_target_recomputations_total", (*_QUEUE, "result"),
        "Assignments computed again without the preemption targets of an earlier workload of the cycle",
    ),
    _with_role(
        "counter", "cohort_subtree_admitted_workloads_total", ("cohort", *_CLASS),
        "Admissions in the queues below a cohort",
    ),
    # Current state.
    _with_role(
        "gauge", "admission_cycle_preemption_skips", _QUEUE,
        "Workloads with preemption targets that the last cycle skipped in favor of earlier ones",
    ),
    _with_role(
        "gauge", "unadmitted_workloads", (*_QUEUE, *_WHY),
        "Workloads that are not admitted, by the reasons of Admitted and of QuotaReserved",
    ),
    _with_role(
        "gauge", "local_queue_unadmitted_workloads", (*LOCAL_QUEUE, *_QUEUE, *_WHY),
        "Workloads that are not admitted, by the reasons of Admitted and of QuotaReserved, by local queue",
    ),
    _with_role(
        "gauge", "pending_workloads", (*_QUEUE, "status"), "Pending workloads",
        sources=("ClusterQueue", "Workload"),
    ),
    _with_role(
        "gauge", "local_queue_pending_workloads", (*LOCAL_QUEUE, "status"),
        "Pending workloads, by local queue",
    ),
    _with_role(
        "gauge", "pending_scheduling_hashes", (*_QUEUE, "status"),
        "Different shapes of pending workloads; workloads of one shape are evaluated once",
    ),
    *_of_both_queues("gauge", "reserving_active_workloads", (), "Workloads with reserved quota"),
    _with_role(
        "gauge", "admitted_active_workloads", _QUEUE, "Admitted workloads that have not finished",
        sources=("ClusterQueue", "Workload"),
    ),
    _with_role(
        "gauge", "local_queue_admitted_active_workloads", LOCAL_QUEUE,
        "Admitted workloads that have not finished, by local queue", sources=_OF_LOCAL_WORKLOADS,
    ),
    *_of_both_queues("gauge", "finished_workloads", (), "Finished workloads that still exist"),
    _with_role("gauge", "cluster_queue_status", (*_QUEUE, "status"), "1 for the current status"),
    _with_role("gauge", "local_queue_status", (*LOCAL_QUEUE, "active"), "1 for the status of Active"),
    _with_role("gauge", "cluster_queue_info", (*_QUEUE, *_TREE), "Parent and root, in labels; always 1"),
    _with_role("gauge", "cohort_info", ("cohort", *_TREE), "Parent and root, in labels; always 1"),
    _with_role("gauge", "cluster_queue_resource_reservation", _QUOTA, "Reserved quota"),
    _with_role("gauge", "cluster_queue_resource_usage", _QUOTA, "Quota of admitted workloads"),
    _with_role(
        "gauge", "cluster_queue_resource_pending", (*_QUEUE, "resource"), "Requests of pending workloads"
    ),
    _with_role("gauge", "cluster_queue_nominal_quota", _QUOTA, "Nominal quota"),
    _with_role("gauge", "cluster_queue_borrowing_limit", _QUOTA, "Borrowing limit"),
    _with_role("gauge", "cluster_queue_lending_limit", _QUOTA, "Lending limit"),
    _with_role("gauge", "cluster_queue_weighted_share", (*_QUEUE, "cohort"), "Dominant share by weight"),
    _with_role("gauge", "cohort_weighted_share", ("cohort",), "Dominant share by weight of a cohort"),
    _with_role("gauge", "local_queue_resource_reservation", _LOCAL_QUOTA, "Reserved quota, by local queue"),
    _with_role(
        "gauge", "local_queue_resource_usage", _LOCAL_QUOTA, "Quota of admitted workloads, by local queue"
    ),
    _with_role(
        "gauge", "local_queue_admission_fair_sharing_usage", (*LOCAL_QUEUE, "cluster_queue"),
        "Consumed usage of a local queue, which orders admissions by fair sharing",
    ),
    _with_role("gauge", "cohort_subtree_quota", ("cohort", "flavor", "resource"), "Quota below a cohort"),
    _with_role(
        "gauge", "cohort_subtree_resource_reservations", ("cohort", "flavor", "resource"),
        "Quota reserved below a cohort",
    ),
    _with_role(
        "gauge", "cohort_subtree_admitted_active_workloads", ("cohort",), "Admitted workloads below a cohort",
        sources=("ClusterQueue",),
    ),
    Family(
        "multikueue_cluster_status", "gauge", (*_QUEUE, "cluster", "active", ROLE),
        "1 for the status of Active of a worker cluster",
    ),
    Family(
        "multikueue_workloads_dispatched_total", "counter", (*_QUEUE, "cluster", ROLE),
        "Copies of workloads created in a worker cluster",
    ),
    Family(
        "multikueue_workloads_admitted_total", "counter", (*_QUEUE, "cluster", ROLE),
        "Admissions by a worker cluster",
    ),
    Family(
        "multikueue_workloads_evicted_total", "counter", (*_QUEUE, "cluster", "reason", ROLE),
        "Workloads that lost their worker cluster",
    ),
)  # fmt: skip
_JOB: Final = ("job_name", "queue_name")

OF_VOLCANO: Final[tuple[Family, ...]] = (
    Family("volcano_job_completed_phase_count", "counter", _JOB, "Volcano Jobs that became Completed"),
    Family("volcano_job_failed_phase_count", "counter", _JOB, "Volcano Jobs that became Failed"),
    Family(
        "volcano_controller_job_to_pod_creation_latency_milliseconds", "histogram", (),
        "From the creation of a Volcano Job to that of each of its pods", exponential_buckets(50, 60_000, 30),
    ),
)  # fmt: skip
_REQUEST_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

OURS: Final[tuple[Family, ...]] = (
    _ours("counter", "cycle_decisions_total", ("decision",), "Decisions of cycles: reserve, preempt or hold"),
    _ours(
        "counter", "api_requests_total", ("verb", "resource", "code"),
        "Responses of the API server, by status code; 0 for none",
    ),
    _ours(
        "histogram", "api_request_duration_seconds", ("verb", "resource"),
        "Duration of a request; of a watch, until it starts", *_REQUEST_S,
    ),
    _ours(
        "counter", "refused_writes_total", ("resource", "code"),
        "Writes that the API server refused, by status code; without 404, 409 and 429, which are ordinary",
    ),
    _ours(
        "counter", "object_faults_total", ("resource", "stage"),
        "Times that an object could not be used: in decode, index, subscribe, decide or reconcile",
    ),
    _ours("counter", "audits_total", ("result",), "Audits of the model against stored objects, by result"),
    _ours("histogram", "audit_duration_seconds", (), "Duration of an audit", *_GO_S),
    _ours(
        "gauge", "audit_differences", (),
        "Differences that the last audit found; a value other than 0 is a bug",
    ),
    _ours(
        "gauge", "pending_start_seconds", (*_QUEUE, "percentile"),
        "Median over waiting workloads of the time, from the moment of the estimates, within which 50 or 90 "
        "of 100 simulated runs start one",
    ),
    _ours("counter", "planned_starts_total", _QUEUE, "Pending workloads of which the start was planned"),
    _ours(
        "counter", "planned_start_revisions_total", (*_QUEUE, "cause"),
        "Planned starts that were moved later, by cause, such as NodeLost",
    ),
    _ours(
        "counter", "planned_starts_ended_total", (*_QUEUE, "result"),
        "Planned starts that ended: kept, revised before the workload started, late without that, or dropped",
    ),
    _ours("gauge", "planned_starts", _QUEUE, "Pending workloads of which the start is planned"),
    _ours(
        "gauge", "reservation_condition", (*_RESERVATION, "condition"),
        "1 if a condition of a Reservation is true: Scheduled, Active, Conflicting or Ended; otherwise 0",
    ),
    _ours(
        "gauge", "reservation_amount", (*_RESERVATION, "flavor", "resource"),
        "Quota that a Reservation keeps while a window of it is active",
    ),
    _ours(
        "gauge", "reservation_used", (*_RESERVATION, "flavor", "resource"),
        "Quota that the owners of a Reservation use of its amounts",
    ),
    _ours(
        "gauge", "reservation_backfilled", (*_RESERVATION, "flavor", "resource"),
        "Quota that others use of the amounts of a Reservation, as the other quota of its pool is in use",
    ),
    _ours(
        "counter", "reservation_refusals_total", _RESERVATION,
        "Evaluations of workloads that waited because a Reservation keeps what they need",
    ),
    _ours(
        "histogram", "admission_wait_by_size_seconds", (*_QUEUE, "size"),
        "From creation or the last requeue to admission: small workloads use up to a tenth of the nominal "
        "quota, medium ones up to half", *_LONG_WAIT_S,
    ),
    _ours(
        "gauge", "cluster_queue_utilisation", _QUEUE,
        "Quota in use as a part of the nominal quota, of the resource with the largest part",
    ),
    _ours(
        "gauge", "estimates_timestamp_seconds", (),
        "Moment of the estimates of when waiting workloads start, seconds since the epoch",
    ),
    _ours(
        "gauge", "estimates_processor_seconds", (),
        "Processor time of the last refresh of the estimates, objects taken in included; in its own process",
    ),
)  # fmt: skip
FAMILIES: Final = OF_KUEUE + OF_VOLCANO + OURS
BY_NAME: Final = {family.name: family for family in FAMILIES}
