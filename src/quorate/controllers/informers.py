"""One copy in memory of every kind the queueing controllers look at; job kinds bring their own."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.controllers.unplaced import unscheduled_pods
from quorate.kube.client import Client
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Informer
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    RUNTIME_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    T,
    metadata_of,
    reference,
)
from quorate.kube.rest.decoding import UndecodableObject

UNREADABLE = "Unreadable"  # an event of ours: Kueue's own typed copies cannot hold such an object either
POINTS_TO = "points to cluster queue"  # index of local queues by the name of their cluster queue
WORKLOADS_OF = "workloads of"  # index of workloads by the uid of their job


def report_undecodable_objects(informer: Informer[Any], events: EventRecorder) -> None:
    """Have every object that ``informer`` leaves out told so: it has no status that could be written."""
    resource = informer.resource

    def tell(undecodable: UndecodableObject) -> None:
        about = reference(resource, undecodable.key, undecodable.uid)
        text = f"left out of all decisions: {undecodable.problem}"
        events.event(about, "Warning", UNREADABLE, text, unique=True)

    informer.subscribe_undecodable(tell)


class Informers:
    def __init__(self, client: Client) -> None:
        self.namespaces = Informer(client, NAMESPACES)
        self.limit_ranges = Informer(client, LIMIT_RANGES)
        self.runtime_classes = Informer(client, RUNTIME_CLASSES)
        self.flavors = Informer(client, RESOURCE_FLAVORS)
        self.cohorts = Informer(client, COHORTS)
        self.checks = Informer(client, ADMISSION_CHECKS)
        self.cluster_queues = Informer(client, CLUSTER_QUEUES)
        self.local_queues = Informer(client, LOCAL_QUEUES)
        self.local_queues.add_index(POINTS_TO, lambda queue: (queue.spec.cluster_queue,))
        self.workload_classes = Informer(client, WORKLOAD_PRIORITY_CLASSES)
        self.pod_classes = Informer(client, PRIORITY_CLASSES)
        self.workloads = Informer(client, WORKLOADS)
        self.workloads.add_index(WORKLOADS_OF, _job_uid)
        self.unscheduled_pods = unscheduled_pods(client)

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        return (
            self.namespaces,
            self.limit_ranges,
            self.runtime_classes,
            self.flavors,
            self.cohorts,
            self.checks,
            self.cluster_queues,
            self.local_queues,
            self.workload_classes,
            self.pod_classes,
            self.workloads,
            self.unscheduled_pods,
        )


def _job_uid(workload: Workload) -> tuple[Uid, ...]:
    owner = workload.metadata.controller
    return () if owner is None else (owner.uid,)


class CacheSyncTimeout(Exception):
    """The cluster did not list in time what must be known before anything is decided."""

    def __init__(self, within_s: float, lacking: tuple[str, ...]) -> None:
        super().__init__(within_s, lacking)
        self.within_s, self.lacking = within_s, lacking

    def __str__(self) -> str:
        return (
            f"controller.cacheSyncTimeout: {self.within_s:g}s were not enough to list "
            f"{', '.join(self.lacking)} (give it longer, or leave it out)"
        )


async def synced(*informers: Informer[Any], within_s: float | None = None) -> None:
    """Return once each holds all that was there: what is missing from a half-filled copy is not gone.

    Raises ``CacheSyncTimeout`` after ``within_s``; None: wait without a limit.
    """
    try:
        async with asyncio.timeout(within_s):
            await asyncio.gather(*(informer.synced.wait() for informer in informers))
    except TimeoutError as late:
        lacking = tuple(each.resource.plural for each in informers if not each.synced.is_set())
        assert within_s is not None, "timed out without a limit"
        raise CacheSyncTimeout(within_s, lacking) from late


class ByName(Mapping[str, T]):
    """The objects of a cluster-scoped kind, by name, as they are at the moment of asking."""

    def __init__(self, informer: Informer[T]) -> None:
        self._informer = informer

    def __getitem__(self, name: str) -> T:
        found = self._informer.get(Key("", name))
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (metadata_of(each).name for each in self._informer)

    def __len__(self) -> int:
        return len(self._informer)
