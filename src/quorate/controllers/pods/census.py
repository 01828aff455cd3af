"""Which pods of a group its workload counts on: who is kept, who is too many, who has a replacement."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from quorate.api.kueue import Workload
from quorate.api.meta import at_epoch
from quorate.controllers.pods.queued_pod import (
    QueuedPod,
    can_count,
    is_gated,
    is_held,
    last_active,
)
from quorate.controllers.pods.roles import role_of


@dataclass(frozen=True, slots=True)
class Census:
    kept: tuple[QueuedPod, ...]
    excess: tuple[QueuedPod, ...] = ()  # more than their role has places
    replaced: tuple[QueuedPod, ...] = ()  # they failed, and others stand in their places
    absent: int = 0  # places that nobody stands in


def take_census(workload: Workload, pods: Sequence[QueuedPod], now: float) -> Census:
    """Fill the places of each role: pods that count first, then those that failed, the latest first."""
    roles = [(role_of(pod), pod) for pod in pods]
    kept: list[QueuedPod] = []
    excess: list[QueuedPod] = []
    replaced: list[QueuedPod] = []
    absent = 0
    for pod_set in workload.spec.pod_sets:
        members = [pod for role, pod in roles if role == pod_set.name]
        counting = by_worth([pod for pod in members if can_count(pod)])
        failed = _latest_first([pod for pod in members if not can_count(pod)], at_epoch(now))
        kept += counting[: pod_set.count]
        excess += counting[pod_set.count :]
        vacant = max(pod_set.count - len(counting), 0)
        kept += failed[:vacant]
        replaced += failed[vacant:]
        absent += vacant
    return Census(tuple(by_age(kept)), tuple(excess), tuple(replaced), absent)


def by_age(pods: Iterable[QueuedPod]) -> list[QueuedPod]:
    return sorted(pods, key=_age)


def by_worth(pods: Iterable[QueuedPod]) -> list[QueuedPod]:
    """Whom to keep first: who has been counted, then who has started, then who is older."""
    return sorted(pods, key=lambda pod: (not is_held(pod), is_gated(pod), _age(pod)))


def _latest_first(pods: Iterable[QueuedPod], now: datetime) -> list[QueuedPod]:
    return sorted(pods, key=lambda pod: (not is_held(pod), -last_active(pod, now).timestamp(), _age(pod)))


def _age(pod: QueuedPod) -> tuple[str, str]:
    created = pod.metadata.creation_timestamp
    return (created.isoformat() if created is not None else "", pod.metadata.name)
