"""The informers that several queueing controllers share; kinds of job have their own."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from quorate.api.core.pod import Pod
from quorate.api.kueue import Admission, Workload
from quorate.api.meta import Key, ObjectMeta, Uid, epoch
from quorate.api.names.kueue import POD_SET, SLICE_NAME, WORKLOAD_ANNOTATION
from quorate.controllers.pod_informers import PodInformers, PodSelector
from quorate.controllers.unreadable_workloads import reserving_part
from quorate.kube.informer import Change, Informer
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    DEVICE_CLASSES,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESERVATIONS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_FLAVORS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    HasMetadata,
    Resource,
    T,
    metadata_of,
)
from quorate.kube.selection import Selection, Watched

if TYPE_CHECKING:
    from quorate.kube.client import Client

POINTS_TO = "points to cluster queue"  # index of local queues by the name of their cluster queue
WORKLOADS_OF = "workloads of"  # index of workloads by the uid of their job
LIMIT_RANGES_OF = "limit ranges of"  # index of limit ranges by namespace
UNREADABLE_RETRY_S: Final = 10.0  # before a job is reconciled again although its workload cannot be read
_WORKLOAD = "workload"  # index of pods by the key of their workload
_SLICES = "slices"  # index of unscheduled pods by what ``slices_of`` returns


def select_unscheduled(informers: PodInformers) -> Selection[Pod]:
    """Select only pods of admitted workloads without a node: a bound pod leaves the selection."""
    pods = informers.select(
        "unscheduled",
        PodSelector(POD_SET, "spec.nodeName=,status.phase=Pending"),
        lambda pod: POD_SET in pod.metadata.labels and not pod.node_name and pod.status.phase == "Pending",
        is_small=True,
    )
    pods.add_index(_WORKLOAD, workloads_of)
    pods.add_index(_SLICES, lambda pod: slices_of(pod.metadata))
    return pods


def workloads_of(pod: Pod) -> tuple[Key, ...]:
    name = pod.metadata.annotations.get(WORKLOAD_ANNOTATION)
    return () if name is None else (Key(pod.metadata.namespace, name),)


def slices_of(metadata: ObjectMeta) -> tuple[Key, ...]:
    """Return what all slices of one elastic job, and its pods, have in common."""
    name = metadata.annotations.get(SLICE_NAME)
    return () if name is None else (Key(metadata.namespace, name),)


def unscheduled_of_slices(pods: Selection[Pod], slices: Key) -> list[Pod]:
    return pods.by_index(_SLICES, slices)


def unscheduled_since(pods: Selection[Pod], workload: Key) -> float | None:
    """Return when the oldest unscheduled pod was created (epoch seconds); None: no pod."""
    created = [
        epoch(pod.metadata.creation_timestamp)
        for pod in pods.by_index(_WORKLOAD, workload)
        if pod.metadata.creation_timestamp is not None
    ]
    return min(created, default=None)


class Informers:
    def __init__(self, client: "Client", *, reads_all_pods: bool = False) -> None:
        self.pods = PodInformers(client, reads_all=reads_all_pods)
        self.namespaces = Informer(client, NAMESPACES)
        self.limit_ranges = Informer(client, LIMIT_RANGES)
        self.limit_ranges.add_index(LIMIT_RANGES_OF, lambda limits: (limits.metadata.namespace,))
        # These run only if devices are counted.
        self.device_classes = Informer(client, DEVICE_CLASSES)
        self.claim_templates = Informer(client, RESOURCE_CLAIM_TEMPLATES)
        self.resource_slices = Informer(client, RESOURCE_SLICES)
        self.reservations = Informer(client, RESERVATIONS)  # runs once the kind is served
        self.runtime_classes = Informer(client, RUNTIME_CLASSES)
        self.flavors = Informer(client, RESOURCE_FLAVORS)
        self.topologies = Informer(client, TOPOLOGIES)
        self.cohorts = Informer(client, COHORTS)
        self.checks = Informer(client, ADMISSION_CHECKS)
        self.cluster_queues = Informer(client, CLUSTER_QUEUES)
        self.local_queues = Informer(client, LOCAL_QUEUES)
        self.local_queues.add_index(POINTS_TO, lambda queue: (queue.spec.cluster_queue,))
        self.workload_classes = Informer(client, WORKLOAD_PRIORITY_CLASSES)
        self.pod_classes = Informer(client, PRIORITY_CLASSES)
        self.workloads = Informer(client, WORKLOADS)
        self.workloads.add_index(WORKLOADS_OF, controller_uid, of_metadata=True)
        self.unreadable_workloads: dict[Key, Workload] = {}  # with quota, the readable parts
        self.workloads.subscribe(_ignore_change, self._workload_unusable)
        self.unscheduled_pods = select_unscheduled(self.pods)
        self._all_pods = self.pods.all("of workloads") if reads_all_pods else None
        if self._all_pods is not None:
            self._all_pods.add_index(_WORKLOAD, workloads_of)

    def pods_of(self, workload: Key) -> list[Pod]:
        """Return the pods of a workload that are watched: all, if a controller reads all pods."""
        pods = self.unscheduled_pods if self._all_pods is None else self._all_pods
        return pods.by_index(_WORKLOAD, workload)

    def _workload_unusable(self, key: Key, fault: ObjectFault | None) -> None:
        reserving = None if fault is None else reserving_part(fault, Admission())
        if reserving is None:
            self.unreadable_workloads.pop(key, None)
        else:
            self.unreadable_workloads[key] = reserving

    def has_unreadable_workload(self, *owners: Uid) -> bool:
        """Return True if one of ``owners`` owns a workload with quota that cannot be read."""
        return any(
            owner.uid in owners
            for workload in self.unreadable_workloads.values()
            for owner in workload.metadata.owner_references
        )

    def of(self, resource: Resource[T]) -> Informer[T]:
        """Return the informer of one of the shared kinds, with all its objects."""
        informers = (*self.all, *self.of_devices, self.reservations)
        return next(informer for informer in informers if informer.resource is resource)

    @property
    def of_devices(self) -> tuple[Informer[Any], ...]:
        """The informers of what claims of devices depend on, in the order in which they start."""
        return self.device_classes, self.resource_slices, self.claim_templates

    @property
    def watched(self) -> tuple[Watched, ...]:
        return (*self.all, self.unscheduled_pods)

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        return (
            self.namespaces,
            self.limit_ranges,
            self.runtime_classes,
            self.flavors,
            self.topologies,
            self.cohorts,
            self.checks,
            self.cluster_queues,
            self.local_queues,
            self.workload_classes,
            self.pod_classes,
            self.workloads,
        )


def _ignore_change(change: Change[Workload]) -> None:
    """Follow only the workloads that cannot be used."""


def controller_uid(obj: HasMetadata) -> tuple[Uid, ...]:
    """Return the index key of the object that controls ``obj``."""
    owner = obj.metadata.controller
    return () if owner is None else (owner.uid,)


class CacheSyncTimeout(Exception):
    """The cluster did not list in time the objects that decisions depend on."""

    def __init__(self, within_s: float, missing: tuple[str, ...]) -> None:
        super().__init__(within_s, missing)
        self.within_s, self.missing = within_s, missing

    def __str__(self) -> str:
        return (
            f"controller.cacheSyncTimeout: {self.within_s:g}s were not enough to list "
            f"{', '.join(self.missing)} (give it longer, or leave it out)"
        )


async def synced(*informers: Watched, within_s: float | None = None) -> None:
    """Return once each informer has listed all objects; before, a missing object may exist.

    Raises ``CacheSyncTimeout`` after ``within_s``; None: wait without a limit.
    """
    try:
        async with asyncio.timeout(within_s):
            await asyncio.gather(*(informer.synced.wait() for informer in informers))
    except TimeoutError as late:
        missing = tuple(informer.resource.plural for informer in informers if not informer.synced.is_set())
        assert within_s is not None, "timed out without a limit"
        raise CacheSyncTimeout(within_s, missing) from late


class ByName(Mapping[str, T]):
    """The objects of a cluster-scoped kind by name; each access reads the cache."""

    def __init__(self, informer: Informer[T]) -> None:
        self._informer = informer

    def __getitem__(self, name: str) -> T:
        obj = self._informer.get(Key("", name))
        if obj is None:
            raise KeyError(name)
        return obj

    def __iter__(self) -> Iterator[str]:
        return (metadata_of(obj).name for obj in self._informer)

    def __len__(self) -> int:
        return len(self._informer)
