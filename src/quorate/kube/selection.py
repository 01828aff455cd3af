"""A part of the objects of an informer, which several controllers share, as an informer of its own.

A server that sends each change of a pod to one watch instead of one for each controller, and a process that
decodes it once, have a fraction of the work.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic

from quorate.api.meta import Key
from quorate.kube.informer import Change, Informer
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import Resource, T

_SELECTED: Final = "selected"  # index of the objects of a small selection


class Selection(Generic[T]):
    """The objects of ``informer`` that ``selects`` accepts; ``name`` distinguishes its indexes from others.

    ``is_small``: most objects of the informer are not selected.  They are not read when a controller
    subscribes later.
    """

    def __init__(
        self, name: str, informer: Informer[T], selects: Callable[[T], bool], *, is_small: bool = False
    ) -> None:
        self.informer = informer
        self._name = name
        self.selects = selects
        self._is_small = False
        if is_small:
            self.add_index(_SELECTED, lambda _: (True,))
            self._is_small = True

    async def run(self) -> None:
        """Keep the informer up to date until cancelled, unless another selection does."""
        if self.informer.is_running:
            await asyncio.Event().wait()
        await self.informer.run()

    @property
    def resource(self) -> Resource[T]:
        return self.informer.resource

    @property
    def synced(self) -> asyncio.Event:
        return self.informer.synced

    def get(self, key: Key) -> T | None:
        return self._selected(self.informer.get(key))

    def _selected(self, obj: T | None) -> T | None:
        return obj if obj is not None and self.selects(obj) else None

    def add_index(self, name: str, values_of: Callable[[T], Iterable[Hashable]]) -> None:
        """Index the selected objects; see ``Informer.add_index``."""
        selects = self.selects
        self.informer.add_index(
            self._index(name), lambda obj: values_of(obj) if selects(obj) else (), self._known
        )

    def by_index(self, name: str, value: Hashable) -> list[T]:
        """Return the selected objects with that value in key order."""
        return self.informer.by_index(self._index(name), value)

    def _index(self, name: str) -> str:
        return f"{self._name}: {name}"

    @property
    def _known(self) -> list[T] | None:
        """Return the selected objects in key order; None if they cannot be told from other objects."""
        return self.by_index(_SELECTED, True) if self._is_small else None

    def subscribe(
        self,
        on_change: Callable[[Change[T]], None],
        on_unusable: Callable[[Key, ObjectFault | None], None] | None = None,
    ) -> None:
        """Pass on the changes of selected objects; see ``Informer.subscribe``."""
        self.informer.subscribe(self._passing_on(on_change), on_unusable, self._known)

    async def subscribe_in_slices(
        self,
        on_change: Callable[[Change[T]], None],
        on_unusable: Callable[[Key, ObjectFault | None], None] | None = None,
    ) -> None:
        """Subscribe as ``Informer.subscribe_in_slices`` does."""
        await self.informer.subscribe_in_slices(self._passing_on(on_change), on_unusable)

    def _passing_on(self, on_change: Callable[[Change[T]], None]) -> Callable[[Change[T]], None]:
        """Return a subscriber to which an object that is not selected is absent."""

        def pass_on(change: Change[T]) -> None:
            old, new = self._selected(change.old), self._selected(change.new)
            if old is not None or new is not None:
                is_same = old is change.old and new is change.new
                on_change(change if is_same else Change(old, new))

        return pass_on

    def reconcile_failed(self, key: Key, error: Exception) -> None:
        self.informer.reconcile_failed(key, error)


Watched = Informer[Any] | Selection[Any]
