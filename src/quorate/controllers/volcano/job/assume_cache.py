"""Own writes that the watch has not delivered yet, and lost pods.

A decision reads the informers' copies plus what this controller knows to be stored by now: pods it created,
pods and groups it deleted.  Both caches are for one process; a new process decides on a fresh list.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from quorate.api.meta import Key, ObjectMeta, Uid, at_epoch
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job
from quorate.controllers.volcano.job.job_pods import JobPod, LostPod, desired_replicas
from quorate.kube.clock import Clock
from quorate.kube.controller.expectations import OWN_WRITE_TIMEOUT_S
from quorate.kube.informer import Change


class AssumeCache:
    """Assumed creations and deletions, each until the watch delivers it or it times out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steady = clock.steady
        # By job uid and pod key; the float is the steady time at which the assumption times out.
        self._created: dict[Uid, dict[Key, tuple[JobPod, float]]] = {}
        self._deleted: dict[Uid, float] = {}  # pods and pod groups: the steady time of the timeout

    def assume_created(self, job: Job, pod: JobPod) -> None:
        of_job = self._created.setdefault(job.metadata.uid, {})
        of_job[pod.metadata.key] = (pod, self._steady.now() + OWN_WRITE_TIMEOUT_S)

    def assume_deleted(self, uid: Uid) -> None:
        self._deleted[uid] = self._steady.now() + OWN_WRITE_TIMEOUT_S

    def deletion_failed(self, uid: Uid) -> None:
        self._deleted.pop(uid, None)

    def is_deleted(self, uid: Uid) -> bool:
        return uid in self._deleted

    def observe(self, change: Change[JobPod]) -> None:
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
        return replace(pod, metadata=self._terminating(pod.metadata))

    def group(self, cached: PodGroup | None) -> PodGroup | None:
        """Return the job's pod group, terminating if its deletion is assumed."""
        if cached is None or self._deleted.get(cached.metadata.uid, 0.0) <= self._steady.now():
            return cached
        return replace(cached, metadata=self._terminating(cached.metadata))

    def _terminating(self, metadata: ObjectMeta) -> ObjectMeta:
        return replace(metadata, deletion_timestamp=at_epoch(self._clock.now()))

    def forget(self, job: Uid) -> None:
        self._created.pop(job, None)


class LostPods:
    """Scheduled pods that something else deleted, each until another pod replaces it.

    As with Volcano, only a deletion that happens while the controller runs is seen: a pod that is deleted in
    between is replaced without an event.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_job: dict[Uid, dict[Key, LostPod]] = {}

    def record(self, pod: JobPod) -> None:
        owner = pod.metadata.controller
        if owner is None or pod.is_finished or not pod.spec.node_name:
            return
        lost = LostPod(
            key=pod.metadata.key,
            task=pod.task,
            index=pod.index,
            partition=pod.partition,
            version=pod.version,
            retry=pod.retry,
            at=self._clock.now(),
        )
        self._by_job.setdefault(owner.uid, {})[lost.key] = lost

    def of_job(self, job: Job, pods: Sequence[JobPod]) -> list[LostPod]:
        """Return the lost pods by name; drop replaced and outdated ones."""
        lost_pods = self._by_job.get(job.metadata.uid)
        if not lost_pods:
            return []
        replicas = desired_replicas(job)
        running = {pod.metadata.key for pod in pods if pod.status.phase == "Running"}
        status = job.status
        for key, lost in list(lost_pods.items()):
            outdated = lost.version < status.version or lost.retry < status.retry_count
            if outdated or key in running or not 0 <= lost.index < replicas.get(lost.task, 0):
                del lost_pods[key]
        return [lost_pods[key] for key in sorted(lost_pods)]

    def forget(self, job: Uid) -> None:
        self._by_job.pop(job, None)
