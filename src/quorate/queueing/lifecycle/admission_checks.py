"""Two-phase admission: the lifecycle rules about admission checks.

Quota is reserved first; then every admission check that applies must become Ready.  A check in state Retry
evicts the workload and a check in state Rejected deactivates it, also after admission.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from quorate.api.kueue import AdmissionCheck, AdmissionCheckState, RequeueState, Workload
from quorate.api.meta import at_epoch, epoch, find_condition, is_true
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.queueing import conditions as c
from quorate.queueing.conditions import new_condition, with_conditions
from quorate.queueing.lifecycle.statuses import admitted_condition, reset_admission_checks, synced_checks
from quorate.queueing.lifecycle.transition import Event, Transition, WorkloadContext, evict


def is_delegated(workload: Workload, checks: Mapping[str, AdmissionCheck]) -> bool:
    """Return True if the workload runs in a worker cluster once it is admitted (MultiKueue).

    The check may be removed from the queue while a worker cluster has the workload.
    """
    names = (state.name for state in workload.status.admission_checks)
    return bool(workload.status.cluster_name) or any(
        name in checks and checks[name].spec.controller_name == MULTIKUEUE for name in names
    )


def extend_backoff(context: WorkloadContext) -> Transition | None:
    """Move the end of the backoff to the latest ``requeueAfterSeconds`` of the checks; never back."""
    status = context.workload.status
    requeue_times = [
        epoch(check.last_transition_time) + check.requeue_after_seconds
        for check in status.admission_checks
        if check.state == "Retry" and check.requeue_after_seconds and check.last_transition_time
    ]
    latest = max(requeue_times, default=0.0)
    if latest <= context.now or latest <= (c.requeue_at(context.workload) or 0.0):
        return None
    state = replace(status.requeue_state or RequeueState(), requeue_at=at_epoch(latest))
    return Transition(replace(status, requeue_state=state))


def sync_admission_checks(context: WorkloadContext) -> Transition | None:
    """Keep the list of admission checks equal to the required checks of the cluster queue."""
    status, cluster = context.workload.status, context.queues.cluster_queue
    if not context.workload.spec.active or cluster is None or not cluster.found:
        return None
    checks = synced_checks(status.admission_checks, cluster.checks, context.now)
    return None if checks == status.admission_checks else Transition(replace(status, admission_checks=checks))


def sync_admitted(context: WorkloadContext) -> Transition | None:
    """Admit once all checks are Ready and all pods have places; deactivate on Rejected, evict on Retry."""
    workload, checks = context.workload, context.workload.status.admission_checks
    rejected = [check for check in checks if check.state == "Rejected"]
    if rejected and workload.spec.active:
        return _reject(context, rejected)
    if not c.has_quota_reservation(workload):
        return _reset_late_checks(context)
    if c.is_evicted(workload):
        return None
    if not c.is_admitted(workload) and all(check.state == "Ready" for check in checks):
        gives_places = context.configuration.topology_gates is not None
        return admit(workload, context.now, gives_places=gives_places)
    if retry := [check for check in checks if check.state == "Retry"]:
        message = f"Evicted due to {_text('Retry', retry)}"
        return evict(workload, c.ADMISSION_CHECK, message, context.now)
    return None


def _reset_late_checks(context: WorkloadContext) -> Transition | None:
    """Reset checks that became Retry before a reservation, or while it was being released.

    There is nothing to evict, and a workload with such a check is never nominated.
    """
    workload, status = context.workload, context.workload.status
    if not workload.spec.active or all(check.state != "Retry" for check in status.admission_checks):
        return None
    return Transition(replace(status, admission_checks=reset_admission_checks(workload, context.now)))


def admit(workload: Workload, now: float, *, gives_places: bool) -> Transition | None:
    """Return the admission of a workload with quota; None while a check is not Ready or pods wait for places.

    A controller that makes the last check Ready writes both at once.
    """
    status = workload.status
    if any(check.state != "Ready" for check in status.admission_checks):
        return None
    if c.is_admitted(workload) or (gives_places and c.awaits_places(status.admission)):
        return None
    reserved = find_condition(status.conditions, c.QUOTA_RESERVED)
    waited_s = int(now - c.transition_time(reserved)) if reserved is not None else 0
    cluster_queue = status.admission.cluster_queue if status.admission is not None else ""
    text = f"Admitted by ClusterQueue {cluster_queue}, wait time since reservation was {waited_s}s"
    admitted = admitted_condition(workload, now)
    new = replace(status, conditions=with_conditions(status.conditions, admitted))
    return Transition(new, events=(Event("Normal", "Admitted", text),))


def _reject(context: WorkloadContext, rejected: Iterable[AdmissionCheckState]) -> Transition | None:
    workload, status = context.workload, context.workload.status
    if is_true(status.conditions, c.DEACTIVATION_TARGET):
        return None
    text = _text("Rejected", rejected)
    generation = workload.metadata.generation
    target = new_condition(c.DEACTIVATION_TARGET, "True", c.ADMISSION_CHECK, text, context.now, generation)
    return Transition(
        replace(status, conditions=with_conditions(status.conditions, target)),
        events=(Event("Warning", "AdmissionCheckRejected", f"Deactivated due to {text}"),),
    )


def _text(state: str, checks: Iterable[AdmissionCheckState]) -> str:
    texts = [
        f'"{check.name}" ({check.message})' if check.message else f'"{check.name}"'
        for check in sorted(checks, key=lambda check: check.name)
    ]
    return f"AdmissionCheck{'s' if len(texts) > 1 else ''} in {state} state: {'; '.join(texts)}"
