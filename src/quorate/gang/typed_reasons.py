"""Why a gang waits in the form of the API: with numbers, the object that causes it, and what is enough."""

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from msgspec.structs import replace

from quorate.api.explanation import NodeFilter, ObjectName, PodsOnNodes, Reason
from quorate.api.meta import Key, at_epoch
from quorate.gang import pending_reasons as r
from quorate.gang.shortage import Shortage, rounded_down, rounded_up
from quorate.gang.topology_reasons import HyperNodesTooSmall, NetworkTopologyUnsatisfied, NoSuchTier
from quorate.placement.diagnosis import Diagnosis
from quorate.quota.amount import PODS

POD_GROUPS: Final = "podgroups"
SUB_GROUPS: Final = "subgroups"


def reasons_of(reason: r.PendingReason, namespace: str) -> tuple[Reason, ...]:
    """Return ``reason`` of a group in ``namespace``; one for each resource that is short."""
    never = r.can_never_fit(reason) or isinstance(reason, r.QueueNotFound)
    parts = _parts(reason, namespace) or (Reason(code="", text=str(reason)),)
    return tuple(replace(part, code=reason.reason, needs_change=never) for part in parts)


def _parts(reason: r.PendingReason, namespace: str) -> tuple[Reason, ...]:
    text = str(reason)
    match reason:
        case r.NotEnoughResources(shortages):
            return tuple(_of_shortage(shortage, reason.source) for shortage in shortages)
        case r.QueueQuotaExceeded(queue, shortages):
            return tuple(_of_shortage(shortage, reason.source, _queue(queue)) for shortage in shortages)
        case r.NamespaceQuotaExceeded(quota, shortages):
            name = ObjectName(kind="ResourceQuota", name=quota, namespace=namespace)
            return tuple(_of_shortage(shortage, reason.source, name) for shortage in shortages)
        case r.NotEnoughNodes(members, fitting, resource, needed, best, nodes):
            short = _amounts(resource, needed, best, best if reason.never_fits else None)
            return (replace(short, text=text, on_nodes=_on_nodes(members, fitting, nodes)),)
        case r.GangUnschedulable(missing, needed, cause):
            return _of_cause(text, cause, needed, needed - missing)
        case r.FurtherMembersWait(members, cause):
            return _of_cause(text, cause, members, 0)
        case r.QueueNotFound(queue) | r.QueueNotOpen(queue) | r.InvalidQueueHierarchy(queue):
            return (Reason(code="", text=text, object=_queue(queue)),)
        case r.QueuePodGroupLimit(queue, active, limit):
            return (replace(_count(POD_GROUPS, active + 1, active, limit), text=text, object=_queue(queue)),)
        case r.NotEnoughTasks(members, needed) | r.InqueueTimeout(_, members, needed):
            return (replace(_count(PODS, needed, members), text=text),)
        case r.NotEnoughPodsOfTask(role, members, needed):
            return (replace(_count(PODS, needed, members), text=text, pod_set=role),)
        case r.NotEnoughSubGroups(policy, sub_groups, needed):
            return (replace(_count(SUB_GROUPS, needed, sub_groups), text=text, pod_set=policy),)
        case r.BeyondAdmission(admitted):
            return (Reason(code="", text=text, resource=PODS, at_most=str(admitted)),)
        case r.AwaitsEvictions(nodes, leaving):
            return (replace(_count(PODS, leaving, 0), text=text, on_nodes=PodsOnNodes(nodes=nodes)),)
        case NetworkTopologyUnsatisfied(needed=needed, best=best, room=room):
            short = replace(_count(PODS, needed, room), text=text, pod_set=reason.sub_group)
            return (replace(short, object=_hyper_node(best)),)
        case HyperNodesTooSmall(resource=resource, needed=needed, best=best, at_most=at_most):
            short = _amounts(resource, needed, at_most, at_most)
            return (replace(short, text=text, object=_hyper_node(best)),)
        case r.ReservedWindow(reservation, opens, closes, nodes, missing, needed):
            return (
                Reason(
                    code="", text=text, object=ObjectName(kind="Reservation", name=reservation),
                    starts_at=at_epoch(opens), until=at_epoch(closes),
                    on_nodes=_on_nodes(needed, needed - missing, nodes),
                ),
            )  # fmt: skip
        case r.ReservedForEarlierGroup(group, at, shortages, is_of_namespace):
            name = _group(group) if is_of_namespace else ObjectName(kind="PodGroup")
            until = None if at is None else at_epoch(at)
            of_nodes = [_of_shortage(shortage, "nodes", name) for shortage in shortages]
            return tuple(
                replace(part, text=text, object=name, until=until)
                for part in of_nodes or (Reason(code="", text=text),)
            )
        case r.EndsTooLate(ends_by):
            return (Reason(code="", text=text, until=at_epoch(ends_by)),)
        case r.AwaitsPlannedStart(unplanned, at):
            until = None if at is None else at_epoch(at)
            return tuple(replace(part, text=text, until=until) for part in reasons_of(unplanned, namespace))
        case r.AwaitsVictimSearch(unplaced, searched, groups):
            turns = replace(_count(POD_GROUPS, groups, searched), text=text)
            return (*(replace(part, text=text) for part in reasons_of(unplaced, namespace)), turns)
        case r.AwaitsUnplannedStart(unplanned):
            return tuple(replace(part, text=text) for part in reasons_of(unplanned, namespace))
        case r.WorkloadNotAdmitted() | NoSuchTier():
            return ()
    assert_never(reason)


