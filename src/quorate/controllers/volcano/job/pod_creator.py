"""Making the pods of an admitted job: few at a time, and again later what the API refuses now.

A quota may be exhausted although the group was admitted, since others use it as well.  Then the job waits:
sooner or later there is room again, or the scheduler sends its group back.  From then on no more are made,
also of those that were about to be.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from quorate.api.meta import Key, Uid
from quorate.api.volcano.job import Job
from quorate.controllers.metrics import Record, record_pod_creation
from quorate.controllers.volcano.job.job_pods import JOB_PODS, JobPod
from quorate.controllers.volcano.job.job_resources import AlreadyOwned, JobResources
from quorate.controllers.volcano.job.job_sync import NewPod
from quorate.controllers.volcano.job.plugins import Plugin, plugins_of
from quorate.controllers.volcano.job.plugins.interface import pod_name
from quorate.controllers.volcano.job.pod_builder import build_pod
from quorate.controllers.volcano.job.pod_expectations import PodExpectations
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, ApiError, ServerError, TooManyRequests, Unauthorized
from quorate.kube.flowcontrol import Backoff

AT_ONCE: Final = 32  # requests of one job under way
PATIENCE: Final = Backoff(first_s=1.0, cap_s=60.0)


class PodCreator:
    def __init__(self, client: Client, clock: Clock, assumed: PodExpectations, record: Record) -> None:
        self._client = client
        self._clock = clock
        self._pod_expectations = assumed
        self._record = record
        self._resources = JobResources(client)
        self._failures: dict[Key, int] = {}  # passes in a row that were refused

    async def create(
        self, job: Job, pods: Sequence[NewPod], is_admitted: Callable[[], bool]
    ) -> tuple[float | None, tuple[str, ...]]:
        """Make the pods of a completed job; when to go on if not all could be made, and what is in the way.

        What they need besides is made before them, and kept in step when there are none to make.  Once their
        group is no longer admitted the rest is left for when it is again.  Raises ``ApiError`` and
        ``Unreachable`` where trying again at once may help.
        """
        if not pods and self._resources.are_in_step(job):
            return None, ()
        key = job.metadata.key
        plugins, unknown = plugins_of(job)
        problems = [f"spec.plugins: {name} is not known here, and changes nothing" for name in unknown]
        refused = await self._refused(job, pods, plugins, is_admitted)
        if refused is None:
            self._failures.pop(key, None)
            return None, tuple(problems)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return self._clock.now() + PATIENCE.delay_s(failures), (*problems, refused)

    async def _refused(
        self, job: Job, pods: Sequence[NewPod], plugins: list[Plugin], is_admitted: Callable[[], bool]
    ) -> str | None:
        """Why not all could be made; None when nothing was refused."""
        bring = self._resources.ensure if pods else self._resources.follow
        try:
            await bring(job, plugins)
        except AlreadyOwned as taken:
            return str(taken)
        except ApiError as refusal:
            return object_error(refusal)
        for start in range(0, len(pods), AT_ONCE):
            if not is_admitted():
                return None
            some = pods[start : start + AT_ONCE]
            outcomes = await asyncio.gather(
                *(self._create(job, pod, plugins) for pod in some), return_exceptions=True
            )
            if (refused := _first(outcomes)) is not None:
                return refused
        return None

    async def _create(self, job: Job, pod: NewPod, plugins: Iterable[Plugin]) -> None:
        task = next(each for each in job.spec.tasks if each.name == pod.task)
        body = build_pod(job, task, pod.index, plugins)
        try:
            member: JobPod = await self._client.create(JOB_PODS, body, job.metadata.namespace)
        except AlreadyExists:
            # Made by an attempt whose answer was lost, unless it is of another job of the same name.
            key = Key(job.metadata.namespace, pod_name(job, task, pod.index))
            member = await self._client.get(JOB_PODS, key)
            owner = member.metadata.controller
            if owner is None or owner.uid != job.metadata.uid:
                whose = "nobody" if owner is None else f"{owner.kind} {owner.name}"
                raise AlreadyOwned("Pod", key, whose) from None
        else:
            record_pod_creation(self._record, job.metadata, member.metadata)
        self._pod_expectations.made(job, member)

    def forget(self, job: Key) -> None:
        self._failures.pop(job, None)

    def forget_resources(self, job: Uid) -> None:
        self._resources.forget(job)


def _first(outcomes: Iterable[BaseException | None]) -> str | None:
    """The first refusal of many, in words; whatever is no answer about the object itself is raised."""
    problems: list[str] = []
    for outcome in outcomes:
        if isinstance(outcome, AlreadyOwned):
            problems.append(str(outcome))
        elif isinstance(outcome, ApiError):
            problems.append(object_error(outcome))
        elif outcome is not None:
            raise outcome
    return problems[0] if problems else None


def object_error(refusal: ApiError) -> str:
    """What the server says about the object itself; a fault of its own is raised."""
    if isinstance(refusal, ServerError | TooManyRequests | Unauthorized):
        raise refusal
    return refusal.message or str(refusal)
