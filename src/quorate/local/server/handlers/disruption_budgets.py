"""PodDisruptionBudgets: whether a pod may be evicted now.

Computed from the current pods at the time of the eviction; the status of budgets is not maintained.
Knowingly missing: pods that a controller has yet to create.  Percentages are of the existing pods.
"""

from quorate.api.codec import Json
from quorate.api.meta import scaled_value
from quorate.local.objects.errors import StatusError, internal
from quorate.local.server.registry.validation import selectors
from quorate.local.server.requests.context import RequestContext

DISRUPTION_BUDGETS = "poddisruptionbudgets.policy"
MULTIPLE_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)


def check_eviction(context: RequestContext, pod: Json) -> None:
    """Check that the eviction of ``pod`` violates no budget.  Raises StatusError(429).

    A pod that is pending, finished or being deleted may always be evicted.
    """
    if _phase(pod) in ("Pending", "Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]:
        return
    budgets = [
        budget for entry in context.server.store.entries(DISRUPTION_BUDGETS, context.namespace)
        if _selects(budget := entry.decode(), pod)
    ]  # fmt: skip
    if len(budgets) > 1:
        raise internal(MULTIPLE_BUDGETS)
    for budget in budgets:
        pods = [entry.decode() for entry in context.server.store.entries("pods", context.namespace)]
        _check_budget(budget, pod, [other_pod for other_pod in pods if _selects(budget, other_pod)])


def _selects(budget: Json, pod: Json) -> bool:
    labels = pod["metadata"].get("labels", {})
    selector = budget["spec"].get("selector")
    return selector is not None and selectors.selector_matches(selector, labels)


def _check_budget(budget: Json, pod: Json, covered: list[Json]) -> None:
    spec = budget["spec"]
    active = [other_pod for other_pod in covered if _phase(other_pod) not in ("Succeeded", "Failed")]
    healthy = sum(map(_is_healthy, active))
    if "maxUnavailable" in spec:
        needed = max(0, len(active) - scaled_value(spec["maxUnavailable"], len(active), round_up=True))
    else:
        needed = scaled_value(spec.get("minAvailable", 0), len(active), round_up=True)
    if not _is_healthy(pod):
        policy = spec.get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
        if policy == "AlwaysAllow" or (healthy >= needed > 0):
            return
    if healthy <= needed:
        name = budget["metadata"]["name"]
        message = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        raise StatusError(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            {"causes": [{"reason": "DisruptionBudget", "message": message}]},
        )


def _phase(pod: Json) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def _is_healthy(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
    )
    return ready and "deletionTimestamp" not in pod["metadata"]
