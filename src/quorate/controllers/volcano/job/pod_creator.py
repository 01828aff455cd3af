"""Creation of the pods of an admitted job: a few at a time, with backoff after a refusal.

A ResourceQuota may be exhausted although the pod group was admitted, since pods of other groups use it as
well.  Then the job waits until quota is free again, or until the scheduler makes its group pending again.  In
the latter case the creation stops, also in the middle of a plan.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.meta import Key, Uid
from quorate.api.volcano.job import Job
from quorate.controllers.context import Record, record_pod_creation
from quorate.controllers.limits import JOB_BYTES_IN_FLIGHT, JOB_WRITES_IN_FLIGHT
from quorate.controllers.volcano.job.assume_cache import AssumeCache
from quorate.controllers.volcano.job.job_pods import JobPod
from quorate.controllers.volcano.job.job_resources import AlreadyOwned, JobResources
from quorate.controllers.volcano.job.job_status import job_size
from quorate.controllers.volcano.job.job_sync import NewPod
from quorate.controllers.volcano.job.plugins import Plugin, plugins_of
from quorate.controllers.volcano.job.pod_builder import build_pods
from quorate.controllers.volcano.job.pod_manifest import PodTooLarge
from quorate.kube import errors
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.computations import Computations
from quorate.kube.flowcontrol import Backoff
from quorate.kube.resources import PLACEABLE_PODS, Json

REFUSED_BACKOFF: Final = Backoff(first_s=1.0, cap_s=60.0)


@dataclass(frozen=True, slots=True)
class _Refusal:
    message: str
    is_of_size: bool = False  # of a pod or another object, which is as large in the next attempt


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job with pods that are too large, which nothing but a change of its spec makes smaller."""

    generation: int
    retry_at: float
    problems: tuple[str, ...]


