"""The queues that are always there: ``root``, above all others, and ``default``, for who names none.

Made by the scheduler, as Volcano's does at its start; and again when somebody deletes them.
"""

from collections.abc import Mapping
from typing import Final

from quorate.api.meta import Key, ObjectMeta
from quorate.api.volcano import DEFAULT_QUEUE, ROOT_QUEUE, Queue, QueueSpec
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import QUEUES

BUILT_IN: Final[Mapping[str, QueueSpec]] = {
    ROOT_QUEUE: QueueSpec(reclaimable=False),
    DEFAULT_QUEUE: QueueSpec(parent=ROOT_QUEUE),
}


class BuiltInQueues:
    """To be run once ``queues`` has synced."""

    def __init__(self, client: Client, clock: Clock, queues: Informer[Queue]) -> None:
        self._client = client
        self._queues = queues
        self._reconciler = Reconciler("built-in queues", self._make, clock, workers=1)
        queues.subscribe(self._on_change)

    async def run(self) -> None:
        for name in BUILT_IN:
            self._reconciler.enqueue(Key("", name))
        await self._reconciler.run()

    def _on_change(self, change: Change[Queue]) -> None:
        if change.new is None and change.key.name in BUILT_IN:
            self._reconciler.enqueue(change.key)

    async def _make(self, key: Key) -> None:
        if self._queues.get(key) is not None:
            return
        queue = Queue(metadata=ObjectMeta(name=key.name), spec=BUILT_IN[key.name])
        try:
            await self._client.create(QUEUES, queue)
        except AlreadyExists:
            return
        logger(__name__).info("queue made", queue=key.name)
