"""What each pod set of an admitted workload starts with."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from quorate.api.core import Toleration
from quorate.api.kueue import (
    POD_SET,
    SLICE_NAME,
    WORKLOAD_ANNOTATION,
    PodSet,
    PodSetAssignment,
    PodSetUpdate,
    ResourceFlavor,
    Workload,
)
from quorate.api.meta import Key
from quorate.api.syntax import is_dns_label
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo

LOCAL_QUEUE_LABEL = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_LABEL = "kueue.x-k8s.io/cluster-queue-name"


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """The workload says that it is admitted, but not to what: somebody wrote the condition by hand."""

    workload: Key

    def __str__(self) -> str:
        return (
            f"workload {self.workload}: status.admission: nothing while the condition Admitted is True, but "
            "says where the pods run (leave the condition to the controllers, or write both)"
        )


@dataclass(frozen=True, slots=True)
class FlavorNotSeen:
    """The workload was admitted to a flavor that is not there, or that we have not heard of yet."""

    name: str

    def __str__(self) -> str:
        return f"ResourceFlavor {self.name} doesn't exist"


def pod_set_infos(
    workload: Workload, flavors: Mapping[str, ResourceFlavor], *, with_queue_labels: bool
) -> tuple[PodSetInfo, ...] | NotAdmitted | FlavorNotSeen | InjectionConflict:
    """One info per assignment; they belong to the workload's pod sets by position."""
    admission = workload.status.admission
    if admission is None:
        return NotAdmitted(workload.metadata.key)
    assignments = admission.pod_set_assignments
    if len(assignments) != len(workload.spec.pod_sets):
        return InjectionConflict(
            f"workload {workload.metadata.key}: status.admission.podSetAssignments: {len(assignments)} "
            f"for {len(workload.spec.pod_sets)} pod sets, must be one for each"
        )
    for assignment in assignments:
        for name in sorted(assignment.flavors.values()):
            if name not in flavors:
                return FlavorNotSeen(name)
    labels = _queue_labels(workload.spec.queue_name, admission.cluster_queue) if with_queue_labels else {}
    annotations = workload.metadata.annotations
    slice_name = {key: annotations[key] for key in (SLICE_NAME,) if key in annotations}
    infos: list[PodSetInfo] = []
    for pod_set, assignment in zip(workload.spec.pod_sets, assignments, strict=True):
        info = msgspec.structs.replace(
            info_of(pod_set, assignment, flavors),
            labels={POD_SET: pod_set.name, **labels},
            annotations={WORKLOAD_ANNOTATION: workload.metadata.name, **slice_name},
        )
        for check in workload.status.admission_checks:
            for update in check.pod_set_updates:
                if update.name == pod_set.name:
                    merged = _updated(info, update, check.name)
                    if isinstance(merged, InjectionConflict):
                        return merged
                    info = merged
        infos.append(info)
    return tuple(infos)


def _queue_labels(local_queue: str, cluster_queue: str) -> dict[str, str]:
    queues = {LOCAL_QUEUE_LABEL: local_queue, CLUSTER_QUEUE_LABEL: cluster_queue}
    # A queue's name may be longer than a label's value may be.
    return {key: name for key, name in queues.items() if is_dns_label(name)}


def info_of(
    pod_set: PodSet, assignment: PodSetAssignment, flavors: Mapping[str, ResourceFlavor]
) -> PodSetInfo:
    """What its flavors alone add to a pod set; all of them are in ``flavors``."""
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for name in sorted(set(assignment.flavors.values())):
        spec = flavors[name].spec
        node_selector |= spec.node_labels
        tolerations += [each for each in spec.tolerations if each not in tolerations]
    count = pod_set.count if assignment.count is None else assignment.count
    return PodSetInfo(
        name=pod_set.name, count=count, node_selector=node_selector, tolerations=tuple(tolerations)
    )


def _updated(info: PodSetInfo, update: PodSetUpdate, check: str) -> PodSetInfo | InjectionConflict:
    """``info`` with what an admission check adds to it."""
    parts = (
        ("labels", info.labels, update.labels),
        ("annotations", info.annotations, update.annotations),
        ("nodeSelector", info.node_selector, update.node_selector),
    )
    for name, have, more in parts:
        for key in sorted(more):
            if have.get(key, more[key]) != more[key]:
                return InjectionConflict(
                    f"pod set {info.name}: {name}[{key}]: {more[key]!r} is wanted by "
                    f"admission check {check}, but {have[key]!r} already where it was admitted"
                )
    added = (each for each in update.tolerations if each not in info.tolerations)
    return msgspec.structs.replace(
        info,
        labels=info.labels | update.labels,
        annotations=info.annotations | update.annotations,
        node_selector=info.node_selector | update.node_selector,
        tolerations=(*info.tolerations, *added),
    )
