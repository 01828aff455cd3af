"""Writes of preemption: evictions of pods, and nominations of the pods that get their resources.

As in kube-scheduler and Volcano, an evicted pod is deleted: the core has already chosen the victims that
cost least, with the plugin pdb within their PodDisruptionBudgets.  It has the condition DisruptionTarget with
the reason PreemptionByScheduler (Kubernetes documentation, "Pod disruption conditions").
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from quorate.api.meta import Key, at_epoch
from quorate.gang.outcome import Eviction, Nomination
from quorate.kube import errors
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.controller.latest import LatestValueWriter
from quorate.kube.events import EventRecorder
from quorate.kube.flowcontrol import Backoff
from quorate.kube.log import logger
from quorate.kube.resources import PLACEABLE_PODS, reference
from quorate.scheduler.limits import NOMINATION_WORKERS, REFUSED_S

RETRY: Final = Backoff(first_s=0.1, cap_s=10.0)


class Evictor:
    """Evicts pods; ``on_refusal`` is called for each refused deletion.

    The call is delayed, because sessions would choose the same eviction again immediately.
    """

    def __init__(
        self, client: Client, clock: Clock, events: EventRecorder, on_refusal: Callable[[Eviction], None]
    ) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._on_refusal = on_refusal
        self._log = logger(__name__)

    def start(self, tasks: asyncio.TaskGroup, eviction: Eviction) -> None:
        tasks.create_task(self._evict(eviction), name=f"evict {eviction.task}")

    async def _evict(self, eviction: Eviction) -> None:
        message = message_of(eviction)
        failures = 0
        steady = self._clock.steady
        while True:
            try:
                await self._write_condition(eviction, message)
                await self._client.delete(PLACEABLE_PODS, eviction.task, uid=eviction.uid)
            except (errors.NotFound, errors.Conflict):
                return  # already deleted, or another pod with the same name
            except errors.PASSING as failure:
                failures += 1
                retry_in_s = RETRY.jittered_s(failures, self._client.rng)
                self._log.warning("eviction failed", pod=eviction.task, problem=str(failure))
                await steady.sleep_until(steady.now() + retry_in_s)
            except errors.ApiError as refusal:
                self._log.warning("eviction refused", pod=eviction.task, problem=str(refusal))
                await steady.sleep_until(steady.now() + REFUSED_S)
                self._on_refusal(eviction)
                return
            else:
                break
        self._log.info("evicted", pod=eviction.task, action=eviction.action, beneficiary=eviction.beneficiary)
        regarding = reference(PLACEABLE_PODS, eviction.task, eviction.uid)
        self._events.event(regarding, "Normal", "Evict", message, action="Preempting")

    async def _write_condition(self, eviction: Eviction, message: str) -> None:
        """Write why the pod is deleted; a strategic merge patch keeps conditions of other types."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": message,
            "lastTransitionTime": at_epoch(self._clock.now()).isoformat().replace("+00:00", "Z"),
        }
        patch = {"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}}
        await self._client.patch(
            PLACEABLE_PODS, eviction.task, patch, subresource="status", kind=PatchKind.STRATEGIC
        )


def message_of(eviction: Eviction) -> str:
    whole = " with all of its pod group" if eviction.whole else ""
    return f"evicted{whole} so that pod group {eviction.beneficiary} can be placed ({eviction.action})"


class Nominator:
    """Writes ``nominatedNodeName`` of pods for which other pods are evicted.

    Other schedulers reserve the node for a nominated pod, and the next session tries that node first.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._writer = LatestValueWriter("nominations", self._write, clock, workers=NOMINATION_WORKERS)

    async def run(self) -> None:
        await self._writer.run()

    def write(self, nominations: Iterable[Nomination]) -> None:
        for nomination in nominations:
            self._writer.put(nomination.task, nomination)

    async def _write(self, key: Key, nomination: Nomination) -> None:
        patch = {"metadata": {"uid": nomination.uid}, "status": {"nominatedNodeName": nomination.node}}
        with suppress(errors.NotFound, errors.Conflict):  # deleted, or another pod with the same name
            await self._client.patch(PLACEABLE_PODS, key, patch, subresource="status")
