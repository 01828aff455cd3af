"""Writes of which only the latest value per key matters, such as statuses."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from quorate.api.meta import Key
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler

V = TypeVar("V")


class LatestValueWriter(Generic[V]):
    """Calls ``write`` with the latest value of each key; values that are replaced before are never written.

    A write that raises is retried, with the value that is the latest then.
    """

    def __init__(
        self, name: str, write: Callable[[Key, V], Awaitable[None]], clock: Clock, *, workers: int
    ) -> None:
        self._write = write
        self._pending: dict[Key, V] = {}  # put and not written yet
        self._reconciler = Reconciler(name, self._write_latest, clock, workers=workers)

    async def run(self) -> None:
        await self._reconciler.run()

    def put(self, key: Key, value: V, *, delay_s: float = 0.0) -> None:
        """Write ``value`` within ``delay_s``, instead of any value that is pending for ``key``."""
        self._pending[key] = value
        self.flush(key, within_s=delay_s)

    def flush(self, key: Key, *, within_s: float = 0.0) -> None:
        """Write the pending value of ``key``, if there is one, within ``within_s``."""
        if within_s > 0:
            self._reconciler.enqueue_in(key, within_s)
        else:
            self._reconciler.enqueue(key)

    async def _write_latest(self, key: Key) -> None:
        value = self._pending.pop(key, None)  # one that is put while this is written is written after it
        if value is None:
            return
        try:
            await self._write(key, value)
        except BaseException:
            self._pending.setdefault(key, value)
            raise
