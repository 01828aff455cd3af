"""The scopes of ResourceQuotas: which pods and volume claims a quota counts, and until when.

Source: the evaluators of Kubernetes' quota controller.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from quorate.api.core import ResourceQuotaSpec, ScopeRequirement
from quorate.api.core.pod_resources import PodResources
from quorate.api.meta import ObjectMeta, SelectorRequirement, epoch, matches_requirement

CROSS_NAMESPACE: Final = "CrossNamespacePodAffinity"
_QOS_RESOURCES: Final = ("cpu", "memory")  # a pod without requests or limits for these is best effort


@dataclass(frozen=True, slots=True)
class ScopeAttributes:
    """The attributes of a pod that scopes select by.

    Of pods that do not exist yet only the priority class is known.
    """

    priority_class: str = ""
    best_effort: bool = False
    terminating: bool = False  # it has a deadline
    crosses_namespaces: bool = False  # a term of its affinity to pods names or selects namespaces

    def matches(self, scope: ScopeRequirement) -> bool:
        match scope.scope_name:
            case "Terminating":
                return self.terminating
            case "NotTerminating":
                return not self.terminating
            case "BestEffort":
                return self.best_effort
            case "NotBestEffort":
                return not self.best_effort
            case "PriorityClass":
                return _selects(scope, [self.priority_class])
            case _:
                return scope.scope_name == CROSS_NAMESPACE and self.crosses_namespaces


@dataclass(frozen=True, slots=True)
class ClaimAttributes:
    """The classes of volume attributes that a claim has, had, or is about to get."""

    attributes_classes: frozenset[str] = frozenset()

    def matches(self, scope: ScopeRequirement) -> bool:
        return scope.scope_name == "VolumeAttributesClass" and _selects(scope, self.attributes_classes)


def _selects(scope: ScopeRequirement, classes: Collection[str]) -> bool:
    """Return True if a scope selects one of ``classes``; the absence of any is a value, too."""
    requirement = SelectorRequirement(key="class", operator=scope.operator, values=scope.values)
    return any(matches_requirement(requirement, {"class": name} if name else {}) for name in classes or ("",))


def is_counted_by(quota: ResourceQuotaSpec, attributes: ScopeAttributes | ClaimAttributes | None) -> bool:
    """Return True if ``quota`` counts an object; None stands for all kinds other than pods and claims."""
    return all(attributes is not None and attributes.matches(scope) for scope in quota.scope_requirements)


def is_best_effort(spec: PodResources) -> bool:
    """Return True for QoS class BestEffort: no requests or limits of cpu or memory, whatever the overhead."""
    containers = (container.resources for container in (*spec.containers, *spec.init_containers))
    return not any(
        resources.requests.get(name) or resources.limits.get(name)
        for resources in (spec.resources, *containers)
        if resources is not None
        for name in _QOS_RESOURCES
    )


def counted_until(metadata: ObjectMeta) -> float:
    """Return when quotas cease to count the requests of a terminating pod (epoch seconds); else infinity.

    It is then stuck, as on a lost node.  The time of deletion already includes the grace period once.
    """
    deleted, grace_s = metadata.deletion_timestamp, metadata.deletion_grace_period_seconds
    return math.inf if deleted is None or grace_s is None else epoch(deleted) + grace_s
