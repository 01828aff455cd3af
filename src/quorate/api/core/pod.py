"""Pods as all of Quorate reads them: pods of templates, pods that wait, and pods that use nodes.

A process holds every pod of a cluster (1,491 bytes each measured in the scheduler), so equal pods share their
spec and their status, and fields that nothing reads are dropped. A pod that the queueing controllers write,
because it is a job or a member of a group of plain pods, keeps all fields.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any, Final, Generic, NamedTuple, TypeVar
from weakref import ReferenceType, ref

import msgspec

from quorate.api import codec
from quorate.api.core import ContainerState, ResourceRequirements, Resources
from quorate.api.core.pod_resources import is_resize_infeasible, pod_requests
from quorate.api.core.scheduling import INTERNED_SPEC_FIELDS, Affinity, Container, PodAffinity, PodSpec
from quorate.api.interning import CACHE_SIZE, InternCache, SharedStructs, intern_metadata
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct
from quorate.api.names import volcano as annotations
from quorate.api.names.kueue import ADMISSION_GATE, MANAGED
from quorate.api.names.topology import REQUESTS
from quorate.api.names.volcano import JOB_NAME

NOT_WRITTEN: Final = msgspec.Raw(b"{}")
ENDED_PHASES: Final = ("Succeeded", "Failed")  # a pod in one of them never runs again

_READ_DOMAINS: Final = ("kueue.x-k8s.io", "volcano.sh", "quorate.dev")
_MAX_TEMPLATES: Final = 4096  # of which values are kept
_NO_STATE: Final = ContainerState()

V = TypeVar("V")


class PodCondition(Struct):
    """A pod condition; its time is in ``PodHistory``, so that statuses of different pods are equal."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ContainerStatus(Struct):
    """The resources of a container during an in-place resize, which may exceed its requests.

    Its restarts and its state are in ``PodHistory``.
    """

    name: str = ""
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None
    restart_count: int = 0
    state: ContainerState = _NO_STATE


class RequestingContainer(Struct):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class RequestingSpec(Struct):
    """The fields of a pod spec on which the requests of the pod depend, and no others."""

    containers: tuple[RequestingContainer, ...] = ()
    init_containers: tuple[RequestingContainer, ...] = ()
    overhead: Resources = {}
    resources: ResourceRequirements = ResourceRequirements()


