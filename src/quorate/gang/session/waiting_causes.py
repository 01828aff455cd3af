"""Why members of an admitted gang have no node."""

from collections import Counter
from collections.abc import Collection

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.pending_reasons import Cause, QueueNotOpen, can_never_fit, no_share_message
from quorate.gang.session.session import Session
from quorate.gang.session.statement import Statement
from quorate.gang.shortage import no_fit_message
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.resources import Amounts


def refusal_by_queue(session: Session, gang: Gang, request: Amounts | None = None) -> Cause:
    """Return why the queue of ``gang`` may not allocate ``request``, or that of its smallest member."""
    queue = session.queue_of(gang)
    if not queue.is_open:
        return Cause(str(QueueNotOpen(queue.name)))
    if request is None:
        request = dict(min((sorted(shape.amounts.items()) for shape in gang.shapes), default=()))
    shortages = (callback(queue, request) for callback in session.callbacks.share_shortage)
    share = next((shortage for shortage in shortages if shortage is not None), None)
    text = no_share_message(share)
    if gang.quota_admission is not None:
        text = f"they request more than minResources, or {text}"
    return Cause(text, share=share)


def requests_until(session: Session, task: Task, statement: Statement) -> tuple[Amounts, Amounts]:
    """Return what the queue is charged for ``task``, and with the tasks that ``statement`` has placed."""
    queue = session.queues[session.gang_of(task).queue]
    charge = session.charge_of(queue, task)
    together = Counter(charge)
    for move in statement.moves:
        together.update(session.charge_of(queue, move.task))
    return charge, together


def cause_of_refusals(
    session: Session, gang: Gang, refusals: Collection[Diagnosis], refused: Amounts | None
) -> Cause:
    """Return why members have no node.  ``refused``: the request that the queue may not allocate, if any."""
    causes = sorted(set(map(no_fit_message, refusals)))
    share = None
    if refused is not None:
        by_queue = refusal_by_queue(session, gang, refused)
        share = by_queue.share
        never_fits = share is not None and can_never_fit(share)
        causes.insert(0 if never_fits else len(causes), by_queue.text)
    if not causes:
        return cause_without_refusals(session, gang)
    return Cause("; ".join(causes), tuple(refusals), share)


def cause_without_refusals(session: Session, gang: Gang) -> Cause:
    """Return why ``gang`` is not ready: scheduling gates, or else its queue."""
    gated = sum(task.gated for task in gang.with_status(TaskStatus.PENDING))
    return Cause(f"{gated} have scheduling gates") if gated else refusal_by_queue(session, gang)
