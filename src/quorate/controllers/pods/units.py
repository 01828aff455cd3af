"""What is admitted as one: a pod by itself, or a group of pods.

Both answer the same questions, so that one table of decisions serves them (``decide``).
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quorate.api.kueue import ReclaimablePod
from quorate.api.meta import at_epoch
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.pods.queued_pod import (
    QueuedPod,
    is_deleted,
    is_ready,
    is_retriable,
    is_suspended,
    is_terminated,
)
from quorate.controllers.pods.roles import role_of

SINGLE_ROLE: Final = "main"


@dataclass(frozen=True, slots=True)
class SinglePod:
    pod: QueuedPod

    @property
    def pods(self) -> tuple[QueuedPod, ...]:
        return (self.pod,)

    @property
    def suspended(self) -> bool:
        """Whether nothing of it will start."""
        return is_suspended(self.pod)

    @property
    def absent(self) -> int:
        """How many pods are yet to be made in place of others."""
        return 0

    @property
    def ready(self) -> bool:
        return is_ready(self.pod)

    @property
    def outcome(self) -> Outcome | None:
        status = self.pod.status
        if not is_terminated(self.pod):
            return None
        return Outcome(success=status.phase == "Succeeded", message=status.message)

    def active(self, now: float) -> bool:
        """Whether pods of it still hold capacity: a pod that is stopped is no longer counted."""
        return False

    def reclaimable(self) -> tuple[ReclaimablePod, ...]:
        return ()

    def role_of(self, pod: QueuedPod) -> str:
        return SINGLE_ROLE


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The pods of one group that count, and those that failed and have no replacement yet."""

    pods: tuple[QueuedPod, ...]
    total: int
    absent: int = 0
    serving: bool = False  # it never ends
    fast_quota_release: bool = False

    @property
    def suspended(self) -> bool:
        return any(map(is_suspended, self.pods))

    @property
    def ready(self) -> bool:
        """Whether all it asks for are ready, or were and have succeeded."""
        done = (is_ready(pod) or pod.status.phase == "Succeeded" for pod in self.pods)
        return len(self.pods) >= self.total and all(done)

    @property
    def outcome(self) -> Outcome | None:
        """It ends when all succeeded, or when all have ended and one says that it is not to be replaced."""
        if self.serving:
            return None
        succeeded = sum(pod.status.phase == "Succeeded" for pod in self.pods)
        given_up = all(map(is_terminated, self.pods)) and not all(map(is_retriable, self.pods))
        if succeeded < self.total and not given_up:
            return None
        return Outcome(success=True, message=f"Pods succeeded: {succeeded}/{self.total}.")

    def active(self, now: float) -> bool:
        """Whether a pod runs that was not told to stop long enough ago.

        A pod that is deleted has its grace period to end in; a node that is lost never reports the end.
        """
        return any(
            pod.status.phase == "Running"
            and not (is_deleted(pod) and (self.fast_quota_release or _is_overdue(pod, at_epoch(now))))
            for pod in self.pods
        )

    def reclaimable(self) -> tuple[ReclaimablePod, ...]:
        if self.serving:
            return ()
        done = Counter(role_of(pod) for pod in self.pods if pod.status.phase == "Succeeded")
        return tuple(ReclaimablePod(name=name, count=count) for name, count in sorted(done.items()))

    def role_of(self, pod: QueuedPod) -> str:
        return role_of(pod)


Unit = SinglePod | PodGroup


def _is_overdue(pod: QueuedPod, now: datetime) -> bool:
    """The API sets the moment of deletion to the end of the grace period."""
    deleted_at = pod.metadata.deletion_timestamp
    return deleted_at is not None and deleted_at <= now
