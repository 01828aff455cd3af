"""The base of the controllers: caches, a reconciler, events, and writes of a status.

Events are of core/v1, in the form of kube-controller-manager and kubelets, with repeat counts.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from quorate.api.events import ObjectReference
from quorate.api.meta import Key, Struct, at_epoch
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import NotFound, RequestFailed
from quorate.kube.informer import Informer
from quorate.kube.log import logger
from quorate.kube.patches import status_merge_patch
from quorate.kube.resources import HasMetadata, Resource, untyped, versioned_reference_to
from quorate.kube.writes import HasStatus
from quorate.local.controllers.metadata_cache import MetadataCache

CORE_EVENTS: Final = untyped("", "v1", "events", "Event", True)
EventType = Literal["Normal", "Warning"]
QUEUE_CAPACITY: Final = 1000
CORRELATOR_CAPACITY: Final = 1000


class ObjectEvent(NamedTuple):
    """The content of an event about an object, as a decision returns it."""

    reason: str
    message: str
    warning: bool = False


class EventRecorder:
    """``event`` never blocks or fails; an event that cannot be written is dropped."""

    def __init__(self, client: Client, clock: Clock, rng: random.Random, component: str) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng  # generates names
        self._component = component
        self._waiting: asyncio.Queue[tuple[ObjectReference, str, str, str]] = asyncio.Queue(QUEUE_CAPACITY)
        # Recently written events, the latest last: key of the Event object, and repeat count.
        self._recent: OrderedDict[tuple[str, str, str], tuple[Key, int]] = OrderedDict()
        self._log = logger(__name__).bind(component=component)

    def event(self, regarding: ObjectReference, type_: EventType, reason: str, message: str) -> None:
        try:
            self._waiting.put_nowait((regarding, type_, reason, message))
        except asyncio.QueueFull:
            self._log.warning("event dropped: the queue is full", reason=reason, regarding=regarding.name)

    def report(
        self, kind: Resource[Any], obj: HasMetadata, reason: str, message: str, warning: bool = False
    ) -> None:
        """Record an event about the present version of an object of ``kind``."""
        type_: EventType = "Warning" if warning else "Normal"
        self.event(versioned_reference_to(kind, obj.metadata), type_, reason, message)

    async def run(self) -> None:
        while True:
            regarding, type_, reason, message = await self._waiting.get()
            try:
                await self._write(regarding, type_, reason, message)
            except RequestFailed as error:
                self._log.warning(
                    "event dropped", reason=reason, regarding=regarding.name, problem=str(error)
                )

    async def _write(self, regarding: ObjectReference, type_: str, reason: str, message: str) -> None:
        identity = (regarding.uid, reason, message)
        if identity in self._recent and await self._increment_count(*identity):
            return
        name = f"{regarding.name}.{self._rng.getrandbits(64):016x}"
        moment = at_epoch(self._clock.now())
        body: dict[str, Any] = {
            "metadata": {"name": name, "namespace": regarding.namespace or "default"},
            "involvedObject": regarding,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
            "type": type_,
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        await self._client.create(CORE_EVENTS, body)
        self._remember(identity, Key(regarding.namespace or "default", name), 1)

    async def _increment_count(self, uid: str, reason: str, message: str) -> bool:
        """Increment the count of an existing event; return False if it no longer exists."""
        key, count = self._recent[uid, reason, message]
        patch = {"count": count + 1, "lastTimestamp": at_epoch(self._clock.now())}
        try:
            await self._client.patch(CORE_EVENTS, key, patch)
        except NotFound:
            return False
        self._remember((uid, reason, message), key, count + 1)
        return True

    def _remember(self, identity: tuple[str, str, str], key: Key, count: int) -> None:
        self._recent[identity] = (key, count)
        self._recent.move_to_end(identity)
        if len(self._recent) > CORRELATOR_CAPACITY:
            self._recent.popitem(last=False)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What every controller needs besides its caches."""

    client: Client
    clock: Clock
    rng: random.Random  # generates names of events


class Controller:
    """Reconciles keys once the caches are synced.  The caller runs the caches."""

    def __init__(
        self,
        name: str,
        context: ControllerContext,
        *caches: Informer[Any] | MetadataCache,
        workers: int = 4,
        component: str = "",
    ) -> None:
        """``component``: the source of its events; empty: ``name``."""
        self._client, self._clock = context.client, context.clock
        self._caches = caches
        self._events = EventRecorder(context.client, context.clock, context.rng, component or name)
        self._reconciler = Reconciler(name, self.reconcile, context.clock, workers)

    async def run(self) -> None:
        for cache in self._caches:
            await cache.synced.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            tasks.create_task(self._reconciler.run())

    async def reconcile(self, key: Key) -> float | None:
        raise NotImplementedError

    async def _write_status(
        self, kind: Resource[Any], obj: HasStatus, status: Struct, record: Callable[[Any], None] | None = None
    ) -> None:
        """Write ``status`` if it differs from the status of ``obj``, and ``record`` the written object."""
        patch = status_merge_patch(obj.metadata, obj.status, status)
        if patch:
            written = await self._client.patch(kind, obj.metadata.key, patch, subresource="status")
            if record is not None:
                record(written)
