"""Elastic jobs that have shrunk in place: their workloads give up the places of pods that are gone."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from quorate.api.core.pod import Pod
from quorate.api.kueue import Admission, PodSetAssignment, Workload
from quorate.api.kueue.topology import topology_assignment
from quorate.api.meta import Key
from quorate.api.names.kueue import ELASTIC_JOB, POD_SET, TOPOLOGY_GATE
from quorate.queueing.topology.shrunk_places import shrunk_domains

Selectors = Mapping[str, str]


def has_shrunk(workload: Workload) -> bool:
    """Return True if the workload was admitted with more pods than its job has now."""
    if workload.metadata.annotations.get(ELASTIC_JOB) != "true" or workload.status.admission is None:
        return False
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return any(
        assignment.topology_assignment is not None
        and assignment.count is not None
        and assignment.count > sizes.get(assignment.name, assignment.count)
        for assignment in workload.status.admission.pod_set_assignments
    )


def shrunk_admission(
    workload: Workload, pods: Sequence[Pod], sent: Mapping[Key, Selectors], *, by_host_prefix: bool
) -> Admission | None:
    """Return the admission with the places of the remaining pods; None if no place can be given up yet.

    ``pods`` are all pods of the workload. ``sent`` has the selectors of the pods that were just ungated, by
    pod.
    """
    admission = workload.status.admission
    if admission is None:
        return None
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    assignments = tuple(
        _shrunk(assignment, sizes[assignment.name], pods, sent, by_host_prefix=by_host_prefix)
        if assignment.name in sizes
        else assignment
        for assignment in admission.pod_set_assignments
    )
    if assignments == admission.pod_set_assignments:
        return None
    return replace(admission, pod_set_assignments=assignments)


def _shrunk(
    assigned: PodSetAssignment,
    size: int,
    pods: Sequence[Pod],
    sent: Mapping[Key, Selectors],
    *,
    by_host_prefix: bool,
) -> PodSetAssignment:
    old = assigned.topology_assignment
    if old is None:
        return assigned
    present: list[tuple[str, ...]] = []
    for pod in pods:
        if pod.has_ended or pod.metadata.labels.get(POD_SET) != assigned.name:
            continue
        selectors = sent.get(pod.metadata.key) if pod.has_gate(TOPOLOGY_GATE) else pod.spec.node_selector
        if selectors is not None:
            present.append(tuple(selectors.get(level, "") for level in old.levels))
    domains = shrunk_domains(tuple(old.domains()), size, present)
    if domains is None:
        return assigned
    new = topology_assignment(old.levels, domains, by_host_prefix=by_host_prefix)
    return replace(assigned, topology_assignment=new)
