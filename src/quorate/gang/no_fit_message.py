"""The message of a pod that fits no node."""

from functools import lru_cache

from quorate.gang.namespace_quota.evaluation import format_amount
from quorate.gang.shortage import MAX_RESOURCES_IN_MESSAGE
from quorate.placement.diagnosis import Diagnosis, InsufficientResource


def no_fit_message(no_fit: Diagnosis) -> str:
    """Return kube-scheduler's message for a pod that fits no node, frequent reasons first."""
    is_usual = len(no_fit.insufficient) <= MAX_RESOURCES_IN_MESSAGE
    return _cached_no_fit_message(no_fit) if is_usual else _no_fit_message(no_fit)


def _no_fit_message(no_fit: Diagnosis) -> str:
    if not no_fit.nodes:
        return "no nodes available to schedule pods"
    insufficient = [
        f"{each.nodes} Insufficient {each.resource} (need {format_amount(each.resource, each.need)}, "
        f"{format_amount(each.resource, each.at_most)} at most{_overcommitted(each)})"
        for each in no_fit.insufficient[:MAX_RESOURCES_IN_MESSAGE]
    ]
    if omitted := len(no_fit.insufficient) - len(insufficient):
        insufficient.append(f"{omitted} resources more")
    constraints = (f"{each.nodes} {each.reason}" for each in no_fit.filtered)
    reasons = ", ".join((*insufficient, *constraints))
    return f"0/{no_fit.nodes} nodes are available: {reasons}"


def _overcommitted(resource: InsufficientResource) -> str:
    return f"; overcommitted on {resource.overcommitted} node(s)" if resource.overcommitted else ""


_cached_no_fit_message = lru_cache(maxsize=1_024)(_no_fit_message)
