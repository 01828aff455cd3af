"""Feeds of claims, volumes and what limits them, for pods that are checked against nodes.

They are read from the moment that a workload has pods with a claim.  Until all are listed, no node takes such
pods.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from quorate.api.kueue import Workload
from quorate.controllers.informers import synced
from quorate.kube.feed import Feed, cluster_feed
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import CSI_NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from quorate.queueing.nodes.pod_templates import has_claims
from quorate.queueing.state import State

if TYPE_CHECKING:
    from quorate.kube.client import Client

T = TypeVar("T")


class VolumeFeeds:
    """Feeds the volumes of a cluster to ``state`` once a workload needs them."""

    def __init__(
        self,
        client: "Client",
        workloads: Informer[Workload],
        state: State,
        note: Callable[[Collection[str]], object],
    ) -> None:
        self._state = state
        self._needed = asyncio.Event()
        self._informers: list[Informer[Any]] = []
        for feed in volume_feeds(state, note):
            informer = Informer(client, feed.resource)
            feed.subscribe(informer)
            self._informers.append(informer)
        state.nodes.set_has_volumes(False)
        workloads.subscribe(self._workload_changed)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.old is None and change.new is not None and not self._needed.is_set():
            pod_sets = change.new.spec.pod_sets
            if any(has_claims(pod_set.template) for pod_set in pod_sets):
                self._needed.set()

    async def run(self, synchronized: Callable[[], object]) -> None:
        """Wait until a workload has claims, then keep ``state`` up to date until cancelled."""
        await self._needed.wait()
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural} for places")
            await synced(*self._informers)
            self._state.nodes.set_has_volumes(True)
            synchronized()


def volume_feeds(state: State, note: Callable[[Collection[str]], object]) -> tuple[Feed[Any], ...]:
    """Return the feeds; ``note`` is called with the flavors with nodes that may take more pods."""
    constraints = state.nodes.constraints
    storage = constraints.storage

    def noting(put: Callable[[T], object]) -> Callable[[T], None]:
        def put_and_note(obj: T) -> None:
            put(obj)
            note(state.nodes.placing)

        return put_and_note

    return (
        cluster_feed(STORAGE_CLASSES, noting(storage.set_class), storage.remove_class),
        cluster_feed(CSI_NODES, noting(constraints.put_drivers), constraints.remove_drivers),
        cluster_feed(PERSISTENT_VOLUMES, noting(storage.set_volume), storage.remove_volume),
        Feed(PERSISTENT_VOLUME_CLAIMS, noting(constraints.put_claim), constraints.remove_claim),
    )
