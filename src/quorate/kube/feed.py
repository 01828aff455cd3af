"""Feeds: which model call each change of an object of one kind makes, written down once per model.

A process that keeps its model up to date subscribes its feeds to informers; a command that needs the model
once loads it from lists.  Both see the same model, because both read the same table of feeds.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from quorate.api.meta import Key
from quorate.kube.informer import Change, Informer
from quorate.kube.object_faults import ObjectFault, fault_of
from quorate.kube.resources import Resource, T, metadata_of
from quorate.kube.selection import Selection

if TYPE_CHECKING:
    from quorate.kube.client import Client


def _always(old: object, new: object) -> bool:
    return True


def differ_in(read: Callable[[T], object]) -> Callable[[T, T], bool]:
    """Return a predicate that is True if ``read`` returns different values for two versions of an object."""
    return lambda old, new: read(old) != read(new)


def _ignore() -> None:
    """Do nothing: no decision waits for the model."""


def _forget(key: Key, fault: ObjectFault | None) -> None:
    """Keep nothing of an object that cannot be used."""


@dataclass(frozen=True, slots=True)
class Feed(Generic[T]):
    """How one kind feeds a model.

    The two predicates compare an object before and after an update.  ``is_relevant``: whether the model
    reads anything that differs, otherwise the update is dropped.  ``is_decisive``: whether a decision could
    differ, otherwise the model is updated without a notification.
    """

    resource: Resource[T]
    put: Callable[[T], object]
    remove: Callable[[Key], object]
    is_relevant: Callable[[T, T], bool] = _always
    is_decisive: Callable[[T, T], bool] = _always
    # Keeps what matters of an object that cannot be decoded or that ``put`` cannot use, after its removal;
    # with None once it can be used, or is deleted.
    set_aside: Callable[[Key, ObjectFault | None], object] = _forget

    def subscribe(
        self, informer: Informer[T] | Selection[T], changed: Callable[[], object] = _ignore
    ) -> None:
        """Pass every relevant change to the model and call ``changed`` after the decisive ones."""
        informer.subscribe(*self._callbacks(changed))

    async def subscribe_in_slices(self, selection: Selection[T]) -> None:
        """Pass every relevant change to the model; see ``Informer.subscribe_in_slices``."""
        await selection.subscribe_in_slices(*self._callbacks(_ignore))

    def _callbacks(
        self, changed: Callable[[], object]
    ) -> tuple[Callable[[Change[T]], None], Callable[[Key, ObjectFault | None], None]]:
        def on_change(change: Change[T]) -> None:
            old, new = change.old, change.new
            if new is None:
                self.remove(change.key)
                changed()
            elif old is None or self.is_relevant(old, new):
                self.put(new)
                if old is None or self.is_decisive(old, new):
                    changed()

        def on_unusable(key: Key, fault: ObjectFault | None) -> None:
            self.set_aside(key, fault)
            changed()

        return on_change, on_unusable


def cluster_feed(
    resource: Resource[T],
    put: Callable[[T], object],
    remove: Callable[[str], object],
    is_relevant: Callable[[T, T], bool] = _always,
) -> Feed[T]:
    """Return the feed of a cluster-scoped kind; the model removes its objects by name."""
    return Feed(resource, put, lambda key: remove(key.name), is_relevant)


async def load(client: "Client", feeds: Iterable[Feed[Any]]) -> None:
    """List all kinds concurrently, then put every object into its model, kind by kind in the given order.

    An object that cannot be used is reported to ``client`` and set aside, as an informer does.
    """
    feeds = tuple(feeds)
    listings = await asyncio.gather(*(client.list(feed.resource) for feed in feeds))
    for feed, listing in zip(feeds, listings, strict=True):
        faults = list(listing.undecodable)
        for obj in listing.items:
            try:
                feed.put(obj)
            except Exception as error:
                metadata = metadata_of(obj)
                feed.remove(metadata.key)
                faults.append(fault_of(feed.resource, "subscribe", metadata.key, obj, error))
        for fault in faults:
            client.faults.report(fault)
            feed.set_aside(fault.key, fault)
