"""Noting on a pod which node is promised to it, because others are evicted there for it.

Other schedulers keep away from what is promised, and the next session gives the pod that node first.
"""

from collections.abc import Iterable
from contextlib import suppress

from quorate.api.meta import Key
from quorate.gang.outcome import Nomination
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import PLACEABLE_PODS

WORKERS = 16


class Nominator:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._decided: dict[Key, Nomination] = {}  # the last one of each pod, until it is written
        self._reconciler = Reconciler("nominations", self._write, clock, workers=WORKERS)

    async def run(self) -> None:
        await self._reconciler.run()

    def note(self, nominations: Iterable[Nomination]) -> None:
        for nomination in nominations:
            self._decided[nomination.task] = nomination
            self._reconciler.enqueue(nomination.task)

    async def _write(self, key: Key) -> None:
        decided = self._decided.get(key)
        if decided is None:
            return
        patch = {"metadata": {"uid": decided.uid}, "status": {"nominatedNodeName": decided.node}}
        with suppress(NotFound, Conflict):  # gone, or another pod by the name
            await self._client.patch(PLACEABLE_PODS, key, patch, subresource="status")
        if self._decided.get(key) is decided:
            del self._decided[key]
