"""What is decided about pods and their workload, as a value, and what it is decided on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from quorate.api.configuration.feature_gates import DEFAULT_GATES, Gates
from quorate.api.core import PriorityClass
from quorate.api.events import ObjectReference
from quorate.api.kueue import ResourceFlavor, Workload, WorkloadPriorityClass
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import PODS, QueuedPod, is_deleted, is_held
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import Delete, Patch, Write
from quorate.queueing.lifecycle.transition import Event


@dataclass(frozen=True, slots=True)
class Told:
    """An event, and whom it is about."""

    regarding: ObjectReference
    event: Event


@dataclass(frozen=True, slots=True)
class GatesOff:
    """How many gates a plan takes off, of pods admitted when and where; for the metrics."""

    count: int
    cluster_queue: str
    is_group: bool
    admitted_at: float  # epoch seconds


@dataclass(frozen=True, slots=True)
class PodPlan:
    """Writes to pods, which go side by side, then those to the workload in order, then events."""

    pods: tuple[tuple[Write, ...], ...] = ()  # one sequence for each pod
    workload: tuple[Write, ...] = ()
    told: tuple[Told, ...] = ()
    lacks: str = ""  # what must come to be before there can be a plan
    patient: bool = False  # the writes may wait a moment, as there may soon be more to say in them
    gates_off: GatesOff | None = None
    wake_at: float | None = None  # epoch seconds: when to look again, whatever happens

    def and_then(self, more: "PodPlan") -> "PodPlan":
        return replace(
            more,
            pods=(*self.pods, *more.pods),
            workload=(*self.workload, *more.workload),
            told=(*self.told, *more.told),
            lacks=self.lacks or more.lacks,
        )


IDLE = PodPlan()


@dataclass(frozen=True, slots=True)
class PodRules:
    """The part of the configuration that concerns pods."""

    manage_without_queue_name: bool = False
    wait_for_pods_ready: bool = False
    label_keys_to_copy: tuple[str, ...] = ()
    gates: Gates = DEFAULT_GATES
    deactivated_kept_s: float | None = None  # how long pods the system deactivated stay; None: for ever


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What a plan depends on besides the pods and their workload."""

    flavors: Mapping[str, ResourceFlavor]
    workload_classes: Mapping[str, WorkloadPriorityClass]
    pod_classes: Mapping[str, PriorityClass]


def told(regarding: QueuedPod | Workload | ObjectReference, reason: str, message: str) -> Told:
    return Told(_reference(regarding), Event("Normal", reason, message))


def warned(regarding: QueuedPod | Workload | ObjectReference, reason: str, message: str) -> Told:
    return Told(_reference(regarding), Event("Warning", reason, message))


def _reference(to: QueuedPod | Workload | ObjectReference) -> ObjectReference:
    match to:
        case QueuedPod():
            return reference_to(PODS, to)
        case Workload():
            return reference_to(WORKLOADS, to)
        case ObjectReference():
            return to


def let_go(pods: Iterable[QueuedPod]) -> tuple[tuple[Write, ...], ...]:
    """The patches that take our finalizer off, for those pods that have it."""
    return tuple((without_finalizer(pod),) for pod in pods if is_held(pod))


def without_finalizer(pod: QueuedPod) -> Patch:
    metadata = pod.metadata
    left = tuple(each for each in metadata.finalizers if each != constants.MANAGED)
    body = {"metadata": {"finalizers": left or None}}
    return Patch(PODS, metadata.key, metadata.resource_version, body)


def dropped(pods: Iterable[QueuedPod]) -> tuple[tuple[Write, ...], ...]:
    """Pods deleted with our consent; those on their way out already only lack that."""
    sequences: list[tuple[Write, ...]] = []
    for pod in pods:
        writes: list[Write] = [without_finalizer(pod)] if is_held(pod) else []
        if not is_deleted(pod):
            writes.append(Delete(PODS, pod.metadata.key, pod.metadata.uid))
        if writes:
            sequences.append(tuple(writes))
    return tuple(sequences)
