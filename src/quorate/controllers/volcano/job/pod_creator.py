"""Creation of the pods of an admitted job: a few at a time, with backoff after a refusal.

A ResourceQuota may be exhausted although the pod group was admitted, since pods of other groups use it as
well.  Then the job waits until quota is free again, or until the scheduler makes its group pending again.  In
the latter case the creation stops, also in the middle of a plan.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from quorate.api.meta import Key, Uid
from quorate.api.volcano.job import Job
from quorate.controllers.metrics import Record, record_pod_creation
from quorate.controllers.volcano.job.assume_cache import AssumeCache
from quorate.controllers.volcano.job.job_pods import JOB_PODS, JobPod
from quorate.controllers.volcano.job.job_resources import AlreadyOwned, JobResources
from quorate.controllers.volcano.job.job_sync import NewPod
from quorate.controllers.volcano.job.plugins import Plugin, plugins_of
from quorate.controllers.volcano.job.plugins.interface import pod_name
from quorate.controllers.volcano.job.pod_builder import build_pod
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, ApiError, ServerError, TooManyRequests, Unauthorized
from quorate.kube.flowcontrol import Backoff

MAX_IN_FLIGHT: Final = 32  # requests of one job
REFUSED_BACKOFF: Final = Backoff(first_s=1.0, cap_s=60.0)


class PodCreator:
    def __init__(self, client: Client, clock: Clock, assume_cache: AssumeCache, record: Record) -> None:
        self._client = client
        self._clock = clock
        self._assume_cache = assume_cache
        self._record = record
        self._resources = JobResources(client)
        self._failures: dict[Key, int] = {}  # consecutive refused attempts, by job

    async def create(
        self, job: Job, pods: Sequence[NewPod], is_admitted: Callable[[], bool]
    ) -> tuple[float | None, tuple[str, ...]]:
        """Create pods of a defaulted job; return when to retry if one was refused, and the problems.

        The objects that the pods need are created first; without pods to create they are only updated.  The
        creation stops once the pod group is no longer admitted.  Raises ``ApiError`` and ``Unreachable`` if
        an immediate retry may help.
        """
        if not pods and self._resources.is_up_to_date(job):
            return None, ()
        plugins, unknown = plugins_of(job)
        problems = [f"spec.plugins: {name} is not a known plugin and has no effect" for name in unknown]
        refusal = await self._create_all(job, pods, plugins, is_admitted)
        if refusal is None:
            self.forget(job.metadata.key)
            return None, tuple(problems)
        return self._retry_at(job.metadata.key), (*problems, refusal)

    def _retry_at(self, job: Key) -> float:
        failures = self._failures[job] = self._failures.get(job, 0) + 1
        return self._clock.now() + REFUSED_BACKOFF.delay_s(failures)

    async def wait_for_claims(self, job: Job) -> tuple[float | None, str]:
        """Return when to retry if a claim that a defaulted job names does not exist, and the problem.

        Raises ``ApiError`` and ``Unreachable`` if an immediate retry may help.
        """
        try:
            missing = await self._resources.missing_claim(job)
        except ApiError as error:
            return self._retry_at(job.metadata.key), refusal_message(error)
        if not missing:
            return None, ""
        problem = f"PersistentVolumeClaim {missing} does not exist, the job is Pending until it is created"
        return self._retry_at(job.metadata.key), problem

    async def release(self, job: Job) -> str:
        """Delete the objects of the plugins of a defaulted job; return why the server refused, or empty.

        Raises ``ApiError`` and ``Unreachable`` if an immediate retry may help.
        """
        try:
            await self._resources.release(job, plugins_of(job)[0])
        except ApiError as error:
            return refusal_message(error)
        return ""

    async def _create_all(
        self, job: Job, pods: Sequence[NewPod], plugins: list[Plugin], is_admitted: Callable[[], bool]
    ) -> str | None:
        """Return the first refusal; None if there was none."""
        try:
            await (self._resources.ensure if pods else self._resources.update)(job, plugins)
        except AlreadyOwned as owned:
            return str(owned)
        except ApiError as error:
            return refusal_message(error)
        for start in range(0, len(pods), MAX_IN_FLIGHT):
            if not is_admitted():
                return None
            batch = pods[start : start + MAX_IN_FLIGHT]
            outcomes = await asyncio.gather(
                *(self._create(job, pod, plugins) for pod in batch), return_exceptions=True
            )
            if (refusal := _first_refusal(outcomes)) is not None:
                return refusal
        return None

    async def _create(self, job: Job, pod: NewPod, plugins: Iterable[Plugin]) -> None:
        task = next(each for each in job.spec.tasks if each.name == pod.task)
        body = build_pod(job, task, pod.index, plugins)
        try:
            created: JobPod = await self._client.create(JOB_PODS, body, job.metadata.namespace)
        except AlreadyExists:
            # An earlier attempt created it and its response was lost, or another job of the same name did.
            key = Key(job.metadata.namespace, pod_name(job, task, pod.index))
            created = await self._client.get(JOB_PODS, key)
            owner = created.metadata.controller
            if owner is None or owner.uid != job.metadata.uid:
                raise AlreadyOwned("Pod", key, owner) from None
        else:
            record_pod_creation(self._record, job.metadata, created.metadata)
        self._assume_cache.assume_created(job, created)

    def forget(self, job: Key) -> None:
        self._failures.pop(job, None)

    def forget_resources(self, job: Uid) -> None:
        self._resources.forget(job)


def _first_refusal(outcomes: Iterable[BaseException | None]) -> str | None:
    """Return the message of the first refusal; raise an exception that is not about the object."""
    messages: list[str] = []
    for outcome in outcomes:
        if isinstance(outcome, AlreadyOwned):
            messages.append(str(outcome))
        elif isinstance(outcome, ApiError):
            messages.append(refusal_message(outcome))
        elif outcome is not None:
            raise outcome
    return messages[0] if messages else None


def refusal_message(error: ApiError) -> str:
    """Return why the server refused the object; raise ``error`` if it is not about the object."""
    if isinstance(error, ServerError | TooManyRequests | Unauthorized):
        raise error
    return error.message or str(error)
