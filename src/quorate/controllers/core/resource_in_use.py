"""Finalizers of flavors and admission checks of cluster queues, and of topologies of flavors."""

from collections.abc import Callable
from typing import Any, Generic

from quorate.api.kueue import ClusterQueue, ResourceFlavor
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext
from quorate.controllers.finalizers import add_finalizer, remove_finalizer
from quorate.controllers.limits import FEW_WORKERS
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import T, metadata_of
from quorate.kube.writes import send


def flavors_of(queue: ClusterQueue) -> frozenset[str]:
    return frozenset(quotas.name for group in queue.spec.resource_groups for quotas in group.flavors)


def checks_of(queue: ClusterQueue) -> frozenset[str]:
    return frozenset(rule.name for rule in queue.spec.admission_checks_strategy.admission_checks)


def topologies_of(flavor: ResourceFlavor) -> frozenset[str]:
    return frozenset(filter(None, (flavor.spec.topology_name,)))


class ResourceInUseController(Generic[T]):
    """Adds our finalizer to objects of one kind, and removes it once no object of another kind names them.

    As in Kueue, the finalizer of an object that only changes is not added again: an administrator may remove
    it before a deletion.
    """

    def __init__(
        self,
        context: ControllerContext,
        objects: Informer[T],
        users: Informer[Any],
        names_in: Callable[[Any], frozenset[str]],
    ) -> None:
        self._client = context.client
        self._objects = objects
        self._names_in = names_in
        self._users = users
        self._index = f"names {objects.resource.plural}"
        self.reconciler = context.reconciler(objects.resource.plural, self.reconcile, objects, FEW_WORKERS)
        self._users.add_index(self._index, names_in)
        objects.subscribe(self._object_changed)
        self._users.subscribe(self._user_changed)

    def _object_changed(self, change: Change[T]) -> None:
        if change.new is None:
            return
        if change.old is None or metadata_of(change.new).deletion_timestamp is not None:
            self.reconciler.enqueue(change.key)

    def _user_changed(self, change: Change[Any]) -> None:
        before = frozenset() if change.old is None else self._names_in(change.old)
        after = frozenset() if change.new is None else self._names_in(change.new)
        for name in sorted(before - after):
            self.reconciler.enqueue(Key("", name))

    async def reconcile(self, key: Key) -> None:
        obj = self._objects.get(key)
        if obj is None:
            return
        metadata = metadata_of(obj)
        if metadata.deletion_timestamp is None:
            await send(self._client, add_finalizer(self._objects.resource, metadata))
        elif not self._users.by_index(self._index, key.name):
            await send(self._client, remove_finalizer(self._objects.resource, metadata))
