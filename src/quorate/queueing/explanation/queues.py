"""The explanation of a queue: whether it admits, why not, and what is free."""

from collections.abc import Iterator, Sequence

from quorate.api.explanation import Explanation, ObjectName, Reason
from quorate.api.meta import Key
from quorate.queueing.cluster_queue import ClusterQueueState, LocalQueueState
from quorate.queueing.explanation.scope import UNLIMITED_SCOPE, Scope
from quorate.queueing.inactive_reasons import (
    ChecksInactive,
    ChecksMissing,
    CohortCycle,
    FlavorsMissing,
    InactiveReason,
    Misconfigured,
    Stopped,
    Terminating,
    TopologiesMissing,
    inactive_message,
)
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
    inactive = tuple(_inactive(state, queue))
    return Explanation(
        object=ObjectName(kind="ClusterQueue", name=name),
        state="Inactive" if inactive else "Active",
        message=_message("; ".join(reason.text for reason in inactive), queue),
        cluster_queue=name,
        ahead=len(queue.pending),
        first_ahead=tuple(str(workload) for workload in first if scope.reads(workload)),
        code=inactive[0].code if inactive else "",
        reasons=(*inactive, *_quota(queue)),
        enough=tuple(dict.fromkeys(reason.enough for reason in inactive if reason.enough)),
    )


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
    inactive = tuple(_inactive_local(state, key, queue, cluster_queue))
    return Explanation(
        object=ObjectName(kind="LocalQueue", name=key.name, namespace=key.namespace),
        state="Inactive" if inactive else "Active",
        message=_message("; ".join(reason.text for reason in inactive), cluster_queue),
        local_queue=key.name,
        cluster_queue=queue.cluster_queue,
        ahead=len(cluster_queue.pending) if cluster_queue is not None else None,
        first_ahead=tuple(str(workload) for workload in first if scope.reads(workload)),
        code=inactive[0].code if inactive else "",
        reasons=(*inactive, *(_quota(cluster_queue) if cluster_queue is not None else ())),
        enough=tuple(dict.fromkeys(reason.enough for reason in inactive if reason.enough)),
    )


def _message(inactive: str, queue: ClusterQueueState | None) -> str:
    counts = ""
    if queue is not None:
        counts = f"{len(queue.pending)} pending and {queue.totals.reserving} with quota in {queue.name}"
    return "; ".join(filter(None, (f"it admits nothing: {inactive}" if inactive else "it admits", counts)))


def _inactive(state: State, queue: ClusterQueueState) -> Iterator[Reason]:
    for reason in queue.inactive_reasons:
        yield Reason(
            code=reason.condition_reason,
            text=inactive_message(reason),
            object=ObjectName(kind="ClusterQueue", name=queue.name),
            enough=_enough(queue.name, reason),
        )


def _enough(name: str, reason: InactiveReason) -> str:
    match reason:
        case Stopped():
            return f"quorate queue resume {name} (spec.stopPolicy: None)"
        case Terminating():
            return "create it again after it is gone"
        case FlavorsMissing(names):
            return f"create the ResourceFlavors {', '.join(names)}, or remove them from the queue"
        case ChecksMissing(names):
            return f"create the AdmissionChecks {', '.join(names)}, or remove them from the queue"
        case ChecksInactive(names):
            return f"the controllers of the AdmissionChecks {', '.join(names)} must make them Active"
        case TopologiesMissing(by_flavor):
            return f"create the Topologies {', '.join(topology for _, topology in by_flavor)}"
        case CohortCycle(cohorts):
            return f"change spec.parentName of one of the Cohorts {', '.join(cohorts)}"
        case Misconfigured():
            return "correct the fields that the message names"
        case _:
            return "change the admission checks of the queue"


def _inactive_local(
    state: State, key: Key, queue: LocalQueueState, cluster_queue: ClusterQueueState | None
) -> Iterator[Reason]:
    if not queue.is_running:
        yield Reason(
            code="Stopped",
            text="is stopped",
            object=ObjectName(kind="LocalQueue", name=key.name, namespace=key.namespace),
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
        yield from _inactive(state, cluster_queue)


def _quota(queue: ClusterQueueState) -> Iterator[Reason]:
    """Yield what is free of each flavor and resource, and the most that the queue can use."""
    for resource, group in sorted(queue.groups.items(), key=lambda each: each[0]):
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
