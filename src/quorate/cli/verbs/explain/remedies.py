"""A cause of waiting with its numbers, and what would remove it."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from quorate.api.kueue import QUEUE_NAME
from quorate.api.meta import Key, Struct, at_epoch
from quorate.queueing.cluster_queue import inactive_message
from quorate.queueing.explain import Explanation
from quorate.queueing.inadmissible_reasons import (
    AffinityMismatched,
    AwaitingPodsReady,
    AwaitingPreemption,
    BackingOff,
    ChecksFailed,
    FlavorMissing,
    InadmissibleReason,
    LimitRangeViolated,
    NamespaceMismatched,
    NoLongerFits,
    PodSetReason,
    QueueInactive,
    QueueMissing,
    QuotaExceeded,
    QuotaShort,
    RequestsAboveLimits,
    ResourceUncovered,
    TaintUntolerated,
    TargetsOverlap,
    pod_set_reason_text,
    workload_reason_text,
)
from quorate.queueing.state import State
from quorate.quota.amount import as_quantity


class Reason(Struct):
    """One cause; amounts are quantities, and what does not apply is left out."""

    cause: str  # its name among ``queueing.inadmissible_reasons``
    text: str
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    needed: str = ""
    free: str = ""
    short_by: str = ""
    at_most: str = ""


def reason_of(cause: InadmissibleReason) -> Reason:
    name = type(cause).__name__
    if not isinstance(cause, PodSetReason):
        return Reason(cause=name, text=workload_reason_text(cause))
    text = pod_set_reason_text(cause)
    match cause:
        case QuotaShort(pod_set, flavor, resource) | QuotaExceeded(pod_set, flavor, resource):
            needed, free, short_by, at_most = (
                str(as_quantity(resource, amount))
                for amount in (cause.needed, cause.available, cause.short_by, cause.maximum)
            )
            return Reason(
                cause=name, text=text, pod_set=pod_set, flavor=flavor, resource=resource,
                needed=needed, free=free, short_by=short_by, at_most=at_most,
            )  # fmt: skip
        case ResourceUncovered(pod_set, resource):
            return Reason(cause=name, text=text, pod_set=pod_set, resource=resource)
        case FlavorMissing(pod_set, flavor) | AffinityMismatched(pod_set, flavor):
            return Reason(cause=name, text=text, pod_set=pod_set, flavor=flavor)
        case TaintUntolerated(pod_set, flavor):
            return Reason(cause=name, text=text, pod_set=pod_set, flavor=flavor)
    assert_never(cause)


def remedies(
    state: State, key: Key, causes: Sequence[InadmissibleReason], explanation: Explanation
) -> tuple[str, ...]:
    """What would let it start, a sentence each.

    The flavors a pod set was refused are alternatives: what one of them takes is enough.
    """
    by_pod_set: dict[str, dict[str, list[str]]] = {}
    told: list[str] = []
    for cause in causes:
        remedy = _remedy(state, key, cause)
        if isinstance(cause, PodSetReason):
            flavor = "" if isinstance(cause, ResourceUncovered) else cause.flavor
            by_pod_set.setdefault(cause.pod_set, {}).setdefault(flavor, []).append(remedy)
        else:
            told.append(remedy)
    for flavors in by_pod_set.values():
        ways = [" and ".join(dict.fromkeys(way)) for way in flavors.values()]
        told += ways if len(ways) == 1 else [f"either {ways[0]}", *(f"or {way}" for way in ways[1:])]
    if explanation.hold is None:
        told.append(_wait_for_those_before(explanation))
    return tuple(dict.fromkeys(told))


def _remedy(state: State, key: Key, cause: InadmissibleReason) -> str:
    match cause:
        case QuotaShort(_, flavor, resource):
            short_by = as_quantity(resource, cause.short_by)
            return f"{short_by} more {resource} of flavor {flavor} must become free"
        case QuotaExceeded(_, flavor, resource):
            over = as_quantity(resource, cause.needed - cause.maximum)
            return (
                f"ask for {over} less {resource} of flavor {flavor}, or raise what the queue can get "
                "(its nominalQuota, its borrowingLimit, or what its cohort lends)"
            )
        case ResourceUncovered(pod_set, resource):
            return (
                f"let a resource group of cluster queue {_cluster_queue(state, key)} cover {resource}, or "
                f"take the request for it out of pod set {pod_set}"
            )
        case FlavorMissing(_, flavor):
            return f"create the ResourceFlavor {flavor}, or take it out of the cluster queue"
        case TaintUntolerated(pod_set, flavor, taint, value, effect):
            return f"give pod set {pod_set} (or flavor {flavor}) a toleration of {taint}={value}:{effect}"
        case AffinityMismatched(pod_set, flavor):
            labels = ", ".join(_labels(state, flavor)) or "no labels"
            return f"let node selector and affinity of pod set {pod_set} admit flavor {flavor} ({labels})"
        case QueueMissing("LocalQueue", name):
            return (
                f"create the LocalQueue {key.namespace}/{name}, or name another one in the label {QUEUE_NAME}"
            )
        case QueueMissing(_, name):
            return f"create the ClusterQueue {name}, or let the local queue lead to another one"
        case QueueInactive(kind, name):
            return _resumption(state, key, kind, name)
        case NamespaceMismatched(namespace, name):
            return (
                f"let the namespaceSelector of cluster queue {name} match the labels of namespace {namespace}"
            )
        case RequestsAboveLimits():
            return "let the containers request no more than their own limits, nothing below zero, and no pods"
        case LimitRangeViolated():
            return f"let the pods request what the LimitRanges of namespace {key.namespace} allow"
        case ChecksFailed():
            return "wait until its admission checks are tried again (quorate workload describe shows them)"
        case NoLongerFits(by, _):
            return f"wait: it is tried again at once, and {by or 'somebody'} was ahead of it"
        case TargetsOverlap(victim, preemptor):
            return f"wait until {victim} has gone for {preemptor}: then it is tried again"
        case AwaitingPreemption(victims):
            return f"wait until the pods of these are gone: {', '.join(map(str, victims))}"
        case AwaitingPodsReady(blocking):
            return f"wait until the pods of {blocking} are ready, or the time it has for that is over"
        case BackingOff(until, _):
            moment = "a time that is not known" if until is None else at_epoch(until).strftime("%H:%M:%S UTC")
            return f"wait until {moment}: then it is tried again"
    assert_never(cause)


def _cluster_queue(state: State, key: Key) -> str:
    return state.ledger.entries[key].cluster_queue


def _labels(state: State, flavor: str) -> Iterable[str]:
    found = state.flavors.get(flavor)
    return (
        () if found is None else (f"{key}={value}" for key, value in sorted(found.spec.node_labels.items()))
    )


def _resumption(state: State, key: Key, kind: str, name: str) -> str:
    if kind == "LocalQueue":
        return f"resume the local queue (quorate queue resume lq/{name} --namespace {key.namespace})"
    queue = state.ledger.cluster_queues[name]
    why = (
        "; ".join(map(inactive_message, queue.inactive_reasons))
        or "its cohorts lead to themselves in a circle"
    )
    resume = f" (quorate queue resume {name})" if queue.spec.stop_policy != "None" else ""
    return f"make cluster queue {name} active again: {why}{resume}"


def _wait_for_those_before(explanation: Explanation) -> str:
    if not explanation.first_ahead:
        return "wait: it is the first of its queue"
    return f"wait for those before it, {explanation.first_ahead[0]} first of all"
