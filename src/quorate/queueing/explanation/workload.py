"""The explanation of a workload: its true state, the reasons, and what would be enough.

The rules go from the end of a workload's life to its beginning, and the first that applies answers.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api.core.started_pod import FailedCreation, StartedPod
from quorate.api.explanation import ExplainedState, Explanation, ObjectName, PodCounts, RaisedPriority, Reason
from quorate.api.human_duration import spelled_duration
from quorate.api.kueue import AdmissionCheckState, Workload
from quorate.api.kueue.provisioning import CONTROLLER as PROVISIONING
from quorate.api.meta import Condition, Key, at_epoch, find_condition, true_condition
from quorate.api.names.kueue import ADMISSION_GATED_BY
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.queueing import conditions as c
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.explain import PendingFacts
from quorate.queueing.explanation.dispatch import awaited_clusters, dispatch_of
from quorate.queueing.explanation.planned import planned_start_of
from quorate.queueing.explanation.pods import expected_pods, pods_found
from quorate.queueing.explanation.reasons import code_of, pending_reason, reason_with_remedy, sufficient
from quorate.queueing.scheduling.second_pass_places import FoundPlaces, SecondPassPlaces
from quorate.queueing.state import State
from quorate.quota.amount import as_quantity

NEVER: Final = "it can never start with the current configuration, even if every other workload finishes"
# Reasons that no other workload removes by finishing.
_HELD: Final = (
    r.QueueMissing,
    r.QueueInactive,
    r.NamespaceMismatched,
    r.RequestsAboveLimits,
    r.DevicesUncounted,
    r.LimitRangeViolated,
    r.ChecksFailed,
    r.EvaluationFailed,
)


class Started(msgspec.Struct, frozen=True):
    """What is known of an admitted workload beyond the model."""

    pods: Sequence[StartedPod] | None = None  # of its namespace; None: not read
    group: Reason | None = None  # what its pod group waits for
    failure: FailedCreation | None = None  # of its job to create a pod


NOT_READ: Final = Started()


def explain_workload(
    state: State, workload: Workload, facts: PendingFacts | None, started: Started = NOT_READ
) -> Explanation:
    """Return the explanation; ``facts`` of a pending workload, as the reader may see them."""
    explanation = (
        _finished(workload)
        or _evicting(workload)
        or _deactivated(workload)
        or _with_quota(state, workload, started)
        or _kept_out(state, workload)
        or _pending(state, workload, facts)
    )
    if (outside := true_condition(workload.status.conditions, c.OUTSIDE_QUOTA)) is not None:
        reason = _of_condition(outside)
        code = explanation.code or reason.code
        message, reasons = f"{explanation.message}; {reason.text}", (*explanation.reasons, reason)
        explanation = replace(explanation, message=message, reasons=reasons, code=code)
    return replace(
        explanation,
        local_queue=workload.spec.queue_name,
        cluster_queue=_cluster_queue(state, workload),
        dispatch=dispatch_of(workload),
    )


def _explanation(
    workload: Workload, state: ExplainedState, message: str, *reasons: Reason, since: datetime | None = None
) -> Explanation:
    metadata = workload.metadata
    return Explanation(
        object=ObjectName(kind="Workload", name=metadata.name, namespace=metadata.namespace),
        state=state,
        message=message,
        code=code_of(reasons),
        since=since,
        reasons=reasons,
        enough=tuple(dict.fromkeys(reason.enough for reason in reasons if reason.enough)),
    )


def _of_condition(condition: Condition, enough: str = "", *, needs_change: bool = False) -> Reason:
    return Reason(
        code=condition.reason or condition.type,
        text=condition.message or condition.reason,
        since=condition.last_transition_time,
        enough=enough,
        needs_change=needs_change,
    )


def _finished(workload: Workload) -> Explanation | None:
    finished = true_condition(workload.status.conditions, c.FINISHED)
    if finished is None:
        return None
    message = finished.message or "it has finished"
    since = finished.last_transition_time
    explanation = _explanation(workload, "Finished", message, _of_condition(finished), since=since)
    return replace(explanation, code="")


def _resume(workload: Workload) -> str:
    name = workload.metadata.name
    return (
        f"quorate workload resume {name} -n {workload.metadata.namespace} (spec.active: true) queues it again"
    )


def _evicting(workload: Workload) -> Explanation | None:
    evicted = true_condition(workload.status.conditions, c.EVICTED)
    if evicted is None or not c.has_quota_reservation(workload):
        return None
    text = f"it is being evicted and holds its quota until its pods are gone: {evicted.message}"
    reason = _of_condition(evicted, "its pods must end")
    since = evicted.last_transition_time
    if workload.spec.active:
        return _explanation(workload, "Evicted", text, reason, since=since)
    resume = Reason(code="Deactivated", text="spec.active is false", enough=_resume(workload))
    return _explanation(workload, "Deactivated", text, reason, resume, since=since)


def _deactivated(workload: Workload) -> Explanation | None:
    if workload.spec.active:
        return None
    evicted = find_condition(workload.status.conditions, c.EVICTED)
    by_controllers = evicted is not None and evicted.reason.startswith(f"{c.DEACTIVATED}DueTo")
    why = f": {evicted.message}" if by_controllers and evicted is not None else ""
    by = "the controllers" if by_controllers else "a user"
    reason = Reason(
        code=evicted.reason if by_controllers and evicted is not None else "Deactivated",
        text=f"{by} set spec.active to false{why}",
        since=evicted.last_transition_time if evicted is not None else None,
        enough=_resume(workload),
    )
    return _explanation(
        workload, "Deactivated", f"it is deactivated: {reason.text}", reason, since=reason.since
    )


# With quota.


def _with_quota(state: State, workload: Workload, started: Started) -> Explanation | None:
    reservation = state.ledger.reservations.get(workload.metadata.key)
    if reservation is not None and reservation.assumed is not None:
        reason = Reason(
            code="QuotaAvailable",
            text=f"cluster queue {reservation.admission.cluster_queue} has enough free quota for it now",
            enough="the controllers must write the admission",
        )
        text = f"{reason.text} (if it stays pending, check that the controllers run)"
        return _explanation(workload, "Queued", text, reason, since=_queued_since(workload))
    if not c.has_quota_reservation(workload):
        return None
    if not c.is_admitted(workload):
        return _checked(state, workload)
    explanation = _admitted(state, workload, started)
    if reservation is not None and reservation.is_preemption_target:
        reason = Reason(code="PreemptionDecided", text="it is about to be preempted for another workload")
        text = f"{reason.text}; {explanation.message}"
        return replace(explanation, message=text, reasons=(reason, *explanation.reasons))
    return explanation


def _checked(state: State, workload: Workload) -> Explanation:
    """Return the explanation of a workload that has quota and is not admitted yet."""
    reserved = true_condition(workload.status.conditions, c.QUOTA_RESERVED)
    since = reserved.last_transition_time if reserved is not None else None
    open_ = [check for check in workload.status.admission_checks if check.state != "Ready"]
    if not open_ and c.awaits_places(workload.status.admission):
        refusals = _why_unplaced(state, workload)
        details = f": {'; '.join(reason.text for reason in refusals)}" if refusals else ""
        message = f"it has quota, and waits for places of its pods in the topology{details}"
        return _explanation(workload, "Held", message, *refusals, since=since)
    if not open_:
        return _explanation(
            workload, "Admitted", "it has quota, and all admission checks are ready", since=since
        )
    reasons = [_check_reason(state, workload, check) for check in open_]
    names = ", ".join(check.name for check in open_)
    details = "; ".join(f"{check.name}: {check.message}" for check in open_ if check.message)
    message = f"it has quota, and waits for admission checks: {names}{f' ({details})' if details else ''}"
    return _explanation(workload, "Held", message, *reasons, since=since)


def _why_unplaced(state: State, workload: Workload) -> list[Reason]:
    """Return why pods have no places although their checks are Ready; empty if it is not known."""
    key = workload.metadata.key
    reservation = state.ledger.reservations.get(key)
    if reservation is None or not state.ledger.topology.has_nodes:
        return []
    outcome = SecondPassPlaces(state, reservation, frozenset()).find()
    if isinstance(outcome, FoundPlaces):
        return []
    return [reason_with_remedy(state, key, failure) for failure in outcome]


def _check_reason(state: State, workload: Workload, check: AdmissionCheckState) -> Reason:
    stored = state.checks.get(check.name)
    by = "" if stored is None else f": its controller is {stored.spec.controller_name}"
    enough = f"admission check {check.name} must become Ready{by}"
    if stored is not None and stored.spec.controller_name == PROVISIONING:
        enough = f"nodes must come for {_requested_nodes(state, workload)}"
    elif stored is not None and stored.spec.controller_name == MULTIKUEUE:
        enough = awaited_clusters(workload)
    return Reason(
        code=f"AdmissionCheck{check.state}",
        text=check.message or f"admission check {check.name} is {check.state}",
        object=ObjectName(kind="AdmissionCheck", name=check.name),
        since=check.last_transition_time,
        enough=enough,
    )


def _requested_nodes(state: State, workload: Workload) -> str:
    """Return the pods for which a ProvisioningRequest has to bring nodes, with their requests."""
    admission = workload.status.admission
    counts = {pod_set.name: pod_set.count for pod_set in (admission.pod_set_assignments if admission else ())}
    return " and ".join(
        f"{counts.get(shape.name) or shape.count} pods of {shape.name}, each with "
        + ", ".join(f"{as_quantity(name, amount)} {name}" for name, amount in sorted(shape.per_pod.items()))
        for shape in state.ledger.shapes.shape_of(workload).pod_sets
    )


def _admitted(state: State, workload: Workload, started: Started) -> Explanation:
    admitted = true_condition(workload.status.conditions, c.ADMITTED)
    since = admitted.last_transition_time if admitted is not None else None
    head = f"it is admitted{_reduced_counts(workload)}"
    if workload.status.cluster_name:
        head = f"{head} in worker cluster {workload.status.cluster_name}"
        started = NOT_READ  # its pods are there
    short = find_condition(workload.status.conditions, c.NODE_FIT)
    fit = () if short is None else (_of_condition(short, "nodes must have room for all its pods"),)
    group = () if started.group is None else (started.group,)
    refused = find_condition(workload.status.conditions, c.JOB_UPDATED)
    if refused is not None:
        return _of_refused_change(workload, head, refused)
    if started.pods is None:
        return _of_unread_pods(workload, head, (*fit, *group), since)
    of_pods = pods_found(state, workload, started.pods, started.failure)
    if of_pods.all_run and (of_pods.counts.running or started.group is None):
        running: ExplainedState = "Running" if of_pods.counts.running else "Admitted"
        none = "" if of_pods.counts.running else "; it needs no more pods"
        return replace(_explanation(workload, running, f"{head}{none}", since=since), pods=of_pods.counts)
    reasons = (*group, *of_pods.reasons)
    state_: ExplainedState = "RunningInPart" if of_pods.counts.running else "Admitted"
    if any(reason.needs_change for reason in reasons):
        state_ = "Stuck"
    if short is not None and not any(pod_set_reason.code == "NodesLackRoom" for pod_set_reason in reasons):
        reasons = (*reasons, *fit)
    waits = f"; {started.group.text}" if started.group is not None else ""
    shortages = "".join(
        f"; {pod_set_reason.text}" for pod_set_reason in reasons if pod_set_reason.code == "NodesLackRoom"
    )
    message = f"{head}{waits}; {of_pods.text}{shortages}"
    return replace(_explanation(workload, state_, message, *reasons, since=since), pods=of_pods.counts)


def _of_refused_change(workload: Workload, head: str, refused: Condition) -> Explanation:
    enough = "the API server must accept the change: correct the job or what refuses it"
    reason = _of_condition(refused, enough, needs_change=True)
    since = refused.last_transition_time
    return _explanation(workload, "Stuck", f"{head}, but {refused.message}", reason, since=since)


def _of_unread_pods(
    workload: Workload, head: str, reasons: tuple[Reason, ...], since: datetime | None
) -> Explanation:
    """Return the explanation of an admitted workload with pods that the caller cannot read."""
    counts = PodCounts(
        requested=sum(pod_set.count for pod_set in workload.spec.pod_sets), admitted=expected_pods(workload)
    )
    ready = true_condition(workload.status.conditions, c.PODS_READY)
    if ready is not None and not reasons:
        explanation = _explanation(workload, "Running", f"{head}, and all its pods are ready", since=since)
        return replace(explanation, pods=counts)
    detail = "".join(f"; {reason.text}" for reason in reasons)
    message = f"{head}{detail}; whether its pods run is not known here"
    state: ExplainedState = "Stuck" if any(reason.needs_change for reason in reasons) else "Admitted"
    return replace(_explanation(workload, state, message, *reasons, since=since), pods=counts)


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


# Without quota.


def _kept_out(state: State, workload: Workload) -> Explanation | None:
    """Return the explanation of a workload that is not in a queue at all."""
    metadata = workload.metadata
    if metadata.deletion_timestamp is not None:
        reason = Reason(code="Deleted", text="it is being deleted", since=metadata.deletion_timestamp)
        return _explanation(workload, "Held", reason.text, reason, since=reason.since)
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    since = reserved.last_transition_time if reserved is not None else None
    gates = metadata.annotations.get(ADMISSION_GATED_BY)
    if gates and state.configuration.gates.admission_gated_by:
        reason = Reason(
            code=c.ADMISSION_GATED,
            text=f"its annotation {ADMISSION_GATED_BY} names closed gates: {gates}",
            since=since,
            enough=f"the controllers of these gates must remove them: {gates}",
        )
        return _explanation(workload, "Held", reason.text, reason, since=since)
    if reserved is not None and reserved.reason == c.ON_HOLD:
        reason = _of_condition(reserved, "its job must no longer be on hold")
        return _explanation(workload, "Held", f"its job is on hold: {reserved.message}", reason, since=since)
    replacement = true_condition(workload.status.conditions, c.WAITING_FOR_REPLACEMENT)
    if replacement is not None and workload.spec.active:
        reason = Reason(
            code=c.WAITING_FOR_REPLACEMENT,
            text=f"its pod group waits for replacement pods ({replacement.message})",
            since=replacement.last_transition_time,
            enough="as many pods must be made as are missing in the group",
        )
        return _explanation(workload, "Held", reason.text, reason, since=reason.since)
    return None


def _pending(state: State, workload: Workload, facts: PendingFacts | None) -> Explanation:
    key, since = workload.metadata.key, _queued_since(workload)
    recorded = _recorded(workload, facts) if facts is None or not facts.is_evaluated else None
    if recorded is not None:
        return _after_eviction(workload, recorded, facts)
    if facts is None or key not in state.ledger.entries:
        explanation = _explanation(workload, "Queued", "not evaluated yet", since=since)
        return replace(explanation, code=c.PENDING_EVALUATION)
    pending = facts.hold.reasons if facts.hold is not None else ()
    waiting = find_condition(workload.status.conditions, c.WAITING)
    reasons = tuple(
        _with_times(pending_reason(state, key, reason, facts), waiting, _evaluated_at(facts, reason))
        for reason in pending
    )
    shown: ExplainedState = "NeverFits" if facts.can_never_fit or facts.exceeds_nodes else "Queued"
    if any(isinstance(reason, _HELD) for reason in pending):
        shown = "Held"
    if facts.hold is None and facts.blocked:
        message = (
            "not evaluated: the first workload of its queue, which is StrictFIFO, can never start as it is"
        )
    elif facts.hold is None:
        message = "not evaluated yet: workloads ahead of it are evaluated first"
    else:
        message = f"{NEVER}: {facts.hold.message}" if facts.can_never_fit else facts.hold.message
    explanation = _explanation(workload, shown, message, *reasons, since=since)
    # What is only short now is not why a workload can never start.
    lasting = [reason for reason in pending if not isinstance(reason, r.QuotaShort)]
    groups = facts.hold.groups if facts.hold is not None else ()
    deciding = c.deciding_reason(lasting if facts.can_never_fit else pending, groups)
    explanation = replace(
        explanation,
        code=c.PENDING_EVALUATION if deciding is None else type(deciding).__name__,
        ahead=facts.ahead,
        first_ahead=tuple(str(earlier) for earlier in facts.first_ahead if earlier.namespace),
        priority=_raised_priority(state, key),
        planned_start=planned_start_of(state, workload),
        can_never_fit=facts.can_never_fit,
        enough=sufficient(state, workload, facts),
        remedies=() if facts.remedies is None else facts.remedies.any_of,
        rivals=0 if facts.remedies is None else facts.remedies.rivals,
    )
    return next(_backing_off(workload, explanation, pending), None) or _after_eviction(
        workload, explanation, facts
    )


def _raised_priority(state: State, key: Key) -> RaisedPriority | None:
    """Return the priority of a pending workload; None unless waiting has raised it."""
    entry = state.ledger.entries[key]
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    if queue is None:
        return None
    own, (negated, since, _) = -entry.order[0], queue.pending.order(entry)
    if -negated == own:
        return None
    waiting = spelled_duration(state.ledger.now - since)
    text = f"priority {own}, {-negated} with {waiting} of waiting"
    return RaisedPriority(own=own, raised=-negated, since=at_epoch(since), text=text)


def _with_times(reason: Reason, waiting: Condition | None, evaluated_at: datetime | None) -> Reason:
    """Return the reason with two times.

    They are the time since when the status has the code of the reason, and when the numbers were computed.
    """
    if waiting is not None and waiting.reason == reason.code:
        reason = replace(reason, since=waiting.last_transition_time)
    return replace(reason, evaluated_at=evaluated_at)


def _evaluated_at(facts: PendingFacts, reason: r.InadmissibleReason) -> datetime | None:
    """Return when ``reason`` was found; None for amounts of quota, which are evaluated now."""
    at = None if facts.hold is None else facts.hold.evaluated_at
    return None if at is None or isinstance(reason, r.QuotaShort | r.QuotaExceeded) else at_epoch(at)


def _after_eviction(workload: Workload, explanation: Explanation, facts: PendingFacts | None) -> Explanation:
    """Return the explanation of a workload that is queued again, with the reason of its eviction."""
    evicted = true_condition(workload.status.conditions, c.EVICTED)
    if evicted is None:
        return explanation
    what, reason = f"evicted: {evicted.message}", _of_condition(evicted)
    if evicted.reason == c.PREEMPTED:
        preemptor = (facts and facts.preemptor) or Key("", "another workload")
        name = ObjectName(kind="Workload", name=preemptor.name, namespace=preemptor.namespace)
        reason = replace(reason, object=name if preemptor.namespace else None)
        what = f"preempted for {preemptor}"
    if explanation.message == evicted.message:  # nothing was decided about it since
        return replace(
            explanation, message=f"it was {what}; it is queued again", reasons=(reason,), code=reason.code
        )
    message = f"it was {what}; it is queued again: {explanation.message}"
    return replace(explanation, message=message, reasons=(reason, *explanation.reasons))


def _recorded(workload: Workload, facts: PendingFacts | None) -> Explanation | None:
    """Return the outcome in the status, where the model has none: it decides nothing; None without one."""
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    if reserved is None or not reserved.message or reserved.reason == c.PENDING_EVALUATION:
        return None
    waiting = true_condition(workload.status.conditions, c.WAITING)
    held = waiting is not None and waiting.reason in {reason.__name__ for reason in _HELD}
    never = facts is not None and facts.can_never_fit
    explanation = _explanation(
        workload,
        "Held" if held else "NeverFits" if never else "Queued",
        reserved.message,
        _of_condition(waiting or reserved),
        since=_queued_since(workload),
    )
    if facts is None:
        return explanation
    ahead = tuple(str(earlier) for earlier in facts.first_ahead if earlier.namespace)
    return replace(explanation, ahead=facts.ahead, first_ahead=ahead, can_never_fit=facts.can_never_fit)


def _backing_off(
    workload: Workload, explanation: Explanation, pending: Sequence[r.InadmissibleReason]
) -> Iterator[Explanation]:
    """Yield the explanation of an evicted workload that is tried again later."""
    evicted = find_condition(workload.status.conditions, c.EVICTED)
    for reason in pending:
        if isinstance(reason, r.BackingOff) and evicted is not None:
            retry_at = None if reason.until is None else at_epoch(reason.until)
            when = "" if retry_at is None else f", and it is tried again at {retry_at:%H:%M:%S} UTC"
            yield replace(
                explanation,
                state="Evicted",
                message=f"it was evicted: {evicted.message}{when}",
                since=evicted.last_transition_time,
                reasons=(_of_condition(evicted), *explanation.reasons),
                retry_at=retry_at,
            )


def _queued_since(workload: Workload) -> datetime | None:
    return at_epoch(c.queued_since(workload)) if workload.metadata.creation_timestamp is not None else None


def _cluster_queue(state: State, workload: Workload) -> str:
    if workload.status.admission is not None:
        return workload.status.admission.cluster_queue
    local = state.ledger.local_queues.get(Key(workload.metadata.namespace, workload.spec.queue_name))
    return local.cluster_queue if local is not None else ""
