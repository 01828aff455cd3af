"""Controllers that start with the first object of their kinds, because most clusters have none."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from quorate.kube.resources import Resource
from quorate.local.controllers.metadata_cache import CachedObject, MetadataCache


class Part(Protocol):
    """An informer or a controller."""

    async def run(self) -> None: ...


class OnDemand:
    def __init__(
        self,
        metadata_cache: MetadataCache,
        kinds: Sequence[Resource[Any]],
        parts: Callable[[], Sequence[Part]],
    ) -> None:
        """``parts`` makes the informers and the controller of the kinds."""
        self._resources = {(kind.group, kind.plural) for kind in kinds}
        self._parts = parts
        self._wanted = asyncio.Event()
        metadata_cache.subscribe(self._on_change)

    def _on_change(self, old: CachedObject | None, new: CachedObject | None) -> None:
        if new is not None and (new.resource.group, new.resource.plural) in self._resources:
            self._wanted.set()

    async def run(self) -> None:
        await self._wanted.wait()
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts():
                tasks.create_task(part.run())
