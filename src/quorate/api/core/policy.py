"""Fields of policy/v1 objects that Quorate reads."""

from typing import Any

from quorate.api.meta import Int32, LabelSelector, ObjectMeta, Struct


class PodDisruptionBudgetSpec(Struct):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, Any] = {}  # by name: pods that are being evicted and are counted already


class PodDisruptionBudget(Struct):
    metadata: ObjectMeta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
