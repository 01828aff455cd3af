"""Writes to Volcano queues: the built-in queues, and ``status.allocated`` of every queue.

Webhooks and Volcano's tools read ``status.allocated``, the resources of the pods in a queue, but no
controller waits for it.  It is therefore computed some time after a session, outside of it, and written
where the stored amounts differ: at most once per ``STATUS_DELAY_S`` and queue, and after binds.  A write
contains only the difference and no resource version, so that it does not conflict with what the
controllers write to the same status.  An amount that was computed from an old copy, or that another client
overwrites, is written again when the copy shows it.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from quorate.api.core import Resources
from quorate.api.meta import Key
from quorate.api.quantity import Quantity
from quorate.api.volcano import BUILT_IN_QUEUES, Queue
from quorate.gang.cache.model import Model
from quorate.gang.reports import allocated_by_queue
from quorate.kube.clock import Clock
from quorate.kube.controller.latest import LatestValueWriter
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import AlreadyExists, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import QUEUES
from quorate.quota.amount import as_quantity
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.limits import FEW_WORKERS, STATUS_DELAY_S

if TYPE_CHECKING:
    from quorate.kube.client import Client

_ALL: Final = Key("", "")


class BuiltInQueues:
    """Creates the built-in queues at the start, as Volcano's scheduler does, and whenever they are deleted.

    Run it once ``queues`` has synced.
    """

    def __init__(self, client: "Client", clock: Clock, queues: Informer[Queue]) -> None:
        self._client = client
        self._queues = queues
        self._reconciler = Reconciler("built-in queues", self._create, clock, workers=1)
        queues.subscribe(self._on_queue)

    async def run(self) -> None:
        for name in BUILT_IN_QUEUES:
            self._reconciler.enqueue(Key("", name))
        await self._reconciler.run()

    def _on_queue(self, change: Change[Queue]) -> None:
        if change.new is None and change.key.name in BUILT_IN_QUEUES:
            self._reconciler.enqueue(change.key)

    async def _create(self, key: Key) -> None:
        if self._queues.get(key) is not None:
            return
        try:
            await self._client.create(QUEUES, BUILT_IN_QUEUES[key.name])
        except AlreadyExists:
            return
        logger(__name__).info("queue created", queue=key.name)


class QueueStatusWriter:
    """Writes ``status.allocated``; run it once the informers that feed ``model`` have synced."""

    def __init__(
        self, client: "Client", clock: Clock, queues: Informer[Queue], model: Model, gate: BindGate
    ) -> None:
        self._client = client
        self._queues = queues
        self._model = model
        self._gate = gate
        self._allocated: Mapping[str, Resources] = {}  # by queue, as last computed
        self._is_stored = True  # False once the server drops the field: older definitions do not have it
        self._computation = Reconciler("allocated resources", self._compute, clock, workers=1)
        self._writer = LatestValueWriter("queue statuses", self._write, clock, workers=FEW_WORKERS)
        self._log = logger(__name__)
        queues.subscribe(self._on_queue)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._computation.run())
            tasks.create_task(self._writer.run())

    def session_ended(self) -> None:
        """Compute the allocated resources soon: a session may have changed them."""
        self._computation.enqueue_in(_ALL, STATUS_DELAY_S)

    def _on_queue(self, change: Change[Queue]) -> None:
        if change.new is not None and self._difference(change.new, self._allocated_to(change.key)):
            self._computation.enqueue_in(_ALL, STATUS_DELAY_S)

    async def _compute(self, _: Key) -> None:
        self._allocated = {
            queue: {resource: as_quantity(resource, amount) for resource, amount in held.items()}
            for queue, held in allocated_by_queue(self._model).items()
        }
        for queue in self._queues:
            key = queue.metadata.key
            allocated = self._allocated_to(key)
            if self._difference(queue, allocated):
                self._writer.put(key, allocated)

    def _allocated_to(self, key: Key) -> Resources:
        return self._allocated.get(key.name, {})

    async def _write(self, key: Key, allocated: Resources) -> None:
        await self._gate.wait()
        queue = self._queues.get(key)
        if queue is None or not (difference := self._difference(queue, allocated)):
            return
        patch = {"status": {"allocated": difference}}
        try:
            written = await self._client.patch(QUEUES, key, patch, subresource="status")
        except NotFound:
            return  # the queue was deleted
        if any(difference.values()) and not written.status.allocated:
            self._is_stored = False
            self._log.info("the definition of queues has no field status.allocated", queue=key.name)

    def _difference(self, queue: Queue, allocated: Resources) -> dict[str, Quantity | None]:
        """Return the merge patch from stored to computed amounts; empty if the field is not stored."""
        if not self._is_stored:
            return {}
        stored = queue.status.allocated
        removed = dict.fromkeys(resource for resource in stored if resource not in allocated)
        changed = {name: amount for name, amount in allocated.items() if stored.get(name) != amount}
        return removed | changed
