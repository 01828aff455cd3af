"""Telling the API which node each pod runs on, many at a time.

A bind whose answer is lost is asked for again: the pod refuses a second node, so only one of them counts.
One that is refused for good is undone in the model, and the next session finds another place for the task,
or gives up the whole gang (see ``gang.repair``).  Not at once: what a policy, a missing role or a namespace
on its way out refuses would be asked for at every session.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from quorate.api import codec
from quorate.gang.outcome import Bind
from quorate.kube.client import Client
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
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.observer import Bound

AGAIN: Final = Backoff(first_s=0.1, cap_s=10.0)
ECHO_S: Final = 2.0  # within which the watch tells what a conflict was about
REFUSED_S: Final = 5.0  # after which what was refused is asked for again
TOLD_MOST: Final = 5000  # events about binds that wait for the binds themselves to be through


@dataclass(frozen=True, slots=True)
class _Refused:
    undone_in_s: float  # when the task may be placed anew


class Binder:
    """``on_bound`` is called with each bind that came about, ``on_refusal`` with each that did not and is
    no longer on its way.

    ``prepare`` is asked before each bind to do what it takes, and whether it can be done.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        events: EventRecorder,
        on_bound: Callable[[Bound], None],
        on_refusal: Callable[[Bind], None],
        prepare: Callable[[Bind], Awaitable[bool]],
        precedence: BindGate,
        *,
        at_once: int,
    ) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._on_bound = on_bound
        self._on_refusal = on_refusal
        self._prepare = prepare
        self._precedence = precedence  # taken while binds wait
        self._waiting: deque[Bind] = deque()
        self._workers = at_once
        self._busy = 0  # at most _workers
        self._done: deque[Bind] = deque(maxlen=TOLD_MOST)  # not yet told of: telling competes with binding
        self._log = logger(__name__)

    def start(self, tasks: asyncio.TaskGroup, binds: Iterable[Bind]) -> None:
        self._waiting.extend(binds)
        begun = min(self._workers - self._busy, len(self._waiting))
        for _ in range(begun):
            self._busy += 1
            tasks.create_task(self._work(tasks), name="bind")
        if len(self._waiting) > begun:
            self._precedence.take()

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        """Bind one after the other until none waits."""
        try:
            while self._waiting:
                bind = self._waiting.popleft()
                if not self._waiting:
                    self._precedence.give_back()
                match await self._bind(bind):
                    case Bound() as bound:
                        self._done.append(bind)
                        self._on_bound(bound)
                    case _Refused(undone_in_s):
                        # Not here: the next bind need not wait for it.
                        tasks.create_task(self._undo(bind, undone_in_s), name="refused bind")
        finally:
            self._busy -= 1
        if not self._busy:
            self._tell()

    async def _undo(self, bind: Bind, in_s: float) -> None:
        steady = self._clock.steady
        await steady.sleep_until(steady.now() + in_s)
        self._on_refusal(bind)

    async def _bind(self, bind: Bind) -> Bound | _Refused:
        body = codec.encode(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": bind.task.name, "namespace": bind.task.namespace, "uid": bind.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
            }
        )
        path = PLACEABLE_PODS.path(bind.task.namespace, bind.task.name, "binding")
        steady = self._clock.steady
        failures = 0
        while True:
            began = steady.now()
            try:
                if not await self._prepare(bind):
                    return _Refused(0.0)
                prepared = steady.now()
                await self._client.request("POST", path, body=body)
            except Conflict as refusal:
                # Bound already, by a request whose answer was lost or by another scheduler, or another pod
                # by now: the watch is about to say which.
                self._log.info("bind refused", pod=bind.task, node=bind.node, problem=str(refusal))
                return _Refused(ECHO_S)
            except (ServerError, TooManyRequests, Unreachable, Unreadable) as failure:
                failures += 1
                again_in_s = AGAIN.jittered_s(failures, self._client.rng)
                self._log.warning(
                    "bind not answered", pod=bind.task, problem=str(failure), again_in_s=again_in_s
                )
                await steady.sleep_until(steady.now() + again_in_s)
            except NotFound:
                return _Refused(0.0)
            except ApiError as refusal:
                self._log.warning("bind refused", pod=bind.task, node=bind.node, problem=str(refusal))
                return _Refused(REFUSED_S)
            else:
                return Bound(bind, prepared_s=prepared - began, asked_s=steady.now() - prepared)

    def _tell(self) -> None:
        for bind in self._done:
            about = reference(PLACEABLE_PODS, bind.task, bind.uid)
            text = f"Successfully assigned {bind.task} to {bind.node}"
            self._events.event(about, "Normal", "Scheduled", text, action="Binding")
        self._done.clear()
