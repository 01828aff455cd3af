"""Flavors: one that a cluster queue refers to is not let go."""

from quorate.api.kueue import ClusterQueue, ResourceFlavor
from quorate.api.meta import Key
from quorate.controllers.finalizers import held, released
from quorate.controllers.shell import Shell
from quorate.controllers.writes import send
from quorate.kube.informer import Change
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import RESOURCE_FLAVORS

_USED = "uses flavor"


def flavors_of(queue: ClusterQueue) -> frozenset[str]:
    return frozenset(quotas.name for group in queue.spec.resource_groups for quotas in group.flavors)


class FlavorController:
    def __init__(self, shell: Shell) -> None:
        self._client = shell.client
        self._informers = informers = shell.informers
        self.reconciler = Reconciler("flavors", self.reconcile, shell.clock)
        informers.cluster_queues.add_index(_USED, flavors_of)
        informers.flavors.subscribe(self._flavor_changed)
        informers.cluster_queues.subscribe(self._queue_changed)

    def _flavor_changed(self, change: Change[ResourceFlavor]) -> None:
        if change.new is not None:
            self.reconciler.enqueue(change.new.metadata.key)

    def _queue_changed(self, change: Change[ClusterQueue]) -> None:
        before = frozenset() if change.old is None else flavors_of(change.old)
        after = frozenset() if change.new is None else flavors_of(change.new)
        for name in sorted(before - after):
            self.reconciler.enqueue(Key("", name))

    async def reconcile(self, key: Key) -> None:
        flavor = self._informers.flavors.get(key)
        if flavor is None:
            return
        if flavor.metadata.deletion_timestamp is None:
            await send(self._client, held(RESOURCE_FLAVORS, flavor.metadata))
        elif not self._informers.cluster_queues.by_index(_USED, key.name):
            await send(self._client, released(RESOURCE_FLAVORS, flavor.metadata))
