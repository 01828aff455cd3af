"""The base of the controllers: caches, a reconciler, and writes of a status."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.informer import Informer
from quorate.kube.patches import status_merge_patch
from quorate.kube.resources import Resource
from quorate.local.controllers.core_events import EventRecorder
from quorate.local.controllers.metadata_cache import MetadataCache


class HasStatus(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def status(self) -> Struct: ...


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
