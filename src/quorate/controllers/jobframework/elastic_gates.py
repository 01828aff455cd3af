"""Scheduling gates of elastic jobs: new pods wait for the admission of their slice."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.kueue import ResourceFlavor, Workload
from quorate.api.kueue.topology import TopologyAssignment
from quorate.api.names.kueue import ELASTIC_JOB, POD_SET, SLICE_NAME, TOPOLOGY_GATE, WORKLOAD_ANNOTATION
from quorate.api.names.topology import PREFERRED, REQUIRED, UNCONSTRAINED
from quorate.controllers.informers import slices_of, unscheduled_of_slices
from quorate.controllers.jobframework.interface import J, JobKind
from quorate.controllers.jobframework.podset_info import (
    FlavorNotFound,
    InjectionConflict,
    NotAdmitted,
    PodSetInfo,
    inject,
    pod_set_infos,
)
from quorate.controllers.jobframework.workload_slices import in_replacement_order
from quorate.kube.client import Client
from quorate.kube.resources import PLACEABLE_PODS
from quorate.kube.selection import Selection
from quorate.kube.writes import Patch, send
from quorate.queueing.conditions import is_admitted, is_evicted, is_finished
from quorate.queueing.topology.ungating import PodPlace, choose_domains

ELASTIC_GATE: Final = ELASTIC_JOB  # the gate has the name of the annotation
_OF_WORKLOAD: Final = (WORKLOAD_ANNOTATION, SLICE_NAME)  # annotations that a pod has from its creation
_NO_PLACES: Final[Mapping[str, TopologyAssignment]] = {}
_NO_DOMAIN: Final[Mapping[str, str]] = {}


async def ungate_elastic_pods(
    client: Client,
    unscheduled: Selection[Pod],
    kind: JobKind[J],
    job: J,
    workloads: Iterable[Workload],
    flavors: Mapping[str, ResourceFlavor],
) -> None:
    """Ungate as many pods of an elastic job as its admitted slice has, for the nodes of their flavors.

    The job's own controller labels its pods.  Other controllers may create pods for the job too: these have
    an annotation with the name of the slices, and are found only among all pods of admitted workloads.
    """
    if job.metadata.annotations.get(ELASTIC_JOB) != "true":
        return
    admitted = ungating_slices(workloads)
    label = kind.pods_label(job)
    if label is None or not admitted or kind.is_suspended(job):
        return
    counts = {pod_set.name: pod_set.count for slice_ in admitted for pod_set in slice_.spec.pod_sets}
    infos = pod_set_infos(admitted[-1], flavors, with_queue_labels=False)
    if isinstance(infos, NotAdmitted | FlavorNotFound | InjectionConflict):
        return
    slices = next(iter(slices_of(admitted[-1].metadata)), admitted[-1].metadata.key)
    unlabelled = any(
        pod.metadata.labels.get(label[0]) != label[1] for pod in unscheduled_of_slices(unscheduled, slices)
    )
    selector = POD_SET if unlabelled else "=".join(label)
    listed = await client.list(PLACEABLE_PODS, slices.namespace, label_selector=selector)
    pods = pods_of_job(listed.items, label, slices.name)
    await send(client, ungate(pods, counts, infos, _places(admitted[-1])))


def ungating_slices(workloads: Iterable[Workload]) -> list[Workload]:
    """Return the slices with pods that may run, in replacement order: the count of the last one holds.

    An evicted slice must not start further pods, and a finished one was replaced.
    """
    return in_replacement_order(
        [
            workload
            for workload in workloads
            if is_admitted(workload) and not is_evicted(workload) and not is_finished(workload)
        ]
    )


def _places(workload: Workload) -> dict[str, TopologyAssignment]:
    """Return the places of each pod set that has some."""
    assignments = () if workload.status.admission is None else workload.status.admission.pod_set_assignments
    return {
        assignment.name: assignment.topology_assignment
        for assignment in assignments
        if assignment.topology_assignment is not None
    }


def ungate(
    pods: Sequence[Pod],
    admitted: Mapping[str, int],
    infos: Iterable[PodSetInfo] = (),
    places: Mapping[str, TopologyAssignment] = _NO_PLACES,
) -> tuple[Patch, ...]:
    """Return the patches that ungate the oldest pods of each pod set, up to the admitted counts.

    ``places``: the places of the pod sets that have any. The pods of these pod sets wait for a place behind a
    gate of their own. A pod set that was started without pods, and so without places, has no such gate: its
    pods get their places now.

    The label ``kueue.x-k8s.io/podset`` of a pod names its pod set.  A pod without it has run since before
    the job was first suspended, which the job's own controller may not have seen: it counts in the first pod
    set.  ``infos``: what the flavors of the pod sets require.
    """
    required = {info.name: info for info in infos}
    live = [pod for pod in pods if not pod.has_ended and not pod.is_leaving]
    patches: list[Patch] = []
    left = sum(1 for pod in live if POD_SET not in pod.metadata.labels and not pod.has_gate(ELASTIC_GATE))
    for name, given in admitted.items():
        count = max(given - left, 0)
        left -= given - count
        members = [pod for pod in live if pod.metadata.labels.get(POD_SET) == name]
        gated = sorted(
            (pod for pod in members if pod.has_gate(ELASTIC_GATE)), key=lambda pod: pod.metadata.age_order
        )
        startable = gated[: max(count - (len(members) - len(gated)), 0)]
        info = required.get(name)
        if (assignment := places.get(name)) is None:
            patches += [_without_gate(pod, info) for pod in startable]
            continue
        running = [pod for pod in members if not pod.has_gate(ELASTIC_GATE)]
        domains = _domains([*running, *startable], assignment)
        for pod in startable:
            if pod.has_gate(TOPOLOGY_GATE):
                patches.append(_without_gate(pod, info))
            elif pod.metadata.name in domains:
                patches.append(_without_gate(pod, info, domains[pod.metadata.name]))
    return tuple(patches)


def _domains(pods: Iterable[Pod], assignment: TopologyAssignment) -> dict[str, dict[str, str]]:
    """Return the node selectors of the domain of each gated pod that has a place, by its name."""
    levels = assignment.levels
    placed = [
        PodPlace(
            pod.metadata.name,
            None,
            None
            if pod.has_gate(ELASTIC_GATE) or pod.has_gate(TOPOLOGY_GATE)
            else tuple(pod.spec.node_selector.get(level, "") for level in levels),
        )
        for pod in pods
    ]
    chosen = choose_domains(assignment.domains(), placed)
    return {name: dict(zip(levels, values, strict=True)) for name, values in chosen.items()}


def pods_of_job(pods: Iterable[Pod], label: tuple[str, str], slices: str) -> list[Pod]:
    name, value = label
    return [
        pod
        for pod in pods
        if pod.metadata.labels.get(name) == value or pod.metadata.annotations.get(SLICE_NAME) == slices
    ]


def _without_gate(pod: Pod, info: PodSetInfo | None, domain: Mapping[str, str] = _NO_DOMAIN) -> Patch:
    """Return the patch that ungates a pod, with the node selector and the tolerations that it lacks.

    It also gets the annotations of admission checks: those of its template may name the ProvisioningRequest
    of an earlier slice.  ``domain``: the node selectors of its place, if it gets one now.
    """
    left = [gate for gate in pod.spec.scheduling_gates if gate.name != ELASTIC_GATE]
    missing: dict[str, Any] = {}
    annotations: dict[str, str] = {}
    if info is not None:
        annotations = {key: value for key, value in info.annotations.items() if key not in _OF_WORKLOAD}
        written = {"nodeSelector": pod.spec.node_selector, "tolerations": pod.spec.tolerations}
        scheduling = PodSetInfo(
            name=info.name, count=1, node_selector=info.node_selector, tolerations=info.tolerations
        )
        injected = inject(msgspec.Raw(codec.encode({"spec": written})), scheduling)
        # A conflicting pod is one of a template that the user has changed; it is not ours to correct.
        missing = {} if isinstance(injected, InjectionConflict) else injected.get("spec", {})
    body: dict[str, Any] = {"spec": {**missing, "schedulingGates": left or None}}
    if domain:
        body["spec"]["nodeSelector"] = {**missing.get("nodeSelector", {}), **domain}
        if not any(name in pod.metadata.annotations for name in (REQUIRED, PREFERRED, UNCONSTRAINED)):
            annotations[UNCONSTRAINED] = "true"  # it is counted by its place
    if annotations:
        body["metadata"] = {"annotations": annotations}
    return Patch(PLACEABLE_PODS, pod.metadata.key, pod.metadata.resource_version, body)
