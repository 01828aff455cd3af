"""Two-phase admission: the rows about admission checks.

Quota is reserved first; then every check that applies must be ready.  One that wants a retry evicts, one
that rejects deactivates, also after admission.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from quorate.api.kueue import AdmissionCheckState, RequeueState
from quorate.api.meta import at_epoch, epoch, find_condition, is_true
from quorate.queueing import conditions as c
from quorate.queueing.conditions import new_condition, with_conditions
from quorate.queueing.lifecycle.statuses import admitted_condition, reset_admission_checks
from quorate.queueing.lifecycle.transition import Event, Transition, WorkloadContext, evict


def extend_backoff(case: WorkloadContext) -> Transition | None:
    """A check that wants a retry later moves the end of the backoff, forward only."""
    status = case.workload.status
    moments = [
        epoch(check.last_transition_time) + check.requeue_after_seconds
        for check in status.admission_checks
        if check.state == "Retry" and check.requeue_after_seconds and check.last_transition_time
    ]
    latest = max(moments, default=0.0)
    if latest <= case.now or latest <= (c.requeue_at(case.workload) or 0.0):
        return None
    state = replace(status.requeue_state or RequeueState(), requeue_at=at_epoch(latest))
    return Transition(replace(status, requeue_state=state))


def sync_admission_checks(case: WorkloadContext) -> Transition | None:
    """Keep the list of checks what the cluster queue asks for."""
    status, cluster = case.workload.status, case.queues.cluster_queue
    if not case.workload.spec.active or cluster is None or not cluster.found:
        return None
    checks = _listed(status.admission_checks, cluster.checks, case.now)
    return None if checks == status.admission_checks else Transition(replace(status, admission_checks=checks))


def _listed(
    listed: tuple[AdmissionCheckState, ...], required: tuple[str, ...], now: float
) -> tuple[AdmissionCheckState, ...]:
    if {check.name for check in listed} == set(required):
        return listed
    by_name = {check.name: check for check in listed}
    return tuple(
        by_name.get(name)
        or AdmissionCheckState(name=name, state="Pending", last_transition_time=at_epoch(now))
        for name in sorted(required)
    )


def sync_admitted(case: WorkloadContext) -> Transition | None:
    """Admission once all checks are ready, and what a check that refuses brings."""
    workload = case.workload
    if not c.has_quota_reservation(workload):
        return _ask_again(case)
    if c.is_evicted(workload):
        return None
    checks = workload.status.admission_checks
    if not c.is_admitted(workload) and all(check.state == "Ready" for check in checks):
        return _admit(case)
    if rejected := [check for check in checks if check.state == "Rejected"]:
        return _reject(case, rejected)
    if retried := [check for check in checks if check.state == "Retry"]:
        return evict(workload, c.ADMISSION_CHECK, f"Evicted due to {_text('Retry', retried)}", case.now)
    return None


def _ask_again(case: WorkloadContext) -> Transition | None:
    """Let go of a refusal that came when the reservation it was meant for was being taken back.

    It has nothing left to evict, and who has a refusal is not tried again.
    """
    workload, status = case.workload, case.workload.status
    late = [check for check in status.admission_checks if check.state in ("Retry", "Rejected")]
    if not late or not c.is_evicted(workload) or not workload.spec.active:
        return None
    return Transition(replace(status, admission_checks=reset_admission_checks(workload, case.now)))


def _admit(case: WorkloadContext) -> Transition:
    workload, status = case.workload, case.workload.status
    reserved = find_condition(status.conditions, c.QUOTA_RESERVED)
    waited_s = int(case.now - c.transition_time(reserved)) if reserved is not None else 0
    cluster_queue = status.admission.cluster_queue if status.admission is not None else ""
    text = f"Admitted by ClusterQueue {cluster_queue}, wait time since reservation was {waited_s}s"
    new = replace(
        status, conditions=with_conditions(status.conditions, admitted_condition(workload, case.now))
    )
    return Transition(new, events=(Event("Normal", "Admitted", text),))


def _reject(case: WorkloadContext, rejected: Iterable[AdmissionCheckState]) -> Transition | None:
    workload, status = case.workload, case.workload.status
    if is_true(status.conditions, c.DEACTIVATION_TARGET):
        return None
    text = _text("Rejected", rejected)
    generation = workload.metadata.generation
    target = new_condition(c.DEACTIVATION_TARGET, "True", c.ADMISSION_CHECK, text, case.now, generation)
    return Transition(
        replace(status, conditions=with_conditions(status.conditions, target)),
        events=(Event("Warning", "AdmissionCheckRejected", f"Deactivated due to {text}"),),
    )


def _text(state: str, checks: Iterable[AdmissionCheckState]) -> str:
    texts = [f'"{check.name}" ({check.message})' for check in sorted(checks, key=lambda check: check.name)]
    return f"AdmissionCheck{'s' if len(texts) > 1 else ''} in {state} state: {'; '.join(texts)}"