class RequestingStatus(Struct):
    """The fields of a pod status that tell of in-place resizes."""

    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Resources = {}
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Struct):
    """The claim that was made for a pod from a template; None: the pod needs none."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Struct):
    phase: str = "Pending"
    message: str = ""  # only of pods that the queueing controllers write
    nominated_node_name: str = ""
    start_time: datetime | None = None  # only of pods with a cooldown time or a deadline
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: Resources = {}  # of the pod as a whole, as the next field
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()

    @property
    def in_use(self) -> tuple[object, ...]:
        """Return all that ``pod_requests`` reads of a status, each part shared by the statuses of pods."""
        return (
            self.container_statuses,
            self.init_container_statuses,
            self.allocated_resources,
            self.resources,
            is_resize_infeasible(self.conditions),
        )


_INTERNED_STATUS_FIELDS: Final[dict[str, Any]] = {
    "conditions": tuple[PodCondition, ...],
    "container_statuses": tuple[ContainerStatus, ...],
    "init_container_statuses": tuple[ContainerStatus, ...],
    "allocated_resources": Resources,
    "resources": ResourceRequirements,
}


class PodHistory(Struct):
    """What has happened to a pod, on which no placement depends.

    ``refused_since``: since when a scheduler finds no node for it.  ``failed_since`` and ``stopped_at`` are
    the times of the conditions ``ContainersReady``, if it is False because the pod failed, and
    ``TerminationTarget``.  ``exit_code`` is the exit code of the first container that failed.  ``ended_at``
    is the time at which the last container ended; for a pod of a Volcano Job without such a time, the time at
    which the pod started.
    """

    refused_since: datetime | None = None
    failed_since: datetime | None = None
    stopped_at: datetime | None = None
    restarts: int = 0
    exit_code: int | None = None
    ended_at: datetime | None = None


NO_HISTORY: Final = PodHistory()
_shared_history: Final = lru_cache(maxsize=CACHE_SIZE)(lambda history: history)


class PodMeta(ObjectMeta):
    """Pod metadata without generated name, and unless it is managed with the controller as its only owner.

    Of the annotations it has those of queues, gangs and topologies.
    """

    def __post_init__(self) -> None:
        read = self.annotations
        owners = self.owner_references
        if not self.is_managed:
            read = {key: value for key, value in read.items() if _is_read(key)}
            owners = tuple(owner for owner in owners if owner.controller)[:1]
        msgspec.structs.force_setattr(self, "annotations", read)
        msgspec.structs.force_setattr(self, "generate_name", "")
        msgspec.structs.force_setattr(self, "owner_references", _intern_owners(owners))
        intern_metadata(self)

    @property
    def is_managed(self) -> bool:
        """Return True if the pod is queued by itself, or in a group of plain pods."""
        return self.labels.get(MANAGED) == "true"

    @property
    def has_cooldown(self) -> bool:
        """Return True if the pod is not to be evicted in its first minutes."""
        return annotations.COOLDOWN_TIME in self.labels or annotations.COOLDOWN_TIME in self.annotations


def _is_read(annotation: str) -> bool:
    return annotation in annotations.POD_ANNOTATIONS or annotation.partition("/")[0].endswith(_READ_DOMAINS)


def _intern_owners(owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
    return _owners_of(codec.encode(owners)) if owners else ()


def _decode_owners(content: bytes) -> tuple[OwnerReference, ...]:
    return codec.decode(tuple[OwnerReference, ...], content)


_owners_of = InternCache(_decode_owners)

_NOT_DECODED: Final = PodSpec()


class Pod(Struct):
    """A pod that shares its spec and status with equal pods.

    ``node_name`` is a field of the spec in the API.  It is stored outside, so that the pods of one template
    share one spec.  Specs that differ, for example in a claim, still share their equal parts.

    ``written`` is the spec as the API server stores it: of pods that the queueing controllers write, else
    ``NOT_WRITTEN``.  ``spec`` has the fields of it that are read, without the node.
    """

    metadata: PodMeta
    written: msgspec.Raw = msgspec.field(default=NOT_WRITTEN, name="spec")
    spec: PodSpec = msgspec.field(default=_NOT_DECODED, name="decodedSpec")
    status: PodStatus = PodStatus()
    node_name: str = ""
    history: PodHistory = NO_HISTORY

    def __post_init__(self) -> None:
        spec = self.spec
        if spec is _NOT_DECODED and self.written is not NOT_WRITTEN:
            spec = _decode_spec(self.written)
            is_kept = self.metadata.is_managed or _has_gate(spec, ADMISSION_GATE)  # then it may become so
            msgspec.structs.force_setattr(self, "written", self.written.copy() if is_kept else NOT_WRITTEN)
        if node := spec.spec_node_name:
            msgspec.structs.force_setattr(self, "node_name", intern(node))
            spec = msgspec.structs.replace(spec, spec_node_name="")
        msgspec.structs.force_setattr(self, "spec", _specs.shared(spec))
        history = _take_history(self.status, of_volcano_job=JOB_NAME in self.metadata.labels)
        if history != NO_HISTORY:
            msgspec.structs.force_setattr(self, "history", _shared_history(history))
        if self.status.message and self.written is NOT_WRITTEN:
            msgspec.structs.force_setattr(self.status, "message", "")
        is_timed = self.metadata.has_cooldown or spec.active_deadline_seconds is not None
        if self.status.start_time is not None and not is_timed:
            msgspec.structs.force_setattr(self.status, "start_time", None)
        msgspec.structs.force_setattr(self, "status", _statuses.shared(self.status))

    @property
    def has_ended(self) -> bool:
        """Return True if no container of the pod runs any more, or ever will."""
        return self.status.phase in ENDED_PHASES

    @property
    def uses_node(self) -> bool:
        """Return True if the pod takes room of ``node_name``."""
        return bool(self.node_name) and not self.has_ended

    @property
    def is_leaving(self) -> bool:
        """Return True if the pod is deleted: it ends, or has ended and waits for finalizers."""
        return self.metadata.deletion_timestamp is not None

    @property
    def group_name(self) -> str:
        """The name of its Volcano pod group; empty for a pod without one."""
        return self.metadata.annotations.get(annotations.GROUP_NAME, "")

    @property
    def group_key(self) -> Key:
        return Key(self.metadata.namespace, self.group_name)

    @property
    def requests_place(self) -> bool:
        """Return True if the template of the pod requests a topology."""
        return any(name in self.metadata.annotations for name in REQUESTS)

    @property
    def requests(self) -> Resources:
        """The effective request, with what an in-place resize has not released."""
        return _requests.get_or(self.spec, self.status.in_use, lambda: pod_requests(self.spec, self.status))

    @property
    def constraints(self) -> PodSpec | None:
        """The host ports, claims and required anti-affinity, which keep other pods away; None without any."""
        return _constraints.get_or(self.spec, (), lambda: _constraints_of(self.spec))

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of the scheduling gates in the order of the spec."""
        return tuple(gate.name for gate in self.spec.scheduling_gates)

    def has_gate(self, name: str) -> bool:
        return _has_gate(self.spec, name)


