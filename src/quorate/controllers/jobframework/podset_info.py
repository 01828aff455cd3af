"""Kueue's ``PodSetInfo``: what admission adds to pod templates, and how to undo it.

Templates stay JSON: they have fields that are unknown here and must be kept.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from quorate.api.codec import to_builtins
from quorate.api.core import Toleration
from quorate.api.kueue import PodSet, PodSetAssignment, PodSetUpdate, ResourceFlavor, Workload
from quorate.api.meta import Key
from quorate.api.names.kueue import POD_SET, SLICE_NAME, TOPOLOGY_GATE, WORKLOAD_ANNOTATION
from quorate.api.names.multikueue import ORIGIN, WORKER_POD
from quorate.api.names.topology import UNCONSTRAINED
from quorate.api.names.volcano import GROUP_NAME
from quorate.api.syntax import is_dns_label
from quorate.queueing.topology.pod_set_updates import UpdateConflict, merge_updates

LOCAL_QUEUE_LABEL = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_LABEL = "kueue.x-k8s.io/cluster-queue-name"

_MAPS = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))
# What an earlier admission left in a template: of the previous slice, or of the job that it was copied from.
_OVERWRITTEN = (POD_SET, LOCAL_QUEUE_LABEL, CLUSTER_QUEUE_LABEL, WORKLOAD_ANNOTATION, SLICE_NAME)
_LISTS = (("spec", "tolerations"), ("spec", "schedulingGates"))


class PodSetInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What one pod set starts with: its number of pods, and the fields to merge into their template."""

    name: str
    count: int
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[str, ...] = ()


class InjectionConflict(msgspec.Struct, frozen=True):
    """The job can never start with this admission; a retry cannot help."""

    message: str


def read_template(template: msgspec.Raw) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(template)
    return decoded


def inject(template: msgspec.Raw, info: PodSetInfo) -> dict[str, Any] | InjectionConflict:
    """Return the patch that adds ``info`` to ``template``; a key with two values conflicts."""
    present = read_template(template)
    patch: dict[str, Any] = {}
    wanted = {"labels": info.labels, "annotations": info.annotations, "nodeSelector": info.node_selector}
    for section, name in _MAPS:
        have = _part(present, section, name, {})
        want = wanted[name]
        for key in sorted(want):
            if have.get(key, want[key]) != want[key] and key not in _OVERWRITTEN:
                return InjectionConflict(
                    f"pod set {info.name}: {name}[{key}] is {have[key]!r} in the pod template "
                    f"but {want[key]!r} is required where it was admitted"
                )
        if added := {key: value for key, value in want.items() if have.get(key) != value}:
            patch.setdefault(section, {})[name] = added
    have_tolerations = _part(present, "spec", "tolerations", [])
    added_tolerations = _not_yet_in(have_tolerations, to_builtins(info.tolerations))
    if added_tolerations:
        patch.setdefault("spec", {})["tolerations"] = [*have_tolerations, *added_tolerations]
    have_gates = _part(present, "spec", "schedulingGates", [])
    if added_gates := _not_yet_in(have_gates, [{"name": gate} for gate in info.scheduling_gates]):
        patch.setdefault("spec", {})["schedulingGates"] = [*have_gates, *added_gates]
    return patch


def restore(template: msgspec.Raw, original: msgspec.Raw, keep_labels: Collection[str]) -> dict[str, Any]:
    """Return the merge patch that restores the metadata and scheduling fields of ``original``.

    ``keep_labels`` are set by the job's own controller and stay.  Affinity is never injected, so it is not
    restored.
    """
    present, wanted = read_template(template), read_template(original)
    patch: dict[str, Any] = {}
    for section, name in _MAPS:
        have, want = _part(present, section, name, {}), _part(wanted, section, name, {})
        kept = {key: have[key] for key in keep_labels if key in have} if name == "labels" else {}
        want = want | kept
        removed = {key: None for key in have if key not in want}
        if have and not want and not _names(wanted, section, name):
            patch.setdefault(section, {})[name] = None  # an empty map would stay
        elif changed := removed | {key: value for key, value in want.items() if have.get(key) != value}:
            patch.setdefault(section, {})[name] = changed
    for section, name in _LISTS:
        items = _part(wanted, section, name, [])
        if _part(present, section, name, []) != items:
            patch.setdefault(section, {})[name] = items or None
    return patch


def _part(template: Mapping[str, Any], section: str, name: str, absent: Any) -> Any:
    return (template.get(section) or {}).get(name) or absent


def _names(template: Mapping[str, Any], section: str, name: str) -> bool:
    return name in (template.get(section) or {})


