"""Own writes that the watch has not delivered yet, and lost pods.

A decision reads the informers' copies plus what this controller knows to be stored by now: pods it created,
pods and groups it deleted.  Both caches are for one process; a new process decides on a fresh list.
Expectations would delay the next decision about a job until the watch has delivered thousands of pods; and a
deletion counts from its decision on, when ``own_writes`` knows no result yet.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from quorate.api.core.pod import Pod
from quorate.api.meta import Key, ObjectMeta, Uid, at_epoch
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job
from quorate.controllers.volcano.job.job_pods import JobPod, LostPod, desired_replicas
from quorate.kube.clock import Clock
from quorate.kube.informer import Change
from quorate.kube.limits import OWN_WRITE_TIMEOUT_S

M = TypeVar("M", bound=ObjectMeta)


class AssumeCache:
    """Assumed creations and deletions, each until the watch delivers it or it times out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steady = clock.steady
        # By job uid and pod key; the float is the steady time at which the assumption times out.
        self._created: dict[Uid, dict[Key, tuple[JobPod, float]]] = {}
        # Pods and pod groups that this process deletes: the steady time of the timeout.
        self._deleted: dict[Uid, float] = {}

    def assume_created(self, job: Job, pod: JobPod) -> None:
        of_job = self._created.setdefault(job.metadata.uid, {})
        of_job[pod.metadata.key] = (pod, self._steady.now() + OWN_WRITE_TIMEOUT_S)

    def assume_deleted(self, uid: Uid) -> None:
        self._deleted[uid] = self._steady.now() + OWN_WRITE_TIMEOUT_S

    def deletion_failed(self, uid: Uid) -> None:
        """Assume the deletion no longer.  Its request may have been executed although its response failed."""
        self._deleted[uid] = 0.0

    def deletion_decided(self, uid: Uid) -> None:
        """Note that this process will delete a pod, and that something else may be faster."""
        self._deleted.setdefault(uid, 0.0)

    def is_deleted(self, uid: Uid) -> bool:
        """Return True if this process deletes the pod or group, or has tried to."""
        return uid in self._deleted

    def observe(self, change: Change[Pod]) -> None:
        """Drop what is assumed of a pod once the watch has delivered a change of it."""
        pod = change.new if change.new is not None else change.old
        assert pod is not None, "a change from nothing to nothing"
        owner = pod.metadata.controller
        of_job = {} if owner is None else self._created.get(owner.uid, {})
        of_job.pop(pod.metadata.key, None)
        if owner is not None and not of_job:
            self._created.pop(owner.uid, None)
        if change.new is None:
            self._deleted.pop(pod.metadata.uid, None)

    def pods(self, job: Job, cached: Iterable[JobPod]) -> list[JobPod]:
        """Return the job's pods by name: ``cached`` with the assumed creations and deletions."""
        now = self._steady.now()
        pods = {pod.metadata.key: self._with_deletion(pod, now) for pod in cached}
        for key, (pod, until) in self._created.get(job.metadata.uid, {}).items():
            if now < until:
                pods.setdefault(key, pod)
        return [pods[key] for key in sorted(pods)]

    def _with_deletion(self, pod: JobPod, now: float) -> JobPod:
        if pod.is_terminating or self._deleted.get(pod.metadata.uid, 0.0) <= now:
            return pod
        return JobPod(replace(pod.pod, metadata=self._terminating(pod.metadata)))

    def group(self, cached: PodGroup | None) -> PodGroup | None:
        """Return the job's pod group, terminating if its deletion is assumed."""
        if cached is None or self._deleted.get(cached.metadata.uid, 0.0) <= self._steady.now():
            return cached
        return replace(cached, metadata=self._terminating(cached.metadata))

    def _terminating(self, metadata: M) -> M:
        return replace(metadata, deletion_timestamp=at_epoch(self._clock.now()))

    def forget(self, job: Uid) -> None:
        self._created.pop(job, None)


class LostPods:
    """Pods with a node that something else deletes, each until another pod runs or an action handles it.

    A pod is lost when its deletion is requested, whichever way: by a user, by the eviction API, by the
    preemption of a scheduler, or because its node was lost.  Its last phase does not matter: a pod that is
    deleted gracefully has failed or succeeded by the end.  As with Volcano, only a pod that exists while the
    controller runs is seen: a pod that is gone by then is replaced without an event.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_job: dict[Uid, dict[Key, LostPod]] = {}

    def record(self, job: Uid, pod: JobPod) -> None:
        """Note that something else deletes ``pod``, in its version before, or as it was first seen.

        Pods without a node are not lost.  The job controller deletes them when the group is pending again.
        """
        if not pod.node_name:
            return
        has_failed = pod.phase == "Failed" and not pod.is_terminating
        lost = LostPod(
            key=pod.metadata.key,
            uid=pod.metadata.uid,
            task=pod.task,
            index=pod.index,
            partition=pod.partition,
            version=pod.version,
            at=pod.ended_at if has_failed and pod.is_disrupted else self._clock.now(),
            failed_at=pod.ended_at if has_failed else None,
            exit_code=pod.exit_code if has_failed else None,
        )
        self._by_job.setdefault(job, {})[lost.key] = lost

    def of_job(
        self, job: Job, pods: Sequence[JobPod], is_own_deletion: Callable[[Uid], bool]
    ) -> list[LostPod]:
        """Return the lost pods by name; drop replaced and outdated ones."""
        for pod in pods:
            if pod.is_terminating and not is_own_deletion(pod.metadata.uid):
                self._record_first_seen(job, pod)
        lost_pods = self._by_job.get(job.metadata.uid)
        if not lost_pods:
            return []
        replicas = desired_replicas(job)
        running = {pod.metadata.key: pod.metadata.uid for pod in pods if pod.phase == "Running"}
        for key, lost in list(lost_pods.items()):
            is_outdated = lost.version < job.status.version
            is_replaced = running.get(key, lost.uid) != lost.uid
            if is_outdated or is_replaced or not 0 <= lost.index < replicas.get(lost.task, 0):
                del lost_pods[key]
        return [lost_pods[key] for key in sorted(lost_pods)]

    def _record_first_seen(self, job: Job, pod: JobPod) -> None:
        """Record a pod that another process may have deleted, unless the last action did or handled it."""
        if pod.retry < job.status.retry_count or pod.metadata.key in self._by_job.get(job.metadata.uid, {}):
            return
        self.record(job.metadata.uid, pod)

    def handled(self, job: Uid, pods: Collection[Uid]) -> None:
        """Drop ``pods``, which an action has handled."""
        of_job = self._by_job.get(job, {})
        for key in [key for key, lost in of_job.items() if lost.uid in pods]:
            del of_job[key]

    def forget(self, job: Uid) -> None:
        self._by_job.pop(job, None)
