"""Telling what the pods of each queue hold: ``status.allocated``, which webhooks and Volcano's tools look at.

Nobody acts on it in a hurry.  So it is looked at some time after a session, not in it, and written where what
is stored is another amount: at most once in that time for each queue, and after binds.  A write says only
what differs and names no version: what the controllers write of the same status meanwhile is no conflict.
What was decided on an old copy, or is overwritten by others, is written again when the copy shows it.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from quorate.api.core import Resources
from quorate.api.meta import Key
from quorate.api.quantity import Quantity
from quorate.api.volcano import Queue
from quorate.gang.model import Model
from quorate.gang.queue_report import held_in_queues
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import QUEUES
from quorate.quota.amount import as_quantity
from quorate.scheduler.bind_gate import BindGate

WORKERS: Final = 4  # few: binds go before
WRITE_DELAY_S: Final = 1.0
_ALL: Final = Key("", "")


class QueueStatusWriter:
    """To be run once the informers that feed ``model`` have synced."""

    def __init__(
        self, client: Client, clock: Clock, queues: Informer[Queue], model: Model, precedence: BindGate
    ) -> None:
        self._client = client
        self._queues = queues
        self._model = model
        self._precedence = precedence
        self._held: Mapping[str, Resources] = {}  # of each queue, when that was looked at last
        self._is_kept = True  # until it turns out not to be: older definitions of queues have no such field
        self._looks = Reconciler("what queues hold", self._look, clock, workers=1)
        self._writes = Reconciler("queue statuses", self._write, clock, workers=WORKERS)
        self._log = logger(__name__)
        queues.subscribe(self._on_queue)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._looks.run())
            tasks.create_task(self._writes.run())

    def session_ended(self) -> None:
        """What queues hold may have changed."""
        self._looks.enqueue_in(_ALL, WRITE_DELAY_S)

    def _on_queue(self, change: Change[Queue]) -> None:
        if change.new is not None and self._difference(change.new):
            self._looks.enqueue_in(_ALL, WRITE_DELAY_S)

    async def _look(self, _: Key) -> None:
        self._held = {
            queue: {resource: as_quantity(resource, amount) for resource, amount in held.items()}
            for queue, held in held_in_queues(self._model).items()
        }
        for queue in self._queues:
            if self._difference(queue):
                self._writes.enqueue(queue.metadata.key)

    async def _write(self, key: Key) -> None:
        await self._precedence.wait()
        queue = self._queues.get(key)
        if queue is None or not (difference := self._difference(queue)):
            return
        patch = {"status": {"allocated": difference}}
        try:
            written = await self._client.patch(QUEUES, key, patch, subresource="status")
        except NotFound:
            return  # what it held has gone with it
        if any(difference.values()) and not written.status.allocated:
            self._is_kept = False
            self._log.info("the definition of queues has no place for what they hold", queue=key.name)

    def _difference(self, queue: Queue) -> dict[str, Quantity | None]:
        """The merge patch that makes what is stored say what the queue holds, where it can say so."""
        if not self._is_kept:
            return {}
        stored, held = queue.status.allocated, self._held.get(queue.metadata.name, {})
        gone = dict.fromkeys(resource for resource in stored if resource not in held)
        return gone | {
            resource: amount for resource, amount in held.items() if stored.get(resource) != amount
        }
