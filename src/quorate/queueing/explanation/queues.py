"""The explanation of a queue: whether it admits, why not, and what is free."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from quorate.api.explanation import Explanation, ObjectName, Reason
from quorate.api.meta import Key
from quorate.queueing.cluster_queue import ClusterQueueState, LocalQueueState, ReservationTotals
from quorate.queueing.explanation.scope import UNLIMITED_SCOPE, Scope
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, as_quantity


def explain_cluster_queue(
    state: State, name: str, first: Sequence[Key] = (), scope: Scope = UNLIMITED_SCOPE
) -> Explanation | None:
    """Return the explanation; None if the queue does not exist.  ``first``: its first pending workloads."""
    queue = state.ledger.cluster_queues.get(name)
    if queue is None:
        return None
    object_ = ObjectName(kind="ClusterQueue", name=name)
    inactive, counts = tuple(_inactive(queue, "it")), _counts(len(queue.pending), queue.totals)
    parts = [counts, *(f"without effect: {finding}" for finding in queue.invalid_settings)]
    if queue.spec.namespace_selector is None:
        parts.append("its namespaceSelector is not set, so it selects no namespace")
    return _explanation(object_, queue, inactive, parts, first, scope)


def explain_local_queue(
    state: State, key: Key, first: Sequence[Key] = (), scope: Scope = UNLIMITED_SCOPE
) -> Explanation | None:
    """Return the explanation; None if the queue does not exist.

    ``first``: the first pending workloads of its cluster queue.
    """
    queue = state.ledger.local_queues.get(key)
    if queue is None or queue.object is None:
        return None
    cluster_queue = state.ledger.cluster_queues.get(queue.cluster_queue)
    object_ = ObjectName(kind="LocalQueue", name=key.name, namespace=key.namespace)
    parts = [_counts(queue.pending_count, queue.totals)]
    if cluster_queue is not None:
        of_all = _counts(len(cluster_queue.pending), cluster_queue.totals)
        parts.append(f"{of_all} in cluster queue {cluster_queue.name}")
    inactive = tuple(_inactive_local(key, queue, cluster_queue))
    explanation = _explanation(object_, cluster_queue, inactive, parts, first, scope)
    return replace(explanation, local_queue=key.name, cluster_queue=queue.cluster_queue)


def _explanation(
    object_: ObjectName,
    queue: ClusterQueueState | None,
    inactive: tuple[Reason, ...],
    parts: Sequence[str],
    first: Sequence[Key],
    scope: Scope,
) -> Explanation:
    """Return the explanation of a queue that belongs to the cluster queue ``queue``, or is it."""
    texts = "; ".join(reason.text for reason in inactive)
    return Explanation(
        object=object_,
        state="Inactive" if inactive else "Active",
        message="; ".join((f"it admits nothing: {texts}" if inactive else "it admits", *parts)),
        cluster_queue="" if queue is None else queue.name,
        ahead=None if queue is None else len(queue.pending),
        first_ahead=tuple(str(workload) for workload in first if scope.reads(workload)),
        code=inactive[0].code if inactive else "",
        reasons=(*inactive, *(() if queue is None else _quota(queue))),
        enough=tuple(dict.fromkeys(reason.enough for reason in inactive if reason.enough)),
    )


def _counts(pending: int, totals: ReservationTotals) -> str:
    return f"{pending} pending and {totals.reserving} with quota"


def _inactive(queue: ClusterQueueState, subject: str) -> Iterator[Reason]:
    for reason in queue.inactive_reasons:
        has_subject = not reason.text.startswith(("is ", "references "))
        yield Reason(
            code=reason.code,
            text=reason.text if has_subject else f"{subject} {reason.text}",
            object=ObjectName(kind="ClusterQueue", name=queue.name),
            enough=reason.enough,
        )


def _inactive_local(
    key: Key, queue: LocalQueueState, cluster_queue: ClusterQueueState | None
) -> Iterator[Reason]:
    name = ObjectName(kind="LocalQueue", name=key.name, namespace=key.namespace)
    if queue.is_terminating:
        yield Reason(
            code="Terminating",
            text="it is being deleted",
            object=name,
            enough="create it again after it is gone",
        )
    elif not queue.is_running:
        yield Reason(
            code="Stopped",
            text="it is stopped",
            object=name,
            enough=f"quorate queue resume lq/{key.name} --namespace {key.namespace} (spec.stopPolicy: None)",
        )
    if cluster_queue is None:
        yield Reason(
            code="ClusterQueueMissing",
            text=f"ClusterQueue {queue.cluster_queue} doesn't exist",
            object=ObjectName(kind="ClusterQueue", name=queue.cluster_queue),
            enough=f"create the ClusterQueue {queue.cluster_queue}",
        )
    else:
        yield from _inactive(cluster_queue, f"ClusterQueue {cluster_queue.name}")


def _quota(queue: ClusterQueueState) -> Iterator[Reason]:
    """Yield what is free of each flavor and resource, and the most that the queue can use."""
    for resource, group in sorted(queue.groups.items(), key=lambda named: named[0]):
        for flavor in group.flavors:
            pair = FlavorResource(flavor, resource)
            amounts = (
                tree.used(queue.node, pair),
                max(0, tree.available(queue.node, pair)),
                tree.potential_available(queue.node, pair),
            )
            used, free, most = (str(as_quantity(resource, amount)) for amount in amounts)
            outside = sum(usage.get(pair, 0) for usage in queue.outside.values())
            by_pods = f" ({as_quantity(resource, outside)} by pods outside of quota)" if outside else ""
            yield Reason(
                code="Quota",
                text=f"{resource} of flavor {flavor}: {used} reserved{by_pods}, {free} free",
                flavor=flavor,
                resource=resource,
                free=free,
                at_most=most,
            )
