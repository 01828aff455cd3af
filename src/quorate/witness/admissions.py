"""Which workload a pod belongs to, and the cluster queue and flavors to which that workload was admitted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.api.kueue import Admission, PodSetAssignment
from quorate.api.meta import Condition, Key, ObjectMeta, Struct, Uid, epoch, find_condition, is_true
from quorate.api.names.kueue import POD_SET, WORKLOAD_ANNOTATION
from quorate.kube.resources import Resource
from quorate.witness.pods import POD_GROUP, VOLCANO_GROUP, WitnessedPod

_MAX_DEPTH: Final = 10  # of a chain of owners


class _Spec(Struct):
    queue_name: str = ""


class _Status(Struct):
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None


class WitnessedWorkload(Struct):
    """A workload, of which only its owners and its admission are read."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def is_running(self) -> bool:
        return self.status.admission is not None and not is_true(self.status.conditions, "Finished")

    @property
    def reserved_at(self) -> float:
        """Return when quota was reserved for it, in seconds since the epoch; 0.0 if that is not known."""
        reserved = find_condition(self.status.conditions, "QuotaReserved")
        if reserved is None or reserved.last_transition_time is None:
            return 0.0
        return epoch(reserved.last_transition_time)


WITNESSED_WORKLOADS: Final = Resource(
    "kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True, WitnessedWorkload
)


@dataclass(slots=True)
class _Remembered:
    workload: WitnessedWorkload  # with its last admission
    current: bool  # the stored workload has this admission


class Admissions:
    """The last admission of every workload that has, or had, pods.

    A pod that still runs after its workload lost the quota, or was deleted, is a pod of its last admission.
    """

    def __init__(self) -> None:
        self._last: dict[Uid, _Remembered] = {}

    def update(self, workloads: Iterable[WitnessedWorkload]) -> None:
        """Take over the stored workloads; an absent workload has been deleted."""
        for remembered in self._last.values():
            remembered.current = False
        for workload in workloads:
            if workload.status.admission is not None:
                self._last[workload.metadata.uid] = _Remembered(workload, True)

    def keep_only(self, with_pods: set[Uid]) -> None:
        """Forget past admissions without pods."""
        self._last = {
            uid: admission for uid, admission in self._last.items() if admission.current or uid in with_pods
        }

    def index(self, owners: Mapping[Uid, Uid]) -> "AdmissionIndex":
        """Return the index of all admissions; ``owners``: the controller of each object that has one."""
        return AdmissionIndex(self._last.values(), owners)


class AdmissionIndex:
    def __init__(self, admissions: Iterable[_Remembered], owners: Mapping[Uid, Uid]) -> None:
        self._owners = owners
        self._known: dict[tuple[Uid, tuple[str | None, ...]], WitnessedWorkload | None] = {}
        self._by_owner: dict[Uid, list[_Remembered]] = {}
        self._by_key: dict[Key, list[_Remembered]] = {}
        self._by_volcano_group: dict[Key, list[_Remembered]] = {}
        for remembered in admissions:
            metadata = remembered.workload.metadata
            self._by_key.setdefault(metadata.key, []).append(remembered)
            for owner in metadata.owner_references:
                self._by_owner.setdefault(owner.uid, []).append(remembered)
                if owner.kind == "PodGroup":
                    group = Key(metadata.namespace, owner.name)
                    self._by_volcano_group.setdefault(group, []).append(remembered)

    def workload_of(self, pod: WitnessedPod) -> WitnessedWorkload | None:
        """Return the workload that the pod belongs to; None: none with an admission, now or before.

        The owners of the pod decide; if none has a workload, the names in its labels and annotations, which
        the pod's author can write.  An elastic job has several workloads, of which one has its quota.
        """
        metadata = pod.metadata
        if metadata.controller is None or metadata.uid in self._by_owner:
            return self._find(metadata)
        equal = metadata.controller.uid, _names(metadata)  # pods with the same owner and names
        if equal not in self._known:
            self._known[equal] = self._find(metadata)
        return self._known[equal]

    def _find(self, metadata: ObjectMeta) -> WitnessedWorkload | None:
        by_owners = [
            remembered for uid in self._chain(metadata) for remembered in self._by_owner.get(uid, ())
        ]
        by_names = list(self._by_names(metadata))
        for among in (by_owners, by_names):
            running = [
                remembered for remembered in among if remembered.current and remembered.workload.is_running
            ]
            if running:
                return max(running, key=_age).workload
        return max((*by_owners, *by_names), key=_age).workload if by_owners or by_names else None

    def _chain(self, metadata: ObjectMeta) -> Iterable[Uid]:
        yield metadata.uid
        owner = None if metadata.controller is None else metadata.controller.uid
        for _ in range(_MAX_DEPTH):
            if owner is None:
                return
            yield owner
            owner = self._owners.get(owner)

    def _by_names(self, metadata: ObjectMeta) -> Iterable[_Remembered]:
        namespace, workload, group, volcano_group = _names(metadata)
        for name in (workload, group):
            if name:
                yield from self._by_key.get(Key(namespace, name), ())
        if volcano_group:
            yield from self._by_volcano_group.get(Key(namespace, volcano_group), ())


def _names(metadata: ObjectMeta) -> tuple[str, str | None, str | None, str | None]:
    """Return the namespace of a pod, and the workload, group and Volcano group that it names."""
    annotations = metadata.annotations
    group = metadata.labels.get(POD_GROUP) or annotations.get(POD_GROUP)
    return metadata.namespace, annotations.get(WORKLOAD_ANNOTATION), group, annotations.get(VOLCANO_GROUP)


def _age(remembered: _Remembered) -> tuple[bool, float, float, str]:
    """Return a key that is larger the more an admission is the present one."""
    metadata = remembered.workload.metadata
    created = 0.0 if metadata.creation_timestamp is None else epoch(metadata.creation_timestamp)
    return (remembered.current, remembered.workload.reserved_at, created, metadata.uid)


def assignment_of(pod: WitnessedPod, workload: WitnessedWorkload) -> PodSetAssignment | None:
    """Return the assignment of the pod's pod set; the first one if the pod does not name its pod set."""
    admission = workload.status.admission
    assignments = () if admission is None else admission.pod_set_assignments
    name = pod.metadata.labels.get(POD_SET)
    named = [assignment for assignment in assignments if assignment.name == name]
    return next(iter((*named, *assignments)), None)