def _not_yet_in(have: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    added: list[Any] = []
    for item in more:
        if item not in have and item not in added:
            added.append(item)
    return added


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """The workload has the condition Admitted without an admission: it was set by hand."""

    workload: Key

    def __str__(self) -> str:
        return (
            f"workload {self.workload}: status.admission: nothing while the condition Admitted is True, but "
            "says where the pods run (leave the condition to the controllers, or write both)"
        )


@dataclass(frozen=True, slots=True)
class FlavorNotFound:
    """The workload was admitted to a flavor that does not exist or is not in the cache yet."""

    name: str

    def __str__(self) -> str:
        return f"ResourceFlavor {self.name} doesn't exist"


def pod_set_infos(
    workload: Workload,
    flavors: Mapping[str, ResourceFlavor],
    *,
    with_queue_labels: bool,
    topology: bool = False,
) -> tuple[PodSetInfo, ...] | NotAdmitted | FlavorNotFound | InjectionConflict:
    """Return one info for each pod set of an admitted workload, in their order.

    ``topology``: pods wait for their places in the topology that the workload is assigned to.
    """
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
                return FlavorNotFound(name)
    labels = _queue_labels(workload.spec.queue_name, admission.cluster_queue) if with_queue_labels else {}
    if ORIGIN in workload.metadata.labels:
        labels[WORKER_POD] = "true"
    annotations = workload.metadata.annotations
    slice_name = {key: annotations[key] for key in (SLICE_NAME,) if key in annotations}
    infos: list[PodSetInfo] = []
    for pod_set, assignment in zip(workload.spec.pod_sets, assignments, strict=True):
        placed = topology and assignment.topology_assignment is not None
        info = msgspec.structs.replace(
            info_of(pod_set, assignment, flavors),
            labels={POD_SET: pod_set.name, **labels},
            annotations={
                WORKLOAD_ANNOTATION: workload.metadata.name,
                **slice_name,
                **(_implied_request(pod_set) if placed else {}),
            },
            scheduling_gates=(TOPOLOGY_GATE,) if placed else (),
        )
        updated = _updated(info, workload)
        if isinstance(updated, InjectionConflict):
            return updated
        infos.append(updated)
    return tuple(infos)


def _implied_request(pod_set: PodSet) -> dict[str, str]:
    """Return the annotation of pods that are placed without a request for a level.

    It distinguishes them from pods that only occupy room in the topology.
    """
    request = pod_set.topology_request
    if request is not msgspec.UNSET and (
        request.required or request.preferred or request.unconstrained is not None
    ):
        return {}
    return {UNCONSTRAINED: "true"}


def _queue_labels(local_queue: str, cluster_queue: str) -> dict[str, str]:
    queues = {LOCAL_QUEUE_LABEL: local_queue, CLUSTER_QUEUE_LABEL: cluster_queue}
    # The name of a queue may be longer than a label value.
    return {key: name for key, name in queues.items() if is_dns_label(name)}


def info_of(
    pod_set: PodSet, assignment: PodSetAssignment, flavors: Mapping[str, ResourceFlavor]
) -> PodSetInfo:
    """Return what its assigned flavors add to a pod set; all of them must be in ``flavors``."""
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for name in sorted(set(assignment.flavors.values())):
        spec = flavors[name].spec
        node_selector |= spec.node_labels
        tolerations += [toleration for toleration in spec.tolerations if toleration not in tolerations]
    count = pod_set.count if assignment.count is None else assignment.count
    return PodSetInfo(
        name=pod_set.name, count=count, node_selector=node_selector, tolerations=tuple(tolerations)
    )


def _updated(info: PodSetInfo, workload: Workload) -> PodSetInfo | InjectionConflict:
    """Return ``info`` merged with the podSetUpdates of the admission checks."""
    base = PodSetUpdate(
        name=info.name,
        labels=info.labels,
        annotations=info.annotations,
        node_selector=info.node_selector,
        tolerations=info.tolerations,
    )
    merged = merge_updates(base, workload)
    if isinstance(merged, UpdateConflict):
        return InjectionConflict(
            f"pod set {info.name}: {merged.field}[{merged.key}]: {merged.wanted!r} is wanted by "
            f"admission check {merged.check}, but {merged.present!r} already where it was admitted"
        )
    return msgspec.structs.replace(
        info,
        labels=merged.labels,
        annotations=merged.annotations,
        node_selector=merged.node_selector,
        tolerations=merged.tolerations,
    )


@dataclass(frozen=True, slots=True)
class Membership:
    group: Key
    admitted: bool  # pods may be created


class Memberships(Protocol):
    """Looks up the pod groups that jobs have to wait for besides their quota."""

    def of(self, job: Any) -> Membership | None:
        """Return the membership of a job; None: the job does not wait for a pod group."""

    def subscribe(self, on_change: Callable[[Key], None]) -> None:
        """Call ``on_change`` with a job when its group has changed."""


def with_group(infos: Sequence[PodSetInfo], membership: Membership) -> tuple[PodSetInfo, ...]:
    """Add the name of the group to the annotations of all pod sets."""
    annotation = {GROUP_NAME: membership.group.name}
    return tuple(
        msgspec.structs.replace(info, annotations={**info.annotations, **annotation}) for info in infos
    )
