"""The status of PodDisruptionBudgets: how many pods may be evicted now.

The expected number of pods is read from the subresource scale of their controllers, so that pods which a
controller has yet to create count as missing.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api.codec import Json
from quorate.api.core import Pod
from quorate.api.meta import (
    Condition,
    Key,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Struct,
    Uid,
    at_epoch,
    matches_selector,
    scaled_value,
    with_condition,
)
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import Resource
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.metadata_cache import MetadataCache
from quorate.local.controllers.pod_control import is_ready

DELETION_TIMEOUT: Final = timedelta(minutes=2)  # after which an evicted pod that is still there counts again
UNMANAGED: Final = (
    "Pods that this PodDisruptionBudget selects have no controller, so that their expected number is unknown."
    " Set .spec.minAvailable to a number."
)


class BudgetSpec(Struct):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetStatus(Struct):
    """The API requires the numbers."""

    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    expected_pods: int | None = None
    observed_generation: int = 0
    disrupted_pods: Mapping[str, datetime] = {}
    conditions: tuple[Condition, ...] = ()


class Budget(Struct):
    metadata: ObjectMeta
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, Budget)


class _UnknownController(Exception):
    """No controller of a pod has a scale."""


@dataclass(frozen=True, slots=True)
class _Expectation:
    pods: int
    healthy: int
    has_unmanaged: bool = False


class DisruptionController(Controller):
    def __init__(
        self,
        context: ControllerContext,
        pods: Informer[Pod],
        metadata_cache: MetadataCache,
        budgets: Informer[Budget],
    ) -> None:
        """``pods`` has the index "namespace"."""
        super().__init__("disruption", context, budgets, pods, metadata_cache, component="controllermanager")
        self._pods = pods
        self._budgets = budgets
        self._metadata_cache = metadata_cache
        budgets.add_index("namespace", lambda budget: (budget.metadata.namespace,))
        budgets.subscribe(lambda change: self._reconciler.enqueue(change.key))
        pods.subscribe(self._on_pod)

    def _on_pod(self, change: Change[Pod]) -> None:
        for budget in self._budgets.by_index("namespace", change.key.namespace):
            if any(_selects(budget, pod) for pod in change.versions):
                self._reconciler.enqueue(budget.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        pods = [pod for pod in self._pods.by_index("namespace", key.namespace) if _selects(budget, pod)]
        if not pods:
            self._events.report(BUDGETS, budget, "NoPods", "No matching pods found")
        moment = at_epoch(self._clock.now())
        try:
            expected = await self._expectation(budget, pods)
        except _UnknownController as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self._events.report(BUDGETS, budget, "CalculateExpectedPodCountFailed", message, warning=True)
            failed = _allowed(budget.status, 0, "SyncFailed", moment, str(error))
            await self._write_status(BUDGETS, budget, failed)
            return None
        if expected.has_unmanaged:
            self._events.report(BUDGETS, budget, "UnmanagedPods", UNMANAGED, warning=True)
        status = budget_status(budget, pods, expected.pods, expected.healthy, moment)
        await self._write_status(BUDGETS, budget, status)
        times = status.disrupted_pods.values()
        return min(((time + DELETION_TIMEOUT).timestamp() for time in times), default=None)

    async def _expectation(self, budget: Budget, pods: Sequence[Pod]) -> _Expectation:
        spec = budget.spec
        if spec.max_unavailable is None and isinstance(spec.min_available, int):
            return _Expectation(len(pods), spec.min_available)
        owners: dict[Uid, tuple[OwnerReference, Pod]] = {}
        for pod in pods:
            if pod.metadata.controller is not None:
                owners.setdefault(pod.metadata.controller.uid, (pod.metadata.controller, pod))
        # By uid, because two ReplicaSets of one Deployment have its scale together.
        scales = dict([await self._scale(reference, pod) for reference, pod in owners.values()])
        total = sum(scales.values())
        if spec.max_unavailable is not None:
            healthy = max(total - scaled_value(spec.max_unavailable, total, round_up=True), 0)
        else:
            healthy = scaled_value(spec.min_available or 0, total, round_up=True)
        has_unmanaged = any(pod.metadata.controller is None for pod in pods)
        return _Expectation(total, healthy, has_unmanaged)

    async def _scale(self, reference: OwnerReference, pod: Pod) -> tuple[Uid, int]:
        """Return the uid and the replicas of a pod's controller; of a Deployment for its ReplicaSets."""
        owner = self._metadata_cache.get(reference.uid)
        above = owner.metadata.controller if owner is not None else None
        target = above if above is not None and reference.kind == "ReplicaSet" else reference
        kind = self._metadata_cache.kind_of(target)
        if kind is not None:
            path = kind.path(pod.metadata.namespace, target.name, "scale")
            with suppress(NotFound):
                scale: Json = msgspec.json.decode(await self._client.request("GET", path))
                if scale["metadata"].get("uid") == target.uid:
                    return target.uid, int(scale["spec"].get("replicas", 0))
        raise _UnknownController(f'found no controllers for pod "{pod.metadata.name}"')


def budget_status(
    budget: Budget, pods: Sequence[Pod], expected: int, desired_healthy: int, now: datetime
) -> BudgetStatus:
    """Return the status; a pod that is being evicted and a pod that terminates count as unhealthy."""
    present = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    names = {pod.metadata.name for pod in present}
    disrupted = {
        name: time
        for name, time in budget.status.disrupted_pods.items()
        if name in names and time + DELETION_TIMEOUT > now
    }
    healthy = sum(is_ready(pod) and pod.metadata.name not in disrupted for pod in present)
    status = replace(
        budget.status,
        current_healthy=healthy,
        desired_healthy=desired_healthy,
        expected_pods=expected,
        disrupted_pods=disrupted,
        observed_generation=budget.metadata.generation,
    )
    allowed = max(healthy - desired_healthy, 0) if expected > 0 else 0
    return _allowed(status, allowed, "SufficientPods" if allowed else "InsufficientPods", now)


def _allowed(
    status: BudgetStatus, allowed: int, reason: str, now: datetime, message: str = ""
) -> BudgetStatus:
    condition = Condition(
        type="DisruptionAllowed",
        status="True" if allowed else "False",
        reason=reason,
        message=message,
        last_transition_time=now,
        observed_generation=status.observed_generation,
    )
    conditions = with_condition(status.conditions, condition)
    return replace(status, disruptions_allowed=allowed, conditions=conditions)


def _selects(budget: Budget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return selector is not None and matches_selector(selector, pod.metadata.labels)
