"""Pod groups: which pods of a group count, and what their states mean for the group."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from quorate.api.configuration.feature_gates import DEFAULT_GATES, Gates
from quorate.api.kueue import ReclaimablePod, Workload
from quorate.api.meta import ObjectMeta, at_epoch
from quorate.api.syntax import positive_int32
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import (
    QueuedPod,
    can_count,
    has_finalizer,
    is_deleted,
    is_gated,
    is_managed,
    is_ready,
    is_retriable,
    is_suspended,
    is_terminated,
    last_active,
)
from quorate.controllers.pods.roles import role_of


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods of one group, the oldest first: all managed ones, or those that count."""

    name: str
    pods: tuple[QueuedPod, ...]
    total: int  # the size of the whole group; 0 if the annotation of its first pod is malformed
    now: float  # epoch seconds
    fast_quota_release: bool = False
    tolerates_unready: bool = False  # the annotation ``pod-group-max-not-ready-count`` counts
    absent: int = 0  # pods that count and have to be replaced

    @classmethod
    def of(cls, name: str, pods: Iterable[QueuedPod], now: float, gates: Gates = DEFAULT_GATES) -> "PodGroup":
        """Return the group of all managed ones among ``pods``."""
        managed = tuple(by_age(pod for pod in pods if is_managed(pod)))
        text = managed[0].metadata.annotations.get(constants.TOTAL_COUNT, "") if managed else ""
        return cls(
            name,
            managed,
            positive_int32(text) or 0,
            now,
            gates.fast_quota_release_in_pod_integration,
            gates.wait_for_pods_ready_max_not_ready,
        )

    @property
    def metadata(self) -> ObjectMeta:
        return self.pods[0].metadata

    @property
    def is_fast(self) -> bool:
        """Whether the group is admitted before all its pods exist."""
        return self.metadata.annotations.get(constants.FAST_ADMISSION) == "true"

    @property
    def is_serving(self) -> bool:
        """Whether the group belongs to a StatefulSet or LeaderWorkerSet: it never ends."""
        return self.metadata.annotations.get(constants.SERVING) == "true"

    @property
    def is_suspended(self) -> bool:
        return any(map(is_suspended, self.pods))

    @property
    def is_ready(self) -> bool:
        """Whether all pods of the group, except as many as it tolerates, are ready or have succeeded."""
        done = sum(is_ready(pod) or pod.status.phase == "Succeeded" for pod in self.pods)
        return max(self.total, len(self.pods)) - done <= self._tolerated

    @property
    def _tolerated(self) -> int:
        """The least that the annotation of a pod allows; 0 if one pod has none, or an invalid one."""
        if not self.tolerates_unready:
            return 0
        counts = (
            positive_int32(pod.metadata.annotations.get(constants.MAX_NOT_READY, "")) or 0
            for pod in self.pods
        )
        return min((count if count < self.total else 0 for count in counts), default=0)

    @property
    def outcome(self) -> Outcome | None:
        """The end: all pods succeeded, or all terminated and one of them is not retriable."""
        if self.is_serving:
            return None
        succeeded = sum(pod.status.phase == "Succeeded" for pod in self.pods)
        given_up = all(map(is_terminated, self.pods)) and not all(map(is_retriable, self.pods))
        if succeeded < self.total and not given_up:
            return None
        return Outcome(success=True, message=f"Pods succeeded: {succeeded}/{self.total}.")

    @property
    def is_active(self) -> bool:
        """Whether a pod runs and still has time to end.

        A deleted pod has its grace period; the kubelet of a lost node never reports the end.
        """
        return any(
            pod.status.phase == "Running"
            and not (is_deleted(pod) and (self.fast_quota_release or _is_overdue(pod, at_epoch(self.now))))
            for pod in self.pods
        )

    @property
    def reclaimable(self) -> tuple[ReclaimablePod, ...]:
        if self.is_serving:
            return ()
        done = Counter(role_of(pod) for pod in self.pods if pod.status.phase == "Succeeded")
        return tuple(ReclaimablePod(name=name, count=count) for name, count in sorted(done.items()))


@dataclass(frozen=True, slots=True)
class CountedPods:
    """The pods of a group, by whether its workload counts them."""

    kept: tuple[QueuedPod, ...]
    excess: tuple[QueuedPod, ...] = ()  # more than the count of their role
    replaced: tuple[QueuedPod, ...] = ()  # failed, and replaced by other pods
    absent: int = 0  # pods that the group waits for


def count_pods(workload: Workload, group: PodGroup) -> CountedPods:
    """Fill the count of each role with pods that can count, then with the latest failed.

    With fast admission a role waits only for its first pod: more pods may follow after the admission.
    """
    now = at_epoch(group.now)
    roles = [(role_of(pod), pod) for pod in group.pods]
    kept: list[QueuedPod] = []
    excess: list[QueuedPod] = []
    replaced: list[QueuedPod] = []
    absent = 0
    for pod_set in workload.spec.pod_sets:
        members = [pod for role, pod in roles if role == pod_set.name]
        counting = by_precedence(pod for pod in members if can_count(pod))
        failed = _latest_first((pod for pod in members if not can_count(pod)), now)
        kept += counting[: pod_set.count]
        excess += counting[pod_set.count :]
        vacant = max(pod_set.count - len(counting), 0)
        kept += failed[:vacant]
        replaced += failed[vacant:]
        absent += vacant if not group.is_fast else int(vacant > 0 and not counting)
    return CountedPods(tuple(by_age(kept)), tuple(excess), tuple(replaced), absent)


def by_age(pods: Iterable[QueuedPod]) -> list[QueuedPod]:
    return sorted(pods, key=_age)


def by_precedence(pods: Iterable[QueuedPod]) -> list[QueuedPod]:
    """Sort the pods to keep first: with our finalizer, then started, then older."""
    return sorted(pods, key=lambda pod: (not has_finalizer(pod), is_gated(pod), _age(pod)))


def _latest_first(pods: Iterable[QueuedPod], now: datetime) -> list[QueuedPod]:
    return sorted(
        pods, key=lambda pod: (not has_finalizer(pod), -last_active(pod, now).timestamp(), _age(pod))
    )


def _age(pod: QueuedPod) -> tuple[str, str]:
    created = pod.metadata.creation_timestamp
    return (created.isoformat() if created is not None else "", pod.metadata.name)


def _is_overdue(pod: QueuedPod, now: datetime) -> bool:
    """Return True after the grace period; the API server sets ``deletionTimestamp`` to its end."""
    deleted_at = pod.metadata.deletion_timestamp
    return deleted_at is not None and deleted_at <= now