def _of_shortage(shortage: Shortage, source: str, of: ObjectName | None = None) -> Reason:
    at_most = shortage.at_most if isinstance(shortage.at_most, int) else None
    amounts = _amounts(shortage.resource, shortage.needed, shortage.free, at_most)
    return replace(amounts, text=f"{source}: {shortage}", object=of)


def _of_cause(text: str, cause: r.Cause, requested: int, fitting: int) -> tuple[Reason, ...]:
    """Return why members have no node: first what their queue lacks, then what nodes lack."""
    refusals = sorted(cause.refusals, key=lambda diagnosis: -diagnosis.nodes)
    nodes = refusals[0].nodes if refusals else 0
    filters = tuple(dict.fromkeys(_filters(refusals)))
    on_nodes = replace(_on_nodes(requested, fitting, nodes), rejected=filters)
    if cause.share is not None:
        share = cause.share
        return tuple(
            replace(_of_shortage(shortage, share.source, _queue(share.queue)), text=text, on_nodes=on_nodes)
            for shortage in share.shortages
        )
    short = [lack for refusal in refusals for lack in refusal.insufficient]
    if not short:
        return (Reason(code="", text=text, on_nodes=on_nodes),)
    return tuple(
        replace(_amounts(lack.resource, lack.need, None, lack.at_most), text=text, on_nodes=on_nodes)
        for lack in dict.fromkeys(short)
    )


def _filters(refusals: Iterable[Diagnosis]) -> Iterator[NodeFilter]:
    for refusal in refusals:
        for lack in refusal.insufficient:
            yield NodeFilter(reason=f"Insufficient {lack.resource}", nodes=lack.nodes)
        for filtered in refusal.filtered:
            yield NodeFilter(reason=filtered.reason, nodes=filtered.nodes)


def _amounts(resource: str, needed: int, free: int | None, at_most: int | None = None) -> Reason:
    """Return a reason with amounts as messages write them; ``free``: None if it is not known."""
    have = None if free is None else max(0, free)
    return Reason(
        code="", text="", resource=resource, needed=rounded_up(resource, needed),
        free="" if have is None else rounded_down(resource, have),
        short_by="" if have is None else rounded_up(resource, max(0, needed - have)),
        at_most="" if at_most is None else rounded_down(resource, max(0, at_most)),
    )  # fmt: skip


def _count(resource: str, needed: int, free: int, at_most: int | None = None) -> Reason:
    return Reason(
        code="", text="", resource=resource, needed=str(needed), free=str(free),
        short_by=str(max(0, needed - free)), at_most="" if at_most is None else str(at_most),
    )  # fmt: skip


def _on_nodes(requested: int, fitting: int, nodes: int) -> PodsOnNodes:
    return PodsOnNodes(requested=requested, fitting=fitting, nodes=nodes)


def _queue(name: str) -> ObjectName:
    return ObjectName(kind="Queue", name=name)


def _group(key: Key) -> ObjectName:
    return ObjectName(kind="PodGroup", name=key.name, namespace=key.namespace)


def _hyper_node(name: str) -> ObjectName | None:
    return ObjectName(kind="HyperNode", name=name) if name else None
