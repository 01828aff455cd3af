"""The base of the controllers: caches, a reconciler, and writes of a status."""

import asyncio
from collections.abc import Callable
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


class Controller:
    """Reconciles keys once the caches are synced.  The caller runs the caches."""

    def __init__(
        self,
        name: str,
        client: Client,
        clock: Clock,
        *caches: Informer[Any] | MetadataCache,
        workers: int = 4,
        events: EventRecorder | None = None,
    ) -> None:
        """``events``: a recorder that runs with the controller."""
        self._client = client
        self._clock = clock
        self._caches = caches
        self._recorder = events
        self._reconciler = Reconciler(name, self.reconcile, clock, workers)

    async def run(self) -> None:
        for cache in self._caches:
            await cache.synced.wait()
        async with asyncio.TaskGroup() as tasks:
            if self._recorder is not None:
                tasks.create_task(self._recorder.run())
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
