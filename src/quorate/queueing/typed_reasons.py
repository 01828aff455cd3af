"""Reasons of a wait in the form of the API, with numbers, and the condition that carries them."""

from collections.abc import Sequence
from typing import assert_never

from quorate.api.explanation import Reason
from quorate.api.meta import Condition
from quorate.queueing import conditions as c
from quorate.queueing.inadmissible_reasons import (
    AffinityMismatched,
    DevicesUncounted,
    FlavorMissing,
    InadmissibleReason,
    NodesLackRoom,
    PlacementRefused,
    PodSetReason,
    QuotaExceeded,
    QuotaShort,
    ResourceUncovered,
    TaintUntolerated,
    TopologyMismatched,
    pod_set_reason_text,
    workload_reason_text,
)
from quorate.queueing.limits import MAX_REASONS
from quorate.quota.amount import PODS, as_quantity


def waiting_condition(
    reasons: Sequence[InadmissibleReason], now: float, generation: int
) -> tuple[Condition, ...]:
    """Return the condition ``WAITING``; none without reasons."""
    deciding = c.deciding_reason(reasons)
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


def reason_of(reason: InadmissibleReason) -> Reason:
    """Return the reason with its text and its numbers."""
    name = type(reason).__name__
    if not isinstance(reason, PodSetReason):
        missing = reason.short_by if isinstance(reason, DevicesUncounted) else 0
        return Reason(code=name, text=workload_reason_text(reason), short_by=str(missing or ""))
    text = pod_set_reason_text(reason)
    match reason:
        case QuotaShort(pod_set, flavor, resource) | QuotaExceeded(pod_set, flavor, resource):
            needed, free, short_by, at_most = (
                str(as_quantity(resource, amount))
                for amount in (reason.needed, reason.available, reason.short_by, reason.maximum)
            )
            return Reason(
                code=name, text=text, pod_set=pod_set, flavor=flavor, resource=resource,
                needed=needed, free=free, short_by=short_by, at_most=at_most,
            )  # fmt: skip
        case ResourceUncovered(pod_set, resource):
            return Reason(code=name, text=text, pod_set=pod_set, resource=resource)
        case FlavorMissing(pod_set, flavor) | AffinityMismatched(pod_set, flavor):
            return Reason(code=name, text=text, pod_set=pod_set, flavor=flavor)
        case TaintUntolerated(pod_set, flavor) | TopologyMismatched(pod_set, flavor):
            return Reason(code=name, text=text, pod_set=pod_set, flavor=flavor)
        case PlacementRefused(pod_set, requested=0):
            return Reason(code=name, text=text, pod_set=pod_set)
        case PlacementRefused(pod_set, _, fitting, requested):
            needed, free, short_by = (str(number) for number in (requested, fitting, requested - fitting))
            at_most = "" if reason.at_most is None else str(reason.at_most)
            return Reason(
                code=name, text=text, pod_set=pod_set, resource=PODS,
                needed=needed, free=free, short_by=short_by, at_most=at_most,
            )  # fmt: skip
        case NodesLackRoom(pod_set, requested, fitting, resource=resource):
            if not resource:
                return Reason(code=name, text=text, pod_set=pod_set, resource=PODS, needed=str(requested),
                              free=str(fitting), short_by=str(requested - fitting))  # fmt: skip
            free_now = max(0, reason.best)
            needed, free, short_by, at_most = (
                str(as_quantity(resource, amount))
                for amount in (reason.needed, free_now, reason.needed - free_now, reason.at_most)
            )
            return Reason(
                code=name, text=text, pod_set=pod_set, resource=resource,
                needed=needed, free=free, short_by=short_by, at_most=at_most,
            )  # fmt: skip
    assert_never(reason)
