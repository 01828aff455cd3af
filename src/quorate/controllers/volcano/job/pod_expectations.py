"""What was done to a job's pods and its group before the watch tells of it, and what happened behind us.

Decisions are made on what is stored, so what we know to be stored by now is added to what the watch has
brought.  Nothing of this must survive: a new process decides on a fresh list.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from quorate.api.meta import Key, Uid, at_epoch
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job
from quorate.controllers.volcano.job.job_pods import JobPod, LostPod
from quorate.kube.clock import Clock
from quorate.kube.informer import Change

ECHO_S: Final = 5.0  # how late the watch may be before our own doing is doubted


class PodExpectations:
    """Pods made and pods and groups deleted that the watch has not brought yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steady = clock.steady
        self._made: dict[Uid, dict[Key, tuple[JobPod, float]]] = {}  # by job, with when it is doubted
        self._ended: dict[Uid, float] = {}  # what was deleted, with when that is doubted

    def made(self, job: Job, member: JobPod) -> None:
        of_job = self._made.setdefault(job.metadata.uid, {})
        of_job[member.metadata.key] = (member, self._steady.now() + ECHO_S)

    def ended(self, uid: Uid) -> None:
        self._ended[uid] = self._steady.now() + ECHO_S

    def not_ended(self, uid: Uid) -> None:
        """It is not known to be deleted after all."""
        self._ended.pop(uid, None)

    def was_ended(self, uid: Uid) -> bool:
        return uid in self._ended

    def seen(self, change: Change[JobPod]) -> None:
        """The watch has brought a change of a pod: of that one there is nothing left to assume."""
        pod = change.new if change.new is not None else change.old
        assert pod is not None, "a change from nothing to nothing"
        owner = pod.metadata.controller
        of_job = {} if owner is None else self._made.get(owner.uid, {})
        of_job.pop(pod.metadata.key, None)
        if owner is not None and not of_job:
            self._made.pop(owner.uid, None)
        if change.new is None:
            self._ended.pop(pod.metadata.uid, None)

    def members(self, job: Job, known: Iterable[JobPod]) -> list[JobPod]:
        """The job's pods as they are by now, by name."""
        now = self._steady.now()
        pods = {pod.metadata.key: self._as_ended(pod, now) for pod in known}
        for key, (pod, until) in self._made.get(job.metadata.uid, {}).items():
            if now < until:
                pods.setdefault(key, pod)
        return [pods[key] for key in sorted(pods)]

    def _as_ended(self, pod: JobPod, now: float) -> JobPod:
        if pod.is_terminating or self._ended.get(pod.metadata.uid, 0.0) <= now:
            return pod
        going = replace(pod.metadata, deletion_timestamp=at_epoch(self._clock.now()))
        return replace(pod, metadata=going)

    def group(self, group: PodGroup | None) -> PodGroup | None:
        """The job's pod group as it is by now."""
        if group is None or self._ended.get(group.metadata.uid, 0.0) <= self._steady.now():
            return group
        going = replace(group.metadata, deletion_timestamp=at_epoch(self._clock.now()))
        return replace(group, metadata=going)

    def forget(self, job: Uid) -> None:
        self._made.pop(job, None)


class LostPods:
    """Pods that were placed and went without our doing, until another one stands in for each.

    Only what happens while we look is seen, as with Volcano: a pod that goes meanwhile is replaced.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: dict[Uid, dict[Key, LostPod]] = {}  # by job

    def note(self, pod: JobPod) -> None:
        owner = pod.metadata.controller
        if owner is None or not pod.is_unfinished or not pod.spec.node_name:
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
        self._of.setdefault(owner.uid, {})[lost.key] = lost

    def of(self, job: Job, members: Sequence[JobPod]) -> list[LostPod]:
        """Those that still matter, by name; whoever is replaced by a running pod does not."""
        losses = self._of.get(job.metadata.uid)
        if not losses:
            return []
        wanted = {(task.name, index) for task in job.spec.tasks for index in range(task.replicas)}
        running = {pod.metadata.key for pod in members if pod.status.phase == "Running"}
        status = job.status
        for key, lost in list(losses.items()):
            outdated = lost.version < status.version or lost.retry < status.retry_count
            if outdated or key in running or (lost.task, lost.index) not in wanted:
                del losses[key]
        return [losses[key] for key in sorted(losses)]

    def forget(self, job: Uid) -> None:
        self._of.pop(job, None)
