"""Why a pod group waits, and what would let it start; sessions are rehearsed to find out both.

The reason of a rehearsed session becomes a change, and the session is rehearsed again as if it were made,
until the group starts.  The rules that decide therefore also decide whether a change is enough.  Other
waiting groups take no part then: they may start first.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import msgspec

from quorate.api.core import Resources
from quorate.api.explanation import Change, Holder, Nodes, ObjectName, Reason, Remedy
from quorate.api.meta import Key, at_epoch
from quorate.api.quantity import Quantity
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.suggestions import similar_names, suggestion
from quorate.api.volcano import DEFAULT_QUEUE, PodGroup
from quorate.api.volcano.job import GROUP as VOLCANO_JOBS
from quorate.gang import pending_reasons as r
from quorate.gang.actions.member_room import amounts_of_member
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.queue import Queue, with_ancestors
from quorate.gang.explanation import GroupFacts
from quorate.gang.namespace_quota.evaluation import format_amount
from quorate.gang.session.waiting_causes import least_requests
from quorate.gang.session_run import rehearse
from quorate.gang.shortage import Shortage
from quorate.gang.topology_reasons import HyperNodesTooSmall, NetworkTopologyUnsatisfied, NoSuchTier
from quorate.gang.typed_reasons import reasons_of
from quorate.placement.supposed_nodes import MAX_PROVIDED_NODES, NAMINGS, nodes_text, supposed_nodes
from quorate.quota.amount import PODS, as_quantity

Steps = Generator[None, None, "GroupFacts"]

_MAX_REHEARSALS: Final = 8  # of one remedy, each with the change that the reason before asks for
_MAX_REMEDIES: Final = 6
_MAX_HOLDERS: Final = 5
TURN: Final = Change(action="Wait", text="wait for the pod groups ahead of it")


@dataclass(frozen=True, slots=True)
class _Supposed:
    """What is supposed to differ from the objects; amounts are added, in base units."""

    capability: Mapping[tuple[str, str], int]  # by queue and resource
    hard: Mapping[tuple[str, str], int]  # by ResourceQuota and resource
    pod_groups: Mapping[str, int]  # maxPodGroups, by queue
    opened: frozenset[str]
    created: frozenset[str]
    pods: int = 0  # members for which there are further nodes
    tier: int | None = None
    members: int | None = None  # minMember
    queue: str = ""  # of the group; "": its own


_NOTHING: Final = _Supposed({}, {}, {}, frozenset(), frozenset())


def group_facts(model: Model, group: PodGroup, settings: SchedulerConfiguration, now: float) -> Steps:
    """Return what a session at ``now`` would decide about ``group``, and what would let it start.

    Yields between rehearsals.  ``model`` leaves out the other waiting groups afterwards.
    """
    facts = reasons_now(model, group.metadata.key, settings, now)
    yield
    if not facts.reasons:
        return facts
    key = group.metadata.key
    rivals = [other.key for other in model.participating_gangs() if other.is_pending and other.key != key]
    for rival in rivals:
        model.set_gang_aside(rival)
    remedies = yield from _Search(model, group, settings, now).find()
    return msgspec.structs.replace(facts, remedies=remedies)


def reasons_now(model: Model, key: Key, settings: SchedulerConfiguration, now: float) -> GroupFacts:
    """Return what a session at ``now`` would decide about the pod group ``key``, without remedies."""
    if key not in model.gangs:
        return GroupFacts()
    reason, starts = rehearse(model, settings, now, key)
    gang = model.gangs[key]
    rivals = sum(other.is_pending and other.key != key for other in model.participating_gangs())
    reasons: tuple[Reason, ...] = ()
    if reason is not None:
        held_by = _holders(model, gang, reason)
        reasons = tuple(
            msgspec.structs.replace(part, held_by=held_by.get(part.resource, ()))
            for part in reasons_of(reason, key.namespace)
        )
    elif not starts and gang.is_pending:
        reasons = _unevaluated(model, gang, now)
    text = str(reason) if reason is not None else "; ".join(part.text for part in reasons)
    return GroupFacts(reasons=reasons, text=text, starts=starts, rivals=rivals)


def _unevaluated(model: Model, gang: Gang, now: float) -> tuple[Reason, ...]:
    """Return why a session does not evaluate a waiting gang."""
    not_before, attempts = gang.admission.not_before, gang.admission.attempts
    if not_before is not None and now < not_before:
        times = "once" if attempts == 1 else f"{attempts} times"
        text = f"it was rolled back {times}, and is not tried before {at_epoch(not_before):%H:%M:%S} UTC"
        return (Reason(code="BackingOff", text=text, until=at_epoch(not_before)),)
    ahead = [
        other
        for other in model.participating_gangs()
        if other.queue == gang.queue
        and other.is_pending
        and (other.created, other.key) < (gang.created, gang.key)
    ]
    if not ahead:
        return ()
    first = min(ahead, key=lambda other: (other.created, other.key)).key
    is_readable = first.namespace == gang.key.namespace
    name = ObjectName(
        kind="PodGroup", **({"name": first.name, "namespace": first.namespace} if is_readable else {})
    )
    earlier = f"pod group {first.name}" if is_readable else "an earlier pod group"
    text = f"{earlier} waits, and queue {gang.queue} is first in, first out (dequeueStrategy fifo)"
    return (Reason(code="EarlierPodGroupWaits", text=text, object=name),)


def _holders(model: Model, gang: Gang, reason: r.PendingReason) -> dict[str, tuple[Holder, ...]]:
    """Return the gangs that use most of what a queue is short of, by resource.

    Gangs of other namespaces are not named.
    """
    if not isinstance(reason, r.QueueQuotaExceeded):
        return {}
    users = [
        holder
        for holder in model.gangs.values()
        if holder.requests.charged
        and any(queue.name == reason.queue for queue in with_ancestors(holder.queue, model.queues))
    ]
    holders = {}
    for resource in [shortage.resource for shortage in reason.shortages]:
        using = sorted((-user.requests.charged[resource], user.key) for user in users)
        holders[resource] = tuple(
            Holder(
                pod_group=str(key) if key.namespace == gang.key.namespace else "",
                amount=format_amount(resource, -amount),
            )
            for amount, key in using[:_MAX_HOLDERS]
            if amount
        )
    return holders


class _Search:
    def __init__(self, model: Model, group: PodGroup, settings: SchedulerConfiguration, now: float) -> None:
        self._model, self._group, self._settings, self._now = model, group, settings, now
        self._key = group.metadata.key

    def find(self) -> Generator[None, None, tuple[Remedy, ...]]:
        """Return the remedies, of which any one is enough; yields between rehearsals."""
        reason, starts = self._rehearse(_NOTHING)
        yield
        if starts:
            return (self._remedy((TURN,)),)
        remedies: list[Remedy] = list(self._waits(reason))
        supposed = yield from self._complete(reason)
        if supposed is not None:
            remedies += [self._remedy(tuple(self._changes(supposed, frees))) for frees in (True, False)]
        if (another := (yield from self._another_queue())) is not None:
            remedies.append(another)
        fewer = yield from self._fewer_members()
        if fewer is not None:
            text = f"lower {self._minimum_field} to {fewer}"
            change = Change(action="LowerMinMember", text=text, amount=str(fewer))
            remedies.append(Remedy(all_of=(change,), pods=fewer))
        return tuple(islice({remedy.text: remedy for remedy in remedies}.values(), _MAX_REMEDIES))

    def _remedy(self, changes: tuple[Change, ...]) -> Remedy:
        return Remedy(all_of=changes, pods=self._group.spec.min_member)

    @property
    def _minimum_field(self) -> str:
        owner = self._group.metadata.controller
        if owner is not None and owner.kind == "Job" and owner.api_version.startswith(f"{VOLCANO_JOBS}/"):
            role = next(iter(self._group.spec.min_task_member), "")
            return f"minAvailable of Job {owner.name}{f' and of its task {role}' if role else ''}"
        return "minMember and minTaskMember" if self._group.spec.min_task_member else "minMember"

    # Rehearsals.

    def _rehearse(self, supposed: _Supposed, at: float | None = None) -> tuple[r.PendingReason | None, bool]:
        for naming in NAMINGS if supposed.pods else NAMINGS[:1]:  # names decide between nodes
            with self._supposing(supposed, naming):
                reason, starts = rehearse(
                    self._model, self._settings, self._now if at is None else at, self._key
                )
            if not starts:
                break
        return reason, starts

    def _waits(self, reason: r.PendingReason | None) -> Iterator[Remedy]:
        """Yield the time until which it is enough to wait."""
        not_before = self._model.gangs[self._key].admission.not_before
        until = reason.closes if isinstance(reason, r.ReservedWindow) else not_before
        if until is not None and until > self._now and self._rehearse(_NOTHING, until)[1]:
            moment = at_epoch(until)
            yield self._remedy(
                (Change(action="Wait", text=f"wait until {moment:%H:%M:%S} UTC", until=moment),)
            )

    def _complete(self, reason: r.PendingReason | None) -> Generator[None, None, _Supposed | None]:
        """Return what lets the group start; None if no change is known to."""
        supposed = _NOTHING
        for _ in range(_MAX_REHEARSALS):
            extended = None if reason is None else self._extended(supposed, reason)
            if extended is None or extended == supposed:
                return None
            supposed = extended
            reason, starts = self._rehearse(supposed)
            yield
            if starts:
                return (yield from self._with_fewest_nodes(supposed))
        return None

    def _with_fewest_nodes(self, supposed: _Supposed) -> Generator[None, None, _Supposed]:
        """Return ``supposed``, with which the group starts, with nodes for as few members as are enough."""
        failing = 0
        while supposed.pods - failing > 1:
            fewer = replace(supposed, pods=(failing + supposed.pods) // 2)
            _, starts = self._rehearse(fewer)
            yield
            if starts:
                supposed = fewer
            else:
                failing = fewer.pods
        return supposed

    def _another_queue(self) -> Generator[None, None, Remedy | None]:
        """Return the change of the queue to one with a similar name, or else to the default queue."""
        queues, named = self._model.queues, self._group.spec.queue
        if named in queues:
            return None
        for name in similar_names(named, queues, 1) or [DEFAULT_QUEUE]:
            if name not in queues:
                continue
            _, starts = self._rehearse(replace(_NOTHING, queue=name))
            yield
            if starts:
                text = f"set its queue to {name}{suggestion(named, [name])}"
                return self._remedy((Change(action="SetQueue", text=text, object=_queue(name)),))
        return None

    def _fewer_members(self) -> Generator[None, None, int | None]:
        """Return the largest minMember with which the group starts; None if it does with none."""
        spec, gang = self._group.spec, self._model.gangs[self._key]
        if len(spec.min_task_member) > 1 or spec.sub_group_policy or gang.native is not None:
            return None
        starting, failing = 0, spec.min_member
        while failing - starting > 1:
            members = 1 if not starting else (starting + failing) // 2
            _, starts = self._rehearse(replace(_NOTHING, members=members))
            yield
            if not starts:
                failing = members
            else:
                starting = members
        return starting or None

    # Changes.

    def _extended(self, supposed: _Supposed, reason: r.PendingReason) -> _Supposed | None:
        """Return ``supposed`` with the change that ``reason`` asks for; None if none is known."""
        match reason:
            case r.QueueQuotaExceeded(queue, shortages) if shortages:
                named = self._model.queues[queue].capability if queue in self._model.queues else {}
                if not all(
                    shortage.resource in named for shortage in shortages
                ):  # its share follows from the nodes
                    return self._with_nodes(supposed, r.NotEnoughResources(shortages))
                return replace(supposed, capability=_with_more(supposed.capability, queue, shortages))
            case r.NamespaceQuotaExceeded(quota, shortages):
                return replace(supposed, hard=_with_more(supposed.hard, quota, shortages))
            case r.QueuePodGroupLimit(queue, active):
                return replace(supposed, pod_groups={**supposed.pod_groups, queue: active + 1})
            case r.QueueNotFound(queue):
                return replace(supposed, created=supposed.created | {queue})
            case r.QueueNotOpen(queue):
                return replace(supposed, opened=supposed.opened | {queue})
            case NetworkTopologyUnsatisfied() | HyperNodesTooSmall() | NoSuchTier():
                topology = self._group.spec.network_topology
                if topology is None or topology.highest_tier_allowed is None or topology.mode != "hard":
                    return None
                return replace(supposed, tier=(supposed.tier or topology.highest_tier_allowed) + 1)
            case (
                r.AwaitsPlannedStart(unplanned)
                | r.AwaitsUnplannedStart(unplanned)
                | r.AwaitsVictimSearch(unplanned)
            ):
                return self._extended(supposed, unplanned)
            case r.GangUnschedulable(cause=cause) if cause.share is not None:
                return self._extended(supposed, cause.share)
            case r.NotEnoughResources() | r.NotEnoughNodes() | r.GangUnschedulable():
                return self._with_nodes(supposed, reason)
            case _:
                return None

    def _with_nodes(
        self, supposed: _Supposed, reason: r.NotEnoughResources | r.NotEnoughNodes | r.GangUnschedulable
    ) -> _Supposed | None:
        """Return ``supposed`` with nodes for the members that have none, then for more, then for all."""
        gang, member = self._model.gangs[self._key], self._member
        if not member or supposed.pods >= gang.min_member:
            return None
        match reason:
            case r.NotEnoughNodes(members, fitting):
                pods = members - fitting
            case r.GangUnschedulable(missing):
                pods = missing
            case r.NotEnoughResources(shortages):
                short = (
                    (shortage.needed - max(0, shortage.free), member.get(shortage.resource, 0))
                    for shortage in shortages
                )
                pods = max(-(-lack // amount) if amount else 1 for lack, amount in short)
        if pods <= supposed.pods:
            pods = 2 * supposed.pods
        return replace(supposed, pods=max(1, min(pods, gang.min_member)))

    @property
    def _member(self) -> Mapping[str, int]:
        """Return what the largest member requests, as far as it is known."""
        gang = self._model.gangs[self._key]
        shape = max(gang.shapes, key=lambda candidate: sorted(candidate.amounts.items()), default=None)
        return _member_amounts(gang) if shape is None else shape.amounts

    def _nodes(self, pods: int) -> Nodes:
        """Return nodes with room for ``pods`` members."""
        gang = self._model.gangs[self._key]
        labels = {name: value for shape in gang.shapes for name, value in shape.node_selector.items()}
        on_each = -(-pods // MAX_PROVIDED_NODES)
        amounts = {PODS: 1, **self._member}
        free = {name: str(as_quantity(name, amount * on_each)) for name, amount in sorted(amounts.items())}
        return Nodes(count=-(-pods // on_each), labels=labels, free=free)

    def _changes(self, supposed: _Supposed, frees: bool) -> Iterator[Change]:
        """Yield what is supposed; ``frees``: amounts become free where they can, else limits are raised."""
        for queue in sorted(supposed.created):
            yield Change(action="CreateQueue", text=f"create queue {queue}", object=_queue(queue))
        for queue in sorted(supposed.opened):
            yield Change(action="ResumeQueue", text=f"open queue {queue}", object=_queue(queue))
        for queue, most in supposed.pod_groups.items():
            text = f"raise maxPodGroups of queue {queue} to {most}"
            yield Change(action="RaisePodGroups", text=text, object=_queue(queue), amount=str(most))
        for (queue, resource), more in supposed.capability.items():
            limit = self._model.queues[queue].capability[resource]
            yield self._amount_change(_queue(queue), "capability", resource, limit, more, frees)
        for (quota, resource), more in supposed.hard.items():
            key = Key(self._key.namespace, quota)
            name = ObjectName(kind="ResourceQuota", name=quota, namespace=key.namespace)
            limit = self._model.quotas[key].hard[resource]
            yield self._amount_change(name, "hard", resource, limit, more, frees)
        if supposed.pods:
            nodes = self._nodes(supposed.pods)
            yield Change(action="ProvideNodes", text=nodes_text(nodes), nodes=nodes)
        if supposed.tier is not None:
            text = f"raise highestTierAllowed of its networkTopology to {supposed.tier}"
            yield Change(action="RaiseTier", text=text, amount=str(supposed.tier))

    def _amount_change(
        self, name: ObjectName, field: str, resource: str, limit: int, more: int, frees: bool
    ) -> Change:
        quantity = format_amount(resource, more)
        of = f"{'queue' if name.kind == 'Queue' else 'ResourceQuota'} {name.name}"
        gang = self._model.gangs[self._key]
        least = (gang.min_resources or {}, least_requests(gang.shapes, gang.min_member))
        if frees and max(requests.get(resource, more) for requests in least) <= limit:
            text = f"{quantity} {resource} must become free in {of}"
            return Change(action="FreeQuota", text=text, object=name, resource=resource, amount=quantity)
        text = f"raise {field} of {of} to {format_amount(resource, limit + more)} {resource}"
        return Change(action="RaiseQuota", text=text, object=name, resource=resource, amount=quantity)

    @contextmanager
    def _supposing(self, supposed: _Supposed, naming: str) -> Iterator[None]:
        """Change the model while the block lasts."""
        model, queues, quotas = self._model, dict(self._model.queues), dict(self._model.quotas)
        gang = model.gangs[self._key]
        status, native = (gang.phase, gang.admission), gang.native
        model.queues.update({name: Queue(name) for name in supposed.created})
        for name in supposed.opened:
            model.queues[name] = replace(model.queues[name], is_open=True)
        for name, limit in supposed.pod_groups.items():
            model.queues[name] = replace(model.queues[name], max_pod_groups=limit)
        for (name, resource), more in supposed.capability.items():
            queue = model.queues[name]
            capability = {**queue.capability, resource: queue.capability[resource] + more}
            model.queues[name] = replace(queue, capability=capability)
        for (name, resource), more in supposed.hard.items():
            key = Key(self._key.namespace, name)
            quota = model.quotas[key]
            model.quotas[key] = replace(quota, hard={**quota.hard, resource: quota.hard[resource] + more})
        nodes = tuple(supposed_nodes(self._nodes(supposed.pods), "members", naming)) if supposed.pods else ()
        for node in nodes:
            model.set_node(node)
        changed = _changed_group(self._group, supposed)
        if changed is not self._group:
            model.set_group(changed, native)
        model.note_change()
        try:
            yield
        finally:
            for node in nodes:
                model.remove_node(node.metadata.name)
            model.queues.clear()
            model.queues.update(queues)
            model.quotas.clear()
            model.quotas.update(quotas)
            if changed is not self._group:
                model.set_group(self._group, native)
            gang.phase, gang.admission = status
            model.note_change()


def _with_more(
    supposed: Mapping[tuple[str, str], int], name: str, shortages: tuple[Shortage, ...]
) -> Mapping[tuple[str, str], int]:
    """Return ``supposed`` with the missing amounts added; unchanged if one of them was supposed before."""
    missing = {(name, shortage.resource): shortage.needed - shortage.free for shortage in shortages}
    if any(key in supposed for key in missing):
        return supposed
    return {**supposed, **missing}


def _member_amounts(gang: Gang) -> Mapping[str, int]:
    """Return what one member requests at most, as far as it is known."""
    declared = amounts_of_member(gang)
    if declared is not None:
        return declared
    least, members = gang.min_resources or {}, max(1, gang.min_member)
    return {name: -(-amount // members) for name, amount in least.items() if amount > 0}


def _changed_group(group: PodGroup, supposed: _Supposed) -> PodGroup:
    """Return the group with the supposed members, tier and queue.

    Its ``minResources`` change in proportion to ``minMember``.
    """
    spec, members, tier = group.spec, supposed.members, supposed.tier
    if members is not None:
        least: Resources | None = None
        if spec.min_resources is not None:
            least = {
                name: Quantity(-(-amount.nanos * members // spec.min_member))
                for name, amount in spec.min_resources.items()
            }
        of_role = {role: min(count, members) for role, count in spec.min_task_member.items()}
        spec = msgspec.structs.replace(spec, min_member=members, min_resources=least, min_task_member=of_role)
    if tier is not None and spec.network_topology is not None:
        topology = msgspec.structs.replace(spec.network_topology, highest_tier_allowed=tier)
        spec = msgspec.structs.replace(spec, network_topology=topology)
    if supposed.queue:
        spec = msgspec.structs.replace(spec, queue=supposed.queue)
    return group if spec is group.spec else msgspec.structs.replace(group, spec=spec)


def _queue(name: str) -> ObjectName:
    return ObjectName(kind="Queue", name=name)
