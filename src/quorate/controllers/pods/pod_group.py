"""Pod groups: which pods of a group count, and what their states mean for the group."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from msgspec import structs

from quorate.api.configuration.feature_gates import DEFAULT_GATES, Gates
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, at_epoch
from quorate.api.syntax import positive_int32
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobframework.pod_counts import PodCounts, PodSetCounts
from quorate.controllers.pods import constants
from quorate.controllers.pods.native_workloads import NO_UNIT, NativeUnit
from quorate.controllers.pods.queued_pod import (
    can_count,
    has_failed_for_good,
    has_finalizer,
    is_gated,
    is_ready,
    is_retriable,
    is_suspended,
    last_active,
    role_of,
)
from quorate.queueing.conditions import has_quota_reservation


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A group of plain pods that is queued as one job (KEP-976).

    ``pods``, the oldest first, are all managed pods of the group. Once the pods have been counted against the
    size of the group, ``pods`` lacks excess pods and replaced pods.
    """

    name: str
    pods: tuple[Pod, ...]
    total: int  # the size of the whole group; 0 if it is not known, see ``is_native``
    now: float  # epoch seconds
    fast_quota_release: bool = False
    tolerates_unready: bool = False  # the annotation ``pod-group-max-not-ready-count`` counts
    absent: int = 0  # pods that count and have to be replaced
    roles: tuple[tuple[str, int], ...] = ()  # with the pods of each, as in the workload, if there is one
    is_native: bool = False  # a group of Kubernetes; of others an annotation of the first pod has the size
    unit: NativeUnit = NO_UNIT  # the native workload of all the groups of these pods

    @classmethod
    def of(cls, name: str, pods: Iterable[Pod], now: float, gates: Gates = DEFAULT_GATES) -> "PodGroup":
        """Return the group of the managed pods among ``pods``."""
        managed = tuple(by_age(pod for pod in pods if pod.metadata.is_managed))
        return cls(
            name,
            managed,
            _total(managed),
            now,
            gates.fast_quota_release_in_pod_integration,
            gates.wait_for_pods_ready_max_not_ready,
        )

    def divided(self, is_own: Callable[[Pod], bool]) -> tuple["PodGroup", "PodGroup"]:
        """Return the group with the pods for which ``is_own`` returns True, and with the others."""
        own, others = (tuple(pod for pod in self.pods if is_own(pod) == wanted) for wanted in (True, False))
        return replace(self, pods=own, total=_total(own)), replace(self, pods=others, total=_total(others))

    def as_native(self, least: int) -> "PodGroup":
        """Return the group as one of Kubernetes with the ``minCount`` ``least``; 0 if that is not known.

        All its pods that exist by then are queued together.
        """
        total = max(least, sum(map(can_count, self.pods))) if least else 0
        return replace(self, total=total, is_native=True)

    def as_unit(self, unit: NativeUnit) -> "PodGroup":
        """Return the pods of all groups of a native workload, which are queued together."""
        total = 0 if unit.incomplete else sum(map(can_count, self.pods))
        return replace(self, total=total, is_native=True, unit=unit)

    @property
    def metadata(self) -> ObjectMeta:
        return self.labelled(self.pods[0].metadata)

    def labelled(self, metadata: ObjectMeta) -> ObjectMeta:
        """Return the metadata of a pod with the labels by which the native workload is queued."""
        if not self.unit.labels:
            return metadata
        return structs.replace(metadata, labels={**metadata.labels, **self.unit.labels})

    def role_of(self, pod: Pod) -> str:
        """Return the pod set of a pod: pods of one pod group template with one shape."""
        return self.unit.pod_set_name(pod, role_of(pod))

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
    def retries(self) -> bool:
        """Whether other pods take the place of failed ones; otherwise the group ends with its last pod."""
        return all(map(is_retriable, self.pods))

    @property
    def counts(self) -> PodCounts:
        """The counts of each role; pods of a serving group are made again whenever they end.

        As many pods as the group tolerates are not required.
        """
        counts = [
            pod_set_counts(
                role,
                [pod for pod in self.pods if self.role_of(pod) == role],
                size,
                retries=self.retries,
                is_serving=self.is_serving,
            )
            for role, size in self.roles
        ]
        if sum(count.missing for count in counts) <= self._tolerated:
            counts = [replace(count, required=count.required - count.missing) for count in counts]
        return tuple(counts)

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
        """The end: all pods succeeded, or none is left of a group that does not retry."""
        if self.is_serving:
            return None
        counts = pod_set_counts(self.name, self.pods, self.total)
        message = f"Pods succeeded: {counts.succeeded}/{self.total}."
        if counts.succeeded >= self.total:
            return Outcome(True, message)
        goes_on = self.retries or counts.active or counts.terminating
        return None if goes_on or not any(pod.has_ended for pod in self.pods) else Outcome(False, message)

    @property
    def is_active(self) -> bool:
        """Whether a pod runs and still has time to end.

        A deleted pod has its grace period; the kubelet of a lost node never reports the end.
        """
        return any(
            pod.status.phase == "Running"
            and not (pod.is_leaving and (self.fast_quota_release or _is_overdue(pod, at_epoch(self.now))))
            for pod in self.pods
        )


