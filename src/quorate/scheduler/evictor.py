"""Having pods give way to a gang: each is told so in its status, then deleted.

As kube-scheduler does when it preempts, disruption budgets are not asked: the core has already decided who
loses least.  Source: the API's pod disruption conditions (DisruptionTarget, reason PreemptionByScheduler).
"""

import asyncio
from collections.abc import Callable
from typing import Final

from quorate.api.meta import at_epoch
from quorate.gang.outcome import Eviction
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.errors import (
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
    Unreadable,
)
from quorate.kube.events import EventRecorder
from quorate.kube.flowcontrol import Backoff
from quorate.kube.log import logger
from quorate.kube.resources import PLACEABLE_PODS, reference

AGAIN: Final = Backoff(first_s=0.1, cap_s=10.0)
REFUSED_S: Final = 5.0  # after which what was refused is asked for again


class Evictor:
    """``on_refusal`` is called with each whose task stays because its deletion was refused: after a while, as
    sessions would ask for it again without end.
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
        text = user_message(eviction)
        failures = 0
        steady = self._clock.steady
        while True:
            try:
                await self._mark(eviction, text)
                await self._client.delete(PLACEABLE_PODS, eviction.task, uid=eviction.uid)
            except (NotFound, Conflict):
                return  # gone already, or another pod by the name
            except (ServerError, TooManyRequests, Unreachable, Unreadable) as failure:
                failures += 1
                again_in_s = AGAIN.jittered_s(failures, self._client.rng)
                self._log.warning("eviction not answered", pod=eviction.task, problem=str(failure))
                await steady.sleep_until(steady.now() + again_in_s)
            except ApiError as refusal:
                self._log.warning("eviction refused", pod=eviction.task, problem=str(refusal))
                await steady.sleep_until(steady.now() + REFUSED_S)
                self._on_refusal(eviction)
                return
            else:
                break
        self._log.info("evicted", pod=eviction.task, by=eviction.action, for_gang=eviction.beneficiary)
        about = reference(PLACEABLE_PODS, eviction.task, eviction.uid)
        self._events.event(about, "Normal", "Evict", text, action="Preempting")

    async def _mark(self, eviction: Eviction, text: str) -> None:
        """Say in the pod's status why it is about to go.

        A strategic merge patch: its conditions are merged by type, so those of others stay.
        """
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": text,
            "lastTransitionTime": at_epoch(self._clock.now()).isoformat().replace("+00:00", "Z"),
        }
        patch = {"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}}
        await self._client.patch(
            PLACEABLE_PODS, eviction.task, patch, subresource="status", kind=PatchKind.STRATEGIC
        )


def user_message(eviction: Eviction) -> str:
    whole = " with all of its pod group" if eviction.whole else ""
    return f"evicted{whole} so that pod group {eviction.beneficiary} can be placed ({eviction.action})"
