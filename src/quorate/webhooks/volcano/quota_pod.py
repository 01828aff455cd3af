"""Pods as ResourceQuotas count them, with few fields: every pod is cached."""

from collections.abc import Collection
from functools import lru_cache
from sys import intern
from typing import Any, Final

import msgspec

from quorate.api.core.pod import ENDED_PHASES, RequestingSpec, RequestingStatus
from quorate.api.core.pod_resources import RESIZE_PENDING, quota_usage
from quorate.api.core.quota_scopes import ScopeAttributes, is_best_effort
from quorate.api.interning import intern_fields, intern_strings
from quorate.api.meta import ObjectMeta, Struct
from quorate.api.names.volcano import GROUP_NAME
from quorate.gang.cache.from_objects import quota_amounts
from quorate.gang.namespace_quota.evaluation import Amounts, normalised
from quorate.gang.namespace_quota.ledger import PodQuotaUsage
from quorate.kube.resources import Resource
from quorate.webhooks.limits import MAX_SHARED_AMOUNTS

_DAEMON_SET: Final = "DaemonSet"


class QuotaPodSpec(RequestingSpec):
    priority_class_name: str = ""
    scheduler_name: str = "default-scheduler"
    active_deadline_seconds: int | None = None


class QuotaPodStatus(RequestingStatus):
    """A pod status of which only the condition of a resize is kept."""

    phase: str = "Pending"

    def __post_init__(self) -> None:
        kept = tuple(condition for condition in self.conditions if condition.type == RESIZE_PENDING)
        msgspec.structs.force_setattr(self, "conditions", kept)


class IncomingPod(Struct):
    """A pod that is to be created."""

    metadata: ObjectMeta
    spec: QuotaPodSpec = QuotaPodSpec()

    @property
    def is_daemon_pod(self) -> bool:
        owner = self.metadata.controller
        return owner is not None and owner.kind == _DAEMON_SET


_INTERNED: Final[dict[str, Any]] = {"spec": QuotaPodSpec, "status": QuotaPodStatus}


class QuotaPod(IncomingPod):
    """A stored pod, with the fields that quotas count."""

    status: QuotaPodStatus = QuotaPodStatus()

    def __post_init__(self) -> None:
        metadata = self.metadata
        group = metadata.annotations.get(GROUP_NAME)
        kept = ObjectMeta(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            annotations=intern_strings({GROUP_NAME: group}) if group else {},
        )
        msgspec.structs.force_setattr(self, "metadata", kept)
        intern_fields(self, _INTERNED)


QUOTA_PODS: Final = Resource("", "v1", "pods", "Pod", True, QuotaPod)


def pod_group_of(pod: IncomingPod, schedulers: Collection[str]) -> str:
    """Return the name of the pod group; empty without one or for another scheduler."""
    return pod.metadata.annotations.get(GROUP_NAME, "") if pod.spec.scheduler_name in schedulers else ""


def scope_attributes(spec: QuotaPodSpec) -> ScopeAttributes:
    return _scope_attributes(
        spec.priority_class_name, is_best_effort(spec), spec.active_deadline_seconds is not None
    )


@lru_cache(maxsize=1024)
def _scope_attributes(priority_class: str, best_effort: bool, terminating: bool) -> ScopeAttributes:
    """Return one shared object for equal attributes."""
    return ScopeAttributes(priority_class, best_effort, terminating)


def quota_usage_of(spec: QuotaPodSpec, status: QuotaPodStatus | None = None) -> Amounts:
    """Return the quota usage by normalized name, one shared object for equal usages of usual size."""
    amounts = normalised(quota_amounts(quota_usage(spec, status)))
    return _shared_amounts(tuple(amounts.items())) if len(amounts) <= MAX_SHARED_AMOUNTS else amounts


@lru_cache(maxsize=4096)
def _shared_amounts(amounts: tuple[tuple[str, int], ...]) -> Amounts:
    return dict(amounts)


def pod_quota_usage(pod: QuotaPod, schedulers: Collection[str]) -> PodQuotaUsage:
    return PodQuotaUsage(
        group=pod_group_of(pod, schedulers),
        attributes=scope_attributes(pod.spec),
        usage=quota_usage_of(pod.spec, pod.status),
        terminated=pod.status.phase in ENDED_PHASES,
        failed=pod.status.phase == "Failed",
    )
