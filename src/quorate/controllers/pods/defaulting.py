"""Defaulting, validation and adoption of pods, as pure functions.

``default_*`` return a changed copy, or the object itself if there is nothing to add; ``*_findings`` yield all
findings at once.  The rules for jobs of all kinds (syntax and immutability of queue name, priority class and
the like) are elsewhere.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.core.pod import Pod
from quorate.api.findings import Finding
from quorate.api.names.kueue import PREBUILT_WORKLOAD, PRIORITY_CLASS, QUEUE_NAME, TOPOLOGY_GATE
from quorate.api.names.topology import GROUP_POD_INDEX, GROUP_POD_INDEX_LABEL
from quorate.api.syntax import is_dns_subdomain, positive_int32
from quorate.controllers.executor import Plan, warning_event
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import group_name_in, is_gated, role_hash, role_of
from quorate.kube.resources import PLACEABLE_PODS, Json, reference_to
from quorate.kube.writes import Patch

LABELS: Final = "metadata.labels"
ANNOTATIONS: Final = "metadata.annotations"
DEFAULT_QUEUE: Final = "default"

NOT_GATED: Final = "NotGated"  # reason of an event of our own: Kueue ignores such pods silently
_NOTHING: Final = Plan()


@dataclass(frozen=True, slots=True)
class DefaultingContext:
    """What defaulting depends on besides the object."""

    namespace_managed: bool
    is_child: bool = False  # a managed job is an ancestor
    has_default_queue: bool = False  # a LocalQueue named ``default``
    default_priority_class: bool = False  # a class named ``default`` exists, and its gate is enabled
    manage_without_queue_name: bool = False
    topology: bool = False  # pods may get places in topologies


def default_pod(pod: Json, context: DefaultingContext) -> Json:
    """Add gate, label and finalizer to a new pod that is to be queued."""
    if constants.SUSPENDING_PARENT in _annotations(pod):
        return _gated(pod, context)
    if not context.namespace_managed or context.is_child:
        return pod
    queued = with_default_queue(pod, context)
    if not (labels_of(queued).get(QUEUE_NAME) or context.manage_without_queue_name):
        return queued
    gated = _gated(queued, context)
    metadata = gated["metadata"]
    metadata["labels"] = {**labels_of(gated), constants.MANAGED: "true"}
    finalizers = metadata.get("finalizers") or []
    if constants.MANAGED not in finalizers:
        metadata["finalizers"] = [*finalizers, constants.MANAGED]
    return gated


def with_default_queue(obj: Json, context: DefaultingContext) -> Json:
    """Add the default queue of the namespace and the default priority class."""
    labels = dict(labels_of(obj))
    if context.has_default_queue and not labels.get(QUEUE_NAME):
        labels[QUEUE_NAME] = DEFAULT_QUEUE
    if context.default_priority_class and labels.get(QUEUE_NAME) and not labels.get(PRIORITY_CLASS):
        labels[PRIORITY_CLASS] = "default"
    return obj if labels == labels_of(obj) else {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def gates_of(context: DefaultingContext) -> tuple[str, ...]:
    """Return the scheduling gates of queued pods."""
    return (constants.ADMISSION_GATE, TOPOLOGY_GATE) if context.topology else (constants.ADMISSION_GATE,)


def _gated(pod: Json, context: DefaultingContext) -> Json:
    spec, metadata = dict(pod["spec"]), dict(pod["metadata"])
    gated = {**pod, "spec": spec, "metadata": metadata}
    for name in gates_of(context):
        gates = spec.get("schedulingGates") or []
        if name not in [gate.get("name") for gate in gates]:
            spec["schedulingGates"] = [*gates, {"name": name}]
    indexed = _annotations(gated).get(GROUP_POD_INDEX_LABEL) if context.topology else None
    if indexed is not None:
        metadata["labels"] = {**labels_of(gated), GROUP_POD_INDEX: labels_of(gated).get(indexed, "")}
    metadata["annotations"] = {constants.ROLE_HASH: role_hash(spec), **_annotations(gated)}
    return gated


def pod_findings(new: Json, old: Json | None, group_by_annotation: bool = True) -> Iterator[Finding]:
    """Validate a new pod, or the update from ``old`` to ``new``."""
    labels, annotations = labels_of(new), _annotations(new)
    if labels.get(constants.MANAGED, "true") != "true":
        yield Finding(f"{LABELS}[{constants.MANAGED}]", labels[constants.MANAGED], "can only be 'true'")
    group = group_name_in(labels, annotations, group_by_annotation)
    yield from _membership(group, annotations.get(constants.TOTAL_COUNT))
    prebuilt = annotations.get(PREBUILT_WORKLOAD) or labels.get(PREBUILT_WORKLOAD)
    if prebuilt and group and prebuilt != group:
        section = ANNOTATIONS if PREBUILT_WORKLOAD in annotations else LABELS
        yield Finding(
            f"{section}[{PREBUILT_WORKLOAD}]", prebuilt, f"must be {group!r}, the name of the pod's group"
        )
    if old is not None:
        yield from _changes(new, old, group, group_by_annotation)


def _membership(group: str, total: str | None) -> Iterator[Finding]:
    both = f"both the label {constants.GROUP_NAME} and the annotation {constants.TOTAL_COUNT} must be set"
    if bool(group) != (total is not None):
        missing = (
            f"{LABELS}[{constants.GROUP_NAME}]" if not group else f"{ANNOTATIONS}[{constants.TOTAL_COUNT}]"
        )
        yield Finding(missing, "", f"is missing: {both}")
    if group and not is_dns_subdomain(group):
        yield Finding(f"{LABELS}[{constants.GROUP_NAME}]", group, "is no name (write a DNS-1123 subdomain)")
    if total is not None and positive_int32(total) is None:
        path = f"{ANNOTATIONS}[{constants.TOTAL_COUNT}]"
        yield Finding(path, total, "is no number of pods (write a whole number, at least 1)")


def _changes(new: Json, old: Json, group: str, group_by_annotation: bool) -> Iterator[Finding]:
    was = group_name_in(labels_of(old), _annotations(old), group_by_annotation)
    # The controllers assign a gated pod of a set to its group, whatever group its template named.
    is_gated = bool((old.get("spec") or {}).get("schedulingGates"))
    assigned = is_gated and constants.SUSPENDING_PARENT in _annotations(old)
    if was and group != was and not assigned:
        yield Finding(f"{LABELS}[{constants.GROUP_NAME}]", group, f"is immutable (was {was!r})")
    final = _annotations(old).get(constants.RETRIABLE) == "false"
    if group and final and _annotations(new).get(constants.RETRIABLE) != "false":
        path = f"{ANNOTATIONS}[{constants.RETRIABLE}]"
        value = _annotations(new).get(constants.RETRIABLE)
        yield Finding(path, value, "must stay 'false': unretriable pod group can't be converted to retriable")


def pod_warnings(pod: Json, owner_managed: bool) -> Iterator[str]:
    """Warn about unusual pods; ``owner_managed``: the owner is of a kind that is queued."""
    marked = labels_of(pod).get(constants.MANAGED) == "true"
    if owner_managed and marked and constants.SUSPENDING_PARENT not in _annotations(pod):
        label = f"{constants.MANAGED}=true"
        yield f"pod owner is managed by kueue, label '{label}' might lead to unexpected behaviour"


def labels_of(obj: Json) -> dict[str, Any]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _annotations(obj: Json) -> dict[str, Any]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def adoption_plan(
    pod: Pod, *, namespace_managed: bool, is_child: bool, without_queue_name: bool, queue: str
) -> Plan:
    """Add to a gated pod what the webhook would have added; report a pod without a gate.

    A gate cannot be added to an existing pod.  A pod that was created without a gate is left alone, because
    deleting it would lose the only copy of its spec; an event reports that it has no quota.

    ``is_child``: a managed job is an ancestor of the pod.  ``without_queue_name``: pods without a queue name
    are managed, too.  ``queue``: that of the pod, or of the native workload to which it belongs.
    """
    if pod.metadata.is_managed or pod.is_leaving or pod.has_ended or not namespace_managed or is_child:
        return _NOTHING
    if is_gated(pod):
        return Plan(concurrent=((_adopt(pod, queue),),)) if queue or without_queue_name else _NOTHING
    if not queue:
        return _NOTHING
    text = (
        f"the pod asks for queue {queue} but was made without the scheduling gate "
        f"{constants.ADMISSION_GATE}, so it runs outside of all quota: make it with the gate, "
        "or install the webhooks, which add it"
    )
    return Plan(events=(warning_event(reference_to(PLACEABLE_PODS, pod.metadata), NOT_GATED, text),))


def _adopt(pod: Pod, queue: str) -> Patch:
    metadata = pod.metadata
    inherited = {QUEUE_NAME: queue} if queue and not queue_name_of(metadata) else {}
    body: dict[str, object] = {
        "labels": {constants.MANAGED: "true", **inherited},
        "finalizers": _with(metadata.finalizers, constants.MANAGED),
    }
    if constants.ROLE_HASH not in metadata.annotations:
        body["annotations"] = {constants.ROLE_HASH: role_of(pod)}
    return Patch(PLACEABLE_PODS, metadata.key, metadata.resource_version, {"metadata": body})


def _with(finalizers: Collection[str], ours: str) -> tuple[str, ...]:
    return tuple(finalizers) if ours in finalizers else (*finalizers, ours)
