"""The promises about places, checked on every stored state and on nothing else."""

from collections import Counter
from collections.abc import Iterator, Mapping

from quorate.api.core import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.names.kueue import WORKLOAD_ANNOTATION
from quorate.queueing.conditions import has_quota_reservation, is_finished
from tests.faults.history import Step

HOST = "kubernetes.io/hostname"


class TopologyPromises:
    """Check the promises on stored states in the order of their versions; each pod requests one cpu."""

    def __init__(self, cpus: Mapping[str, int]) -> None:
        self._cpus = cpus  # by host
        self._workloads: dict[Key, Workload] = {}
        self._pods: dict[Key, Pod] = {}
        # The most pods that the admission of each workload has given to each host, after replacements too.
        self._most: dict[Key, Counter[str]] = {}
        self.replacements = 0  # how often an admission got other places

    def step(self, step: Step) -> Iterator[str]:
        match step.object:
            case Workload() as workload:
                findings = self._workload_changed(workload, deleted=step.deleted)
            case Pod() as pod:
                findings = self._pod_changed(pod, deleted=step.deleted)
            case _:
                return
        for finding in findings:
            yield f"{finding} (at version {step.version})"

    def _workload_changed(self, workload: Workload, *, deleted: bool) -> Iterator[str]:
        key = workload.metadata.key
        before = places_of(self._workloads.pop(key, None))
        if not deleted:
            self._workloads[key] = workload
        places = places_of(None if deleted else workload)
        if not places:
            self._most.pop(key, None)
        elif places != before:
            self.replacements += bool(before)
            self._most[key] = self._most.get(key, Counter()) | places
            yield from self._above_capacity()
            yield from self._counts(workload, places)

    def _above_capacity(self) -> Iterator[str]:
        used: Counter[str] = Counter()
        for workload in self._workloads.values():
            used += self._needed_places(workload)
        for host, pods in used.items():
            if pods > self._cpus[host]:
                yield f"{host} has {self._cpus[host]} cpus and places for {pods} pods"

    def _needed_places(self, workload: Workload) -> Counter[str]:
        """Return the places that a workload holds; once pods have ended for good, only those of live pods."""
        places = places_of(workload)
        if not workload.status.reclaimable_pods:
            return places
        return places & Counter({host: self._ungated_pods(workload.metadata.key, host) for host in places})

    def _counts(self, workload: Workload, places: Counter[str]) -> Iterator[str]:
        """Check that each pod has a place, except ended ones."""
        admission = workload.status.admission
        want = sum(of.count or 0 for of in admission.pod_set_assignments) if admission is not None else 0
        ended = sum(each.count for each in workload.status.reclaimable_pods)  # these need no other host
        if not want - ended <= places.total() <= want:
            yield f"{workload.metadata.key} has places for {places.total()} pods instead of {want}"

    def _pod_changed(self, pod: Pod, *, deleted: bool) -> Iterator[str]:
        old = self._pods.pop(pod.metadata.key, None)
        if deleted:
            return
        self._pods[pod.metadata.key] = pod
        host = pod.spec.node_selector.get(HOST)
        was_ungated = old is not None and not old.spec.scheduling_gates
        if host is None or was_ungated or pod.spec.scheduling_gates:
            return
        workload = Key(pod.metadata.namespace, pod.metadata.annotations.get(WORKLOAD_ANNOTATION, ""))
        ungated = self._ungated_pods(workload, host)
        most = self._most.get(workload, Counter())[host]
        if ungated > most:
            yield f"{workload} has {ungated} ungated pods on {host}, its places are {most}"
        yield from self._above_capacity()

    def _ungated_pods(self, workload: Key, host: str) -> int:
        return sum(
            each.metadata.annotations.get(WORKLOAD_ANNOTATION) == workload.name
            for each in self._pods.values()
            if counts_as_ungated(each, host)
        )


def places_of(workload: Workload | None) -> Counter[str]:
    """Return the pods of each host that a workload holds."""
    if workload is None or is_finished(workload) or not has_quota_reservation(workload):
        return Counter()
    admission = workload.status.admission
    places: Counter[str] = Counter()
    for assigned in admission.pod_set_assignments if admission is not None and workload.spec.active else ():
        if assigned.topology_assignment is not None:
            for values, count in assigned.topology_assignment.domains():
                places[values[-1]] += count
    return places


def counts_as_ungated(pod: Pod, host: str) -> bool:
    return (
        pod.spec.node_selector.get(HOST) == host
        and not pod.spec.scheduling_gates
        and pod.status.phase not in ("Succeeded", "Failed")
        and pod.metadata.deletion_timestamp is None
    )
