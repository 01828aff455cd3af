"""Binding of pods to nodes, many concurrently.

A bind is sent again when its response is lost: the pod refuses a second node, so only one of them takes
effect.  A bind that is refused for good is undone in the model, and the next session finds another node for
the task or gives up the whole gang (see ``gang.actions.repair``).  The undo is delayed, because a bind that a
policy, a missing role or a terminating namespace refuses would otherwise be sent again by every session.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from quorate.api import codec
from quorate.api.meta import Key
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import native_name
from quorate.gang.outcome import Bind
from quorate.kube import errors
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.events import EventRecorder
from quorate.kube.flowcontrol import Backoff, until_answered
from quorate.kube.log import logger
from quorate.kube.object_faults import fault_of
from quorate.kube.resources import PLACEABLE_PODS, POD_GROUPS, Resource, reference
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.limits import CONFLICT_S, MAX_EVENTS, REFUSED_S
from quorate.scheduler.observer import Bound

RETRY: Final = Backoff(first_s=0.1, cap_s=10.0)


@dataclass(frozen=True, slots=True)
class _Refused:
    undo_in_s: float  # until the task may be placed again


class Binder:
    """Calls ``on_bound`` for each successful bind, and ``on_refusal`` for each bind that is refused for good.

    ``pre_bind`` is called before each attempt; it returns False if the pod cannot be bound.  After a refusal
    ``release`` gives back what ``pre_bind`` took.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        events: EventRecorder,
        on_bound: Callable[[Bound], None],
        on_refusal: Callable[[Bind], None],
        pre_bind: Callable[[Bind], Awaitable[bool]],
        release: Callable[[Bind], Awaitable[None]],
        gate: BindGate,
        *,
        workers: int,
    ) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._on_bound = on_bound
        self._on_refusal = on_refusal
        self._pre_bind = pre_bind
        self._release = release
        self._gate = gate  # closed while binds are queued
        self._queue: deque[Bind] = deque()
        self._workers = workers
        self._busy = 0  # at most _workers
        self._unreported: deque[Bind] = deque(maxlen=MAX_EVENTS)  # events compete with binds for the server
        self._log = logger(__name__)

    def start(self, tasks: asyncio.TaskGroup, binds: Iterable[Bind]) -> None:
        self._queue.extend(binds)
        started = min(self._workers - self._busy, len(self._queue))
        for _ in range(started):
            self._busy += 1
            tasks.create_task(self._work(tasks), name="bind")
        if len(self._queue) > started:
            self._gate.close()

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        """Bind until the queue is empty."""
        try:
            while self._queue:
                bind = self._queue.popleft()
                if not self._queue:
                    self._gate.open()
                match await self._try_to_bind(bind):
                    case Bound() as bound:
                        self._unreported.append(bind)
                        self._on_bound(bound)
                    case _Refused(undo_in_s):
                        # In a task of its own: the next bind must not wait for the delay.
                        tasks.create_task(self._undo(bind, undo_in_s), name="refused bind")
        finally:
            self._busy -= 1
        if not self._busy:
            self._record_events()

    async def _undo(self, bind: Bind, in_s: float) -> None:
        steady = self._clock.steady
        await steady.sleep_until(steady.now() + in_s)
        await self._release(bind)
        self._on_refusal(bind)

    async def _try_to_bind(self, bind: Bind) -> Bound | _Refused:
        try:
            return await self._bind(bind)
        except Exception as error:  # of a bug: it must not end all other binds
            self._client.faults.report(fault_of(PLACEABLE_PODS, "decide", bind.task, None, error))
            return _Refused(REFUSED_S)

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
                if not await self._pre_bind(bind):
                    return _Refused(0.0)
                ready = steady.now()
                await self._client.request("POST", path, body=body)
            except errors.Conflict as refusal:
                # Already bound, by an attempt with a lost response or by another scheduler, or replaced
                # by another pod: the watch will deliver which.
                self._log.info("bind refused", pod=bind.task, node=bind.node, problem=str(refusal))
                return _Refused(CONFLICT_S)
            except errors.PASSING as failure:
                failures += 1
                retry_in_s = RETRY.jittered_s(failures, self._client.rng)
                self._log.warning("bind failed", pod=bind.task, problem=str(failure), retry_in_s=retry_in_s)
                await steady.sleep_until(steady.now() + retry_in_s)
            except errors.NotFound:
                return _Refused(0.0)
            except errors.ApiError as refusal:
                self._log.warning("bind refused", pod=bind.task, node=bind.node, problem=str(refusal))
                return _Refused(REFUSED_S)
            else:
                return Bound(bind, pre_bind_s=ready - began, bind_s=steady.now() - ready)

    def _record_events(self) -> None:
        for bind in self._unreported:
            regarding = reference(PLACEABLE_PODS, bind.task, bind.uid)
            message = f"Successfully assigned {bind.task} to {bind.node}"
            self._events.event(regarding, "Normal", "Scheduled", message, action="Binding")
        self._unreported.clear()


class FurtherMembers:
    """Binds further members of running gangs only under the requirements that their pod group has now.

    An operator that enlarges a gang changes the pod group, then creates pods.  The watch of pods may be ahead
    of that of pod groups: a session that knows the pods and the former ``minMember`` would bind a part of
    them.  A gang that has not started needs no such read: its pods are created after its admission.
    ``on_refusal`` is called for each bind that another spec may forbid.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        model: Model,
        native: Callable[[], Resource[NativePodGroup]],
        binder: Binder,
        on_refusal: Callable[[Bind], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._model = model
        self._native = native
        self._binder = binder
        self._on_refusal = on_refusal
        self._log = logger(__name__)

    def start(self, tasks: asyncio.TaskGroup, binds: Iterable[Bind]) -> None:
        at_once: list[Bind] = []
        further: dict[Key, list[Bind]] = {}
        for bind in binds:
            gang = self._model.gangs.get(bind.gang)
            if gang is None or not gang.task_counts.scheduled:
                at_once.append(bind)
            else:
                further.setdefault(gang.key, []).append(bind)
        self._binder.start(tasks, at_once)
        for key, of_gang in further.items():
            gang = self._model.gangs[key]
            decided = gang.spec if gang.native is None else gang.native
            tasks.create_task(self._bind(tasks, key, decided, of_gang), name="further members")

    async def _bind(self, tasks: asyncio.TaskGroup, gang: Key, decided: object, binds: list[Bind]) -> None:
        stored = await until_answered(partial(self._read, gang), self._clock, self._client.rng)
        if stored == decided:
            self._binder.start(tasks, binds)
            return
        self._log.info("pod group changed before further members were bound", key=gang, binds=len(binds))
        steady = self._clock.steady
        await steady.sleep_until(steady.now() + CONFLICT_S)
        for bind in binds:
            self._on_refusal(bind)

    async def _read(self, gang: Key) -> object:
        """Return the spec of the pod group as the API server has it; None if it does not exist."""
        native = native_name(gang)
        if native is not None:
            native_group = await self._client.find(self._native(), native)
            return None if native_group is None else native_group.spec
        group = await self._client.find(POD_GROUPS, gang)
        return None if group is None else group.spec
