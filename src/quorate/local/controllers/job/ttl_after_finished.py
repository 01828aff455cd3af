"""Deletion of finished jobs after ``ttlSecondsAfterFinished``."""

from quorate.api.meta import Key, epoch
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.local.controllers.job.types import JOBS, Job


def expires_at(job: Job) -> float | None:
    """Return when the job is to be deleted; None if it is unfinished or already terminating."""
    if job.spec.ttl_seconds_after_finished is None or job.metadata.deletion_timestamp is not None:
        return None
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            assert condition.last_transition_time is not None, f"job {job.metadata.key} finished at no time"
            return epoch(condition.last_transition_time) + job.spec.ttl_seconds_after_finished
    return None


class TtlAfterFinishedController:
    """Deletes expired jobs.  The caller runs the informer."""

    def __init__(self, client: Client, clock: Clock, jobs: Informer[Job]) -> None:
        self._client = client
        self._clock = clock
        self._jobs = jobs
        self._reconciler = Reconciler("ttl-after-finished", self.reconcile, clock)
        jobs.subscribe(self._on_job)

    async def run(self) -> None:
        await self._reconciler.run()

    def _on_job(self, change: Change[Job]) -> None:
        if change.new is not None and expires_at(change.new) is not None:
            self._reconciler.enqueue(change.new.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        end = expires_at(job) if job else None
        if job is None or end is None or self._clock.now() < end:
            return end
        try:
            await self._client.delete(JOBS, key, uid=job.metadata.uid, propagation="Foreground")
        except (NotFound, Conflict):
            return None  # deleted, or replaced by another job with that name
        return None
