"""Reasons of a wait in the form of the API, with numbers, and the condition that carries them."""

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from quorate.api.explanation import Reason
from quorate.api.kueue import ResourceGroup
from quorate.api.meta import Condition
from quorate.queueing import conditions as c
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.limits import MAX_REASONS
from quorate.quota.amount import PODS, as_quantity


def waiting_condition(
    reasons: Sequence[r.InadmissibleReason],
    now: float,
    generation: int,
    groups: Sequence[ResourceGroup] = (),
) -> tuple[Condition, ...]:
    """Return the condition ``WAITING``; none without reasons."""
    deciding = c.deciding_reason(reasons, groups)
    if deciding is None:
        return ()
    texts = dict.fromkeys(numbers_text(reason_of(reason)) for reason in reasons[:MAX_REASONS])
    more = len(reasons) - MAX_REASONS
    message = "; ".join(texts) + (f"; and {more} more" if more > 0 else "")
    return (c.new_condition(c.WAITING, "True", type(deciding).__name__, message, now, generation),)


def numbers_text(reason: Reason) -> str:
    """Return the numbers of the reason; its text if it has none."""
    if not reason.needed:
        return f"pod set {reason.pod_set}: {reason.text}" if reason.pod_set else reason.text
    flavor = f" of flavor {reason.flavor}" if reason.flavor else ""
    at_most = f", at most {reason.at_most}" if reason.at_most else ""
    return (
        f"pod set {reason.pod_set}: {reason.resource}{flavor}: needs {reason.needed}, {reason.free} free, "
        f"short by {reason.short_by}{at_most}"
    )


def reason_of(reason: r.InadmissibleReason) -> Reason:
    """Return the reason with its text and its numbers."""
    code = type(reason).__name__
    if not isinstance(reason, r.PodSetReason):
        missing = reason.short_by if isinstance(reason, r.DevicesUncounted) else 0
        return Reason(code=code, text=r.workload_reason_text(reason), short_by=str(missing or ""))
    typed = Reason(code=code, text=r.pod_set_reason_text(reason), pod_set=reason.pod_set)
    match reason:
        case r.QuotaShort(_, flavor, resource) | r.QuotaExceeded(_, flavor, resource):
            typed = replace(typed, flavor=flavor)
            return _with_amounts(typed, resource, reason.needed, reason.available, reason.maximum)
        case r.ResourceUncovered(_, resource):
            return replace(typed, resource=resource)
        case r.FlavorMissing(_, flavor) | r.AffinityMismatched(_, flavor):
            return replace(typed, flavor=flavor)
        case r.TaintUntolerated(_, flavor) | r.TopologyMismatched(_, flavor):
            return replace(typed, flavor=flavor)
        case r.PlacementRefused(requested=0):
            return typed
        case r.PlacementRefused():
            return _with_amounts(typed, PODS, reason.requested, reason.fitting, reason.at_most)
        case r.NodesLackRoom(resource=""):
            return _with_amounts(typed, PODS, reason.requested, reason.fitting, None)
        case r.NodesLackRoom(resource=resource):
            return _with_amounts(typed, resource, reason.needed, max(0, reason.best), reason.at_most)
    assert_never(reason)


def _with_amounts(reason: Reason, resource: str, needed: int, free: int, at_most: int | None) -> Reason:
    """Return ``reason`` with amounts of ``resource``, given in base units; ``at_most`` is None if unknown."""

    def text(amount: int) -> str:
        return str(as_quantity(resource, amount))

    return replace(
        reason,
        resource=resource,
        needed=text(needed),
        free=text(free),
        short_by=text(needed - free),
        at_most="" if at_most is None else text(at_most),
    )
