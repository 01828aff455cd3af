"""The informers that several queueing controllers share; kinds of job have their own."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.kueue import Admission, PodSet, Workload, WorkloadSpec, WorkloadStatus
from quorate.api.meta import Condition, Key, ObjectMeta, Uid, epoch
from quorate.api.names.kueue import POD_SET, SLICE_NAME, WORKLOAD_ANNOTATION
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
    PLACEABLE_PODS,
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
from quorate.queueing.cluster_queue import counts_quota

if TYPE_CHECKING:
    from quorate.kube.client import Client


class PodSelector(NamedTuple):
    """The selectors of a watch of pods: the API server sends at least the pods that are needed."""

    labels: str = ""
    fields: str = ""


ALL: Final = PodSelector()
UNFINISHED: Final = PodSelector(fields="status.phase!=Succeeded,status.phase!=Failed")


class PodInformers:
    """Informers of pods, of which each controller reads a selection.

    ``reads_all``: one watch of all pods, also of those that have ended, serves all selections.  Otherwise
    there is one watch for each selector, and pods that no controller reads are not watched.
    """

    def __init__(self, client: "Client", *, reads_all: bool) -> None:
        self._client = client
        self._reads_all = reads_all
        self._informers: dict[PodSelector, Informer[Pod]] = {}

    def select(
        self, name: str, selector: PodSelector, selects: Callable[[Pod], bool], *, is_small: bool = False
    ) -> Selection[Pod]:
        """Return the pods that ``selects`` accepts; ``selector`` must select these, and may select others."""
        labels, fields = selector = ALL if self._reads_all else selector
        if selector not in self._informers:
            self._informers[selector] = Informer(
                self._client, PLACEABLE_PODS, label_selector=labels, field_selector=fields
            )
        return Selection(name, self._informers[selector], selects, is_small=is_small)

    def all(self, name: str) -> Selection[Pod]:
        return self.select(name, ALL, lambda _: True)


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
        self.workloads = Informer(client, WORKLOADS, batched=True)
        self.workloads.add_index(WORKLOADS_OF, job_uid, of_metadata=True)
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


def checks_of_workload(workload: Workload) -> tuple[str, ...]:
    """Return the names of the admission checks in the status of a workload, as an index has them."""
    return tuple(check.name for check in workload.status.admission_checks)


def controller_uid(obj: HasMetadata) -> tuple[Uid, ...]:
    """Return the index key of the object that controls ``obj``."""
    owner = obj.metadata.controller
    return () if owner is None else (owner.uid,)


def job_uid(workload: HasMetadata) -> tuple[Uid, ...]:
    """Return the index key of the job that ``workload`` is of."""
    job = workload.metadata.job_owner
    return () if job is None else (job.uid,)


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


_Fields = dict[str, msgspec.Raw]
_MISSING: Final = msgspec.Raw(b"null")


def reserving_part(fault: ObjectFault, last_admission: Admission | None = None) -> Workload | None:
    """Return the readable fields of a workload; None if the workload has no valid quota reservation.

    A workload becomes unreadable while its job runs if a definition without a schema lets a client store
    fields of other types.  Its quota stays reserved and its job goes on until the workload is readable or
    deleted.

    ``last_admission`` is assumed if the admission cannot be read.  The pod sets are those of the admission,
    and none of their pods are reclaimable, which counts rather too much than too little.
    """
    workload = fault.obj if isinstance(fault.obj, Workload) else _readable_part(fault)
    admission = workload.status.admission or last_admission
    if admission is None or not counts_quota(workload):
        return None
    pod_sets = tuple(
        PodSet(name=assigned.name, count=1 if assigned.count is None else assigned.count)
        for assigned in admission.pod_set_assignments
    )
    return msgspec.structs.replace(
        workload,
        spec=msgspec.structs.replace(workload.spec, pod_sets=pod_sets),
        status=WorkloadStatus(conditions=workload.status.conditions, admission=admission),
    )


def _readable_part(fault: ObjectFault) -> Workload:
    document = _decoded(_Fields, msgspec.Raw(fault.raw), {})
    identity = ObjectMeta(
        name=fault.key.name,
        namespace=fault.key.namespace,
        uid=fault.uid,
        resource_version=fault.resource_version,
    )
    spec = _decoded(_Fields, document.get("spec", _MISSING), {})
    status = _decoded(_Fields, document.get("status", _MISSING), {})
    conditions = _decoded(list[msgspec.Raw], status.get("conditions", _MISSING), [])
    nothing = WorkloadSpec()
    return Workload(
        metadata=_decoded(ObjectMeta, document.get("metadata", _MISSING), identity),
        spec=WorkloadSpec(
            queue_name=_decoded(str, spec.get("queueName", _MISSING), nothing.queue_name),
            priority=_decoded(int, spec.get("priority", _MISSING), nothing.priority),
            active=_decoded(bool, spec.get("active", _MISSING), nothing.active),
        ),
        status=WorkloadStatus(
            conditions=tuple(
                condition for raw in conditions if (condition := _decoded(Condition, raw, None)) is not None
            ),
            admission=_decoded(Admission, status.get("admission", _MISSING), None),
        ),
    )


def _decoded(type_: Any, raw: msgspec.Raw, default: Any) -> Any:
    try:
        return codec.decode(type_, raw)
    except msgspec.DecodeError:
        return default
