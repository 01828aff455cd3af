"""PodDisruptionBudgets: whether a pod may be evicted now, by the status that a controller keeps.

An eviction takes one of the allowed disruptions, so that several at once do not exceed the budget.
"""

from typing import Any

from quorate.api.codec import Json
from quorate.local.objects.errors import StatusError, internal
from quorate.local.server.registry.validation import selectors
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.storage.store import Entry, StaleRevision

DISRUPTION_BUDGETS = "poddisruptionbudgets.policy"
MULTIPLE_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)


async def take_disruption(context: RequestContext, pod: Json, *, dry_run: bool) -> None:
    """Take an allowed disruption of the budget that selects ``pod``.  Raises StatusError(429).

    A pod that is pending, finished or being deleted may always be evicted.
    """
    phase = pod.get("status", {}).get("phase", "")
    if phase in ("Pending", "Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]:
        return
    entries = [
        entry for entry in context.server.store.entries(DISRUPTION_BUDGETS, context.namespace)
        if _selects(entry.decode(), pod)
    ]  # fmt: skip
    if len(entries) > 1:
        raise internal(MULTIPLE_BUDGETS)
    entry: Entry | None = entries[0] if entries else None
    while entry is not None:
        budget = entry.decode()
        if not _is_ready(pod) and _spares_unready(budget):
            return
        updated = _taken(context, budget, pod["metadata"]["name"])
        if dry_run:
            return
        try:
            await context.server.store.update(entry.key, updated, entry.revision)
            return
        except StaleRevision as stale:
            entry = stale.current


def _selects(budget: Json, pod: Json) -> bool:
    labels = pod["metadata"].get("labels", {})
    selector = budget["spec"].get("selector")
    return selector is not None and selectors.selector_matches(selector, labels)


def _spares_unready(budget: Json) -> bool:
    """Return True if a pod that is not ready may be evicted without a disruption."""
    status = budget.get("status", {})
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


def _taken(context: RequestContext, budget: Json, pod: str) -> Json:
    status, name = budget.get("status", {}), budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise _violation(message, retryAfterSeconds=10)
    allowed, healthy, needed = (
        status.get(field, 0) for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy")
    )
    if allowed <= 0:
        message = f"The disruption budget {name} does not allow evicting pods currently"
        for condition in status.get("conditions", ()):
            if condition.get("reason") == "SyncFailed":
                raise _violation(f"{message} because it failed sync: {condition.get('message', '')}")
        if healthy <= needed:
            message = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        raise _violation(message)
    disrupted = {**(status.get("disruptedPods") or {}), pod: context.server.timestamp()}
    taken = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    return {**budget, "status": taken}


def _violation(message: str, **details: Any) -> StatusError:
    return StatusError(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {"causes": [{"reason": "DisruptionBudget", "message": message}], **details},
    )


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
    )
