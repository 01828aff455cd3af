"""Why members of an admitted gang have no node."""

from collections import Counter
from collections.abc import Collection

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.pending_reasons import (
    Cause,
    QueueNotOpen,
    QueueQuotaExceeded,
    can_never_fit,
    no_share_message,
)
from quorate.gang.session.session import Session
from quorate.gang.session.statement import Statement
from quorate.gang.shortage import no_fit_message
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.resources import Amounts
from quorate.placement.shapes import Shape


def refusal_by_queue(session: Session, gang: Gang, request: Amounts | None = None) -> Cause:
    """Return why the queue of ``gang`` may not allocate ``request``.

    Without ``request``, use the request of the smallest member.
    """
    queue = session.queue_of(gang)
    if not queue.is_open:
        return Cause(str(QueueNotOpen(queue.name)))
    if request is None:
        request = dict(min((sorted(shape.amounts.items()) for shape in gang.shapes), default=()))
    share = _share_shortage(session, queue, request)
    least = None if share is None else _beyond_capability(session, gang, share.queue)
    if least is not None:  # name what all members need, because no other pod has to end for a part of them
        share = _share_shortage(session, queue, least) or share
    text = no_share_message(share)
    if gang.quota_admission is not None:
        text = f"they request more than minResources, or {text}"
    return Cause(text, share=share, exceeds_capability=least is not None)


def requests_until(session: Session, task: Task, statement: Statement) -> tuple[Amounts, Amounts]:
    """Return what the queue is charged for ``task``, and with the tasks that ``statement`` has placed."""
    queue = session.queues[session.gang_of(task).queue]
    charge = session.charge_of(queue, task)
    together = Counter(charge)
    for move in statement.moves:
        together.update(session.charge_of(queue, move.task))
    return charge, together


def beyond_limit(session: Session, gang: Gang) -> tuple[Amounts, QueueQuotaExceeded] | None:
    """Return what the missing members request at least, and what their queue lacks for it.

    Return None if nothing is lacking, or if the limit is all that the nodes have, as without a capability.
    Claims of equal members may be shared, and count for one member.
    """
    queue, missing = session.queue_of(gang), max(1, gang.missing_members(with_best_effort=False))
    least = least_requests(gang.shapes, missing)
    if len(gang.shapes) == 1:
        least = {**session.charge_of(queue, next(iter(gang.schedulable.values()))), **least}
    share = None if session.allows(queue, least) else _share_shortage(session, queue, least)
    if share is None:
        return None
    of_nodes = session.cluster.total
    is_of_nodes = all(
        shortage.resource in of_nodes and shortage.at_most >= of_nodes[shortage.resource]
        for shortage in share.shortages
    )
    return None if is_of_nodes else (least, share)


def _share_shortage(session: Session, queue: Queue, request: Amounts) -> QueueQuotaExceeded | None:
    shortages = (callback(queue, request) for callback in session.callbacks.share_shortage)
    return next((shortage for shortage in shortages if shortage is not None), None)


def _beyond_capability(session: Session, gang: Gang, short: str) -> Amounts | None:
    """Return what the missing members of ``gang`` request at least; None if its queue may ever have that.

    ``short``: that queue or a queue above it, of which the limit applies too.
    """
    limited = [queue for name in {gang.queue, short} if (queue := session.queues[name]).capability]
    if not limited:
        return None
    least = least_requests(gang.shapes, max(1, gang.missing_members(with_best_effort=False)))
    exceeds = any(
        amount > queue.capability.get(resource, amount)
        for queue in limited
        for resource, amount in least.items()
    )
    return least if exceeds else None


def least_requests(shapes: Counter[Shape], members: int) -> Amounts:
    """Return the least that ``members`` pods of ``shapes`` request, of each resource."""
    if len(shapes) == 1:  # as of most gangs
        ((shape, pods),) = shapes.items()
        return {resource: amount * min(members, pods) for resource, amount in shape.amounts.items()}
    least: dict[str, int] = {}
    for resource in {name for shape in shapes for name in shape.amounts}:
        amounts = sorted((shape.amounts.get(resource, 0), pods) for shape, pods in shapes.items())
        left, least[resource] = members, 0
        for amount, pods in amounts:
            least[resource] += amount * min(left, pods)
            left -= min(left, pods)
    return least


def cause_of_refusals(
    session: Session,
    gang: Gang,
    refusals: Collection[Diagnosis],
    refused: Amounts | None,
    *,
    never_fits: bool = False,
) -> Cause:
    """Return why members have no node.

    ``refused``: the request that the queue may not allocate; None if no member was refused by the queue yet.
    ``never_fits``: only other nodes can help, so the queue does not matter.
    """
    causes = sorted(set(map(no_fit_message, refusals)))
    share, exceeds = None, False
    if refusals and never_fits:
        refused = None
    elif refusals and refused is None:
        limit = beyond_limit(session, gang)
        refused = None if limit is None else limit[0]
    if refused is not None:
        by_queue = refusal_by_queue(session, gang, refused)
        share, exceeds = by_queue.share, by_queue.exceeds_capability
        never_fits = share is not None and can_never_fit(share)
        causes.insert(0 if never_fits else len(causes), by_queue.text)
    if not causes:
        return cause_without_refusals(session, gang)
    return Cause("; ".join(causes), tuple(refusals), share, exceeds)


def cause_without_refusals(session: Session, gang: Gang) -> Cause:
    """Return why ``gang`` is not ready: scheduling gates, or else its queue."""
    gated = sum(task.gated for task in gang.with_status(TaskStatus.PENDING))
    return Cause(f"{gated} have scheduling gates") if gated else refusal_by_queue(session, gang)