@dataclass(frozen=True, slots=True)
class CountedPods:
    """The pods of a group, by whether its workload counts them; one that waits for a place is in no field."""

    kept: tuple[Pod, ...]
    excess: tuple[Pod, ...] = ()  # more than the count of their role
    replaced: tuple[Pod, ...] = ()  # failed, and replaced by other pods
    absent: int = 0  # pods that the group waits for


def _total(pods: Sequence[Pod]) -> int:
    """Return the size of the group that the first of its pods states; 0 if it states none."""
    text = pods[0].metadata.annotations.get(constants.TOTAL_COUNT, "") if pods else ""
    return positive_int32(text) or 0


def count_pods(workload: Workload, group: PodGroup) -> CountedPods:
    """Fill the count of each role with pods that can count, then with the latest failed.

    With fast admission a role waits only for its first pod: more pods may follow after the admission.  In a
    group that does not retry, a failed pod may be replaced until its quota has been given back.
    """
    now = at_epoch(group.now)
    reserved = has_quota_reservation(workload)
    given_back = {
        reclaimable.name: reclaimable.count for reclaimable in workload.status.reclaimable_pods if reserved
    }
    roles = [(group.role_of(pod), pod) for pod in group.pods]
    kept: list[Pod] = []
    excess: list[Pod] = []
    replaced: list[Pod] = []
    absent = 0
    for pod_set in workload.spec.pod_sets:
        members = [pod for role, pod in roles if role == pod_set.name]
        counting = by_precedence(pod for pod in members if can_count(pod))
        failed = _latest_first((pod for pod in members if not can_count(pod)), now)
        succeeded = sum(pod.status.phase == "Succeeded" for pod in counting)
        most = pod_set.count - max(0, given_back.get(pod_set.name, 0) - succeeded)
        kept += counting[:most]
        excess += excess_pods(counting, most)
        vacant = max(pod_set.count - len(counting[:most]), 0)
        kept += failed[:vacant]
        replaced += failed[vacant:]
        awaited = vacant if group.retries else vacant - sum(map(has_failed_for_good, failed[:vacant]))
        absent += awaited if not group.is_fast else int(awaited > 0 and not counting)
    return CountedPods(tuple(by_age(kept)), tuple(excess), tuple(replaced), absent)


def excess_pods(counting: Sequence[Pod], size: int) -> Sequence[Pod]:
    """Return the pods beyond ``size``, those to keep first, that take the place of no pod that is leaving.

    The owner of a pod may create another one before the pod has ended on its node: it waits for the place.
    """
    leaving = sum(pod.is_leaving and not pod.has_ended for pod in counting[:size])
    return counting[size + leaving :]


def pod_set_counts(
    name: str, pods: Sequence[Pod], size: int, *, retries: bool = True, is_serving: bool = False
) -> PodSetCounts:
    """Return the counts of the ``pods`` that count, out of ``size``."""
    existing = [pod for pod in pods if can_count(pod) and not pod.has_ended]
    terminating = sum(pod.is_leaving for pod in existing)
    succeeded = 0 if is_serving else sum(pod.status.phase == "Succeeded" for pod in pods)
    failed = 0 if retries or is_serving else sum(map(has_failed_for_good, pods))
    return PodSetCounts(
        name,
        size,
        active=len(existing) - terminating,
        ready=sum(map(is_ready, existing)),
        terminating=terminating,
        succeeded=succeeded,
        failed=failed,
        coming=max(0, size - len(existing) - succeeded - failed),
    )


def by_age(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: pod.metadata.age_order)


def by_precedence(pods: Iterable[Pod]) -> list[Pod]:
    """Sort the pods to keep first: with our finalizer, then started, then older."""
    return sorted(pods, key=lambda pod: (not has_finalizer(pod), is_gated(pod), pod.metadata.age_order))


def _latest_first(pods: Iterable[Pod], now: datetime) -> list[Pod]:
    return sorted(
        pods,
        key=lambda pod: (not has_finalizer(pod), -last_active(pod, now).timestamp(), pod.metadata.age_order),
    )


def _is_overdue(pod: Pod, now: datetime) -> bool:
    """Return True after the grace period; the API server sets ``deletionTimestamp`` to its end."""
    deleted_at = pod.metadata.deletion_timestamp
    return deleted_at is not None and deleted_at <= now
