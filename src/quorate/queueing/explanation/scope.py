"""What the reader of an explanation may know: the names of other tenants' objects are left out."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api.explanation import Change
from quorate.api.meta import Key
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.explain import PendingFacts, QuotaHolder

HIDDEN: Final = Key("", "a workload that you may not read")


class Scope(msgspec.Struct, frozen=True):
    """What a caller may read besides the explained object."""

    namespaces: frozenset[str] | None = None  # in which it may read workloads; None: in all
    cluster_queues: bool = True

    def reads(self, key: Key) -> bool:
        return self.namespaces is None or key.namespace in self.namespaces

    def shown(self, key: Key) -> Key:
        return key if self.reads(key) else HIDDEN


UNLIMITED_SCOPE: Final = Scope()


def namespaces_of(facts: PendingFacts) -> frozenset[str]:
    """Return the namespaces of all workloads that ``facts`` names."""
    reasons = facts.hold.reasons if facts.hold is not None else ()
    named = [*facts.first_ahead, *(holder.key for holder in facts.holders)]
    named += [key for reason in reasons for key in _keys_of(reason)]
    named += () if facts.preemptor is None else (facts.preemptor,)
    return frozenset(key.namespace for key in named)


def scoped(facts: PendingFacts, scope: Scope) -> PendingFacts:
    """Return ``facts`` with ``HIDDEN`` in place of workloads that the caller may not read."""
    hold = facts.hold
    if hold is not None:
        hold = replace(hold, reasons=tuple(_scoped_reason(reason, scope) for reason in hold.reasons))
    remedies = facts.remedies
    if remedies is not None and not scope.cluster_queues:
        any_of = tuple(remedy for remedy in remedies.any_of if not any(map(_names_queue, remedy.all_of)))
        remedies = replace(remedies, any_of=any_of)
    return replace(
        facts,
        hold=hold,
        remedies=remedies,
        first_ahead=tuple(map(scope.shown, facts.first_ahead)),
        holders=tuple(_scoped_holder(holder, scope) for holder in facts.holders),
        preemptor=None if facts.preemptor is None else scope.shown(facts.preemptor),
    )


def _names_queue(change: Change) -> bool:
    """Return True if a change names a cluster queue that no local queue of the caller leads to."""
    return change.action in ("CreateQueue", "ReplaceQueue")


def _scoped_holder(holder: QuotaHolder, scope: Scope) -> QuotaHolder:
    queue = holder.cluster_queue if scope.cluster_queues or scope.reads(holder.key) else ""
    return replace(holder, key=scope.shown(holder.key), cluster_queue=queue)


def _keys_of(reason: r.InadmissibleReason) -> Iterator[Key]:
    match reason:
        case r.AwaitingPodsReady(blocking):
            yield blocking
        case r.ReservedForEarlierWorkload(workload):
            yield workload
        case r.NoLongerFits(preceded_by) if preceded_by is not None:
            yield preceded_by
        case r.TargetsOverlap(victim, preemptor):
            yield from (victim, preemptor)
        case r.AwaitingPreemption(victims) | r.AwaitingOtherPreemption(victims):
            yield from victims


def _scoped_reason(reason: r.InadmissibleReason, scope: Scope) -> r.InadmissibleReason:
    match reason:
        case r.AwaitingPodsReady(blocking):
            return replace(reason, blocking=scope.shown(blocking))
        case r.ReservedForEarlierWorkload(workload):
            return replace(reason, workload=scope.shown(workload))
        case r.NoLongerFits(preceded_by) if preceded_by is not None:
            return replace(reason, preceded_by=scope.shown(preceded_by))
        case r.TargetsOverlap(victim, preemptor):
            return r.TargetsOverlap(scope.shown(victim), scope.shown(preemptor))
        case r.AwaitingPreemption(victims) | r.AwaitingOtherPreemption(victims):
            return replace(reason, victims=_shown(victims, scope))
        case _:
            return reason


def _shown(keys: Sequence[Key], scope: Scope) -> tuple[Key, ...]:
    readable = [key for key in keys if scope.reads(key)]
    return tuple(readable) if len(readable) == len(keys) else (*readable, HIDDEN)