_specs: Final = SharedStructs[PodSpec](INTERNED_SPEC_FIELDS)
_statuses: Final = SharedStructs[PodStatus](_INTERNED_STATUS_FIELDS)


def _has_gate(spec: PodSpec, name: str) -> bool:
    return any(gate.name == name for gate in spec.scheduling_gates)


def _decode_spec(written: msgspec.Raw) -> PodSpec:
    try:
        return codec.decode(PodSpec, written)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(str(error).replace("`$", "`$.spec", 1)) from error


def _take_history(status: PodStatus, *, of_volcano_job: bool) -> PodHistory:
    """Return the history that a status tells which was just decoded, and drop it from the status."""
    times = dict(_take_times(status.conditions))
    containers = (*status.container_statuses, *status.init_container_statuses)
    restarts = sum(container.restart_count for container in containers)
    ends = [container.state.terminated for container in containers if container.state.terminated is not None]
    for container in containers:
        if container.restart_count or container.state.terminated is not None:
            msgspec.structs.force_setattr(container, "restart_count", 0)
            msgspec.structs.force_setattr(container, "state", _NO_STATE)
    if not (times or restarts or ends or of_volcano_job):
        return NO_HISTORY
    moments = [end.finished_at for end in ends if end.finished_at is not None]
    return PodHistory(
        refused_since=times.get("refused"),
        failed_since=times.get("failed"),
        stopped_at=times.get("stopped"),
        restarts=restarts,
        exit_code=next((end.exit_code for end in ends if end.exit_code), None),
        ended_at=max(moments, default=status.start_time if of_volcano_job else None),
    )


def _take_times(conditions: Iterable[PodCondition]) -> Iterator[tuple[str, datetime]]:
    """Yield the times of the conditions that tell a part of the history, and drop all times."""
    for condition in conditions:
        time = condition.last_transition_time
        if time is None:
            continue
        msgspec.structs.force_setattr(condition, "last_transition_time", None)
        match condition.type, condition.status, condition.reason:
            case "PodScheduled", "False", "Unschedulable":
                yield "refused", time
            case "ContainersReady", "False", "PodFailed":
                yield "failed", time
            case "TerminationTarget", _, _:
                yield "stopped", time


class _Template(NamedTuple, Generic[V]):
    spec: ReferenceType[PodSpec]  # the last pod with it ends the template
    parts: tuple[object, ...]
    value: V


class _OfTemplates(Generic[V]):
    """One value for all pods that share a spec and the given parts of their status."""

    def __init__(self) -> None:
        # By the identities of the parts.  While a template is here, they exist, so no other object has these.
        self._templates: dict[tuple[int, ...], _Template[V]] = {}

    def get_or(self, spec: PodSpec, parts: tuple[object, ...], make: Callable[[], V]) -> V:
        identity = (id(spec), *map(id, parts))
        template = self._templates.get(identity)
        if template is None:
            if len(self._templates) >= _MAX_TEMPLATES:
                self._templates.clear()
            end = ref(spec, lambda _: self._templates.pop(identity, None))
            template = self._templates[identity] = _Template(end, parts, make())
        return template.value


_requests: Final = _OfTemplates[Resources]()
_constraints: Final = _OfTemplates[PodSpec | None]()


def _constraints_of(spec: PodSpec) -> PodSpec | None:
    terms = None if spec.affinity is None else spec.affinity.pod_anti_affinity
    affinity = None
    if terms is not None and terms.required:
        affinity = Affinity(pod_anti_affinity=PodAffinity(required=terms.required))
    sidecars = tuple(container for container in spec.init_containers if container.restart_policy == "Always")
    ports = tuple(
        Container(ports=with_ports.ports) for with_ports in (*spec.containers, *sidecars) if with_ports.ports
    )
    if affinity is None and not spec.volumes and not ports:
        return None
    return PodSpec(containers=ports, affinity=affinity, volumes=spec.volumes)