class PodCreator:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        computations: Computations,
        assume_cache: AssumeCache,
        record: Record,
    ) -> None:
        self._client = client
        self._clock = clock
        self._computations = computations
        self._assume_cache = assume_cache
        self._record = record
        self._resources = JobResources(client, clock.steady, computations)
        self._failures: dict[Key, int] = {}  # consecutive refused attempts, by job
        self._waiting: dict[Key, _Waiting] = {}

    async def create(
        self, job: Job, pods: Sequence[NewPod], is_admitted: Callable[[], bool]
    ) -> tuple[float | None, tuple[str, ...]]:
        """Create pods of a defaulted job; return when to retry if one was refused, and the problems.

        The objects that the pods need are created first; without pods to create they are only updated.  The
        creation stops once the pod group is no longer admitted.  Raises ``RequestFailed`` if
        an immediate retry may help.
        """
        if not pods and self._resources.is_up_to_date(job):
            return None, ()
        key, generation = job.metadata.key, job.metadata.generation
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.generation == generation and self._clock.now() < waiting.retry_at:
            return waiting.retry_at, waiting.problems
        plugins, unknown = await self._computations.run(job_size(job), plugins_of, job)
        problems = [f"spec.plugins: {name} is not a known plugin and has no effect" for name in unknown]
        refusal = await self._create_all(job, pods, plugins, is_admitted)
        if refusal is None:
            self.forget(key)
            return None, tuple(problems)
        retry_at = self._retry_at(key)
        if refusal.is_of_size:
            self._waiting[key] = _Waiting(generation, retry_at, (*problems, refusal.message))
        return retry_at, (*problems, refusal.message)

    def _retry_at(self, job: Key) -> float:
        failures = self._failures[job] = self._failures.get(job, 0) + 1
        return self._clock.now() + REFUSED_BACKOFF.delay_s(failures)

    async def wait_for_claims(self, job: Job) -> tuple[float | None, str]:
        """Return when to retry if a claim that a defaulted job names does not exist, and the problem.

        Raises ``RequestFailed`` if an immediate retry may help.
        """
        try:
            missing = await self._resources.missing_claim(job)
        except errors.ApiError as error:
            return self._retry_at(job.metadata.key), refusal_message(error)
        if not missing:
            return None, ""
        problem = f"PersistentVolumeClaim {missing} does not exist, the job is Pending until it is created"
        return self._retry_at(job.metadata.key), problem

    async def release(self, job: Job) -> str:
        """Delete the objects of the plugins of a defaulted job; return why the server refused, or empty.

        Raises ``RequestFailed`` if an immediate retry may help.
        """
        try:
            plugins, _ = await self._computations.run(job_size(job), plugins_of, job)
            await self._resources.release(job, plugins)
        except errors.ApiError as error:
            return refusal_message(error)
        return ""

    async def _create_all(
        self, job: Job, pods: Sequence[NewPod], plugins: list[Plugin], is_admitted: Callable[[], bool]
    ) -> _Refusal | None:
        """Return the first refusal; None if there was none."""
        try:
            await (self._resources.ensure if pods else self._resources.update)(job, plugins)
        except AlreadyOwned as owned:
            return _Refusal(str(owned))
        except errors.ApiError as error:
            return _refusal_by(error)
        size, created = job_size(job), 0
        while created < len(pods):
            if not is_admitted():
                return None
            batch = pods[created : created + JOB_WRITES_IN_FLIGHT]
            bodies, too_large = await self._computations.run(size, _pod_bodies, job, batch, plugins)
            outcomes = await asyncio.gather(
                *(self._create(job, body) for body in bodies), return_exceptions=True
            )
            if (refusal := _first_refusal(outcomes)) is not None:
                return refusal
            if too_large is not None:
                return _Refusal(str(too_large), is_of_size=True)
            created += len(bodies)
        return None

    async def _create(self, job: Job, body: Json) -> None:
        try:
            created: Pod = await self._client.create(PLACEABLE_PODS, body, job.metadata.namespace)
        except errors.AlreadyExists:
            # An earlier attempt created it and its response was lost, or another job of the same name did.
            key = Key(job.metadata.namespace, body["metadata"]["name"])
            created = await self._client.get(PLACEABLE_PODS, key)
            owner = created.metadata.controller
            if owner is None or owner.uid != job.metadata.uid:
                raise AlreadyOwned("Pod", key, owner) from None
        else:
            record_pod_creation(self._record, job.metadata, created.metadata)
        self._assume_cache.assume_created(job, JobPod(created))

    def forget(self, job: Key) -> None:
        self._failures.pop(job, None)
        self._waiting.pop(job, None)

    def forget_resources(self, job: Uid) -> None:
        self._resources.forget(job)


def _pod_bodies(
    job: Job, pods: Sequence[NewPod], plugins: Sequence[Plugin]
) -> tuple[list[Json], PodTooLarge | None]:
    """Return the first of ``pods`` with encoded specs, and the error of the first pod that is too large."""
    bodies: list[Json] = []
    for pod in build_pods(job, pods, plugins, JOB_BYTES_IN_FLIGHT):
        if isinstance(pod, PodTooLarge):
            return bodies, pod
        bodies.append({**pod.body, "spec": msgspec.Raw(codec.encode(pod.spec))})
    return bodies, None


def _first_refusal(outcomes: Iterable[BaseException | None]) -> _Refusal | None:
    """Return the first refusal; raise an exception that is not about the object."""
    refusals: list[_Refusal] = []
    for outcome in outcomes:
        if isinstance(outcome, AlreadyOwned):
            refusals.append(_Refusal(str(outcome)))
        elif isinstance(outcome, errors.ApiError):
            refusals.append(_refusal_by(outcome))
        elif outcome is not None:
            raise outcome
    return refusals[0] if refusals else None


def _refusal_by(error: errors.ApiError) -> _Refusal:
    """Return the refusal of the object; raise ``error`` if it is not about the object."""
    return _Refusal(refusal_message(error), is_of_size=isinstance(error, errors.RequestTooLarge))


def refusal_message(error: errors.ApiError) -> str:
    """Return why the server refused the object; raise ``error`` if it is not about the object."""
    if isinstance(error, errors.ServerError | errors.TooManyRequests | errors.Unauthorized):
        raise error
    return error.message or str(error)
