"""Construction of the Workload of a job: its name, its priority and its content."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.codec import Json
from quorate.api.core import PriorityClass
from quorate.api.kueue import GROUP, PodSet, PriorityClassRef, Workload, WorkloadPriorityClass, WorkloadSpec
from quorate.api.meta import ObjectMeta, OwnerReference, Uid
from quorate.api.names.kueue import (
    ADMISSION_GATED_BY,
    JOB_UID,
    MAX_EXEC_TIME_SECONDS,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE_NAME,
    RESOURCE_IN_USE,
)
from quorate.api.normal_form import with_amounts_as_text
from quorate.api.syntax import is_label_value, positive_int32
from quorate.controllers.jobframework.podset_info import read_template
from quorate.controllers.limits import MAX_LABEL, MAX_NAME
from quorate.kube.resources import WORKLOADS, Resource
from quorate.kube.writes import Patch
from quorate.queueing.lifecycle.transition import Event
from quorate.queueing.pods_ready import TIMEOUT_ANNOTATIONS

PROVISIONING_PREFIX = "provreq.kueue.x-k8s.io/"

DEFAULT_CLASS = "default"  # the WorkloadPriorityClass of jobs that name none, if it exists
_HASH_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Priority:
    value: int
    source: PriorityClassRef | None


@dataclass(frozen=True, slots=True)
class MissingPriorityClass:
    """The class that gives the priority does not exist, so no workload can be constructed."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} doesn't exist: create it, or name another"

    @property
    def event(self) -> Event:
        """Return the event for the job, in Kueue's words if its label names the class."""
        if self.kind == "WorkloadPriorityClass":
            return Event("Warning", "WorkloadPriorityClassNotFound", f'{self.kind} "{self.name}" not found')
        return Event("Warning", "ErrWorkloadCompose", str(self))


@dataclass(frozen=True, slots=True)
class NotComposed:
    """Why no workload can be constructed before the job changes or an object is created."""

    why: str | MissingPriorityClass
    awaits_object: bool = False  # ``why`` names an object that does not exist

    @property
    def event(self) -> Event:
        why = self.why
        return Event("Warning", "ErrWorkloadCompose", why) if isinstance(why, str) else why.event

    @property
    def missing_dependency(self) -> str:
        is_final = isinstance(self.why, str) and not self.awaits_object
        return "" if is_final else str(self.why)


def queue_name_of(metadata: ObjectMeta) -> str:
    """Return the local queue of a job or an empty text; the annotation is the older form."""
    return metadata.labels.get(QUEUE_NAME) or metadata.annotations.get(QUEUE_NAME, "")


def maximum_execution_s(metadata: ObjectMeta) -> int | None:
    return positive_int32(metadata.labels.get(MAX_EXEC_TIME_SECONDS, ""))


def prebuilt_name_of(metadata: ObjectMeta, *, by_annotation: bool) -> str:
    """Return the name of the prebuilt workload of a job, or an empty text.

    A label value has at most 63 characters: a longer name is always read from the annotation.
    """
    annotation = metadata.annotations.get(PREBUILT_WORKLOAD, "")
    if annotation and (by_annotation or len(annotation) > MAX_LABEL):
        return annotation
    return metadata.labels.get(PREBUILT_WORKLOAD, "")


def workload_name(
    kind: str, group: str, job_name: str, job_uid: Uid, extra: str = "", *, short: bool = False
) -> str:
    """Return the name of the workload of one job object.

    ``<kind>-<job name>``, cut if necessary, and five hex digits of a SHA-1 over kind, group, name and uid, as
    in Kueue: a new job with the name of an earlier one gets another workload.  A ``short`` name fits a label.
    """
    parts = [kind, group, job_name, job_uid, *([extra] if extra else [])]
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    longest = MAX_LABEL if short else MAX_NAME
    readable = f"{kind.lower()}-{job_name}"[: longest - _HASH_DIGITS - 1]
    return f"{readable}-{digest[:_HASH_DIGITS]}"


def resolve_priority(
    labels: Mapping[str, str],
    own_class: str | None,
    pod_sets: Sequence[PodSet],
    workload_classes: Mapping[str, WorkloadPriorityClass],
    pod_classes: Mapping[str, PriorityClass],
    default_class: str = "",
) -> Priority | MissingPriorityClass:
    """Return the priority of a new workload, from the first of these sources.

    1. the WorkloadPriorityClass that the label names, otherwise ``default_class`` if it exists;
    2. the PriorityClass of the job kind's own field, or of the first pod set that names one;
    3. the global default PriorityClass, the lowest if there are several;
    4. zero.
    """
    if name := labels.get(PRIORITY_CLASS) or (default_class if default_class in workload_classes else ""):
        workload_class = workload_classes.get(name)
        if workload_class is None:
            return MissingPriorityClass("WorkloadPriorityClass", name)
        return Priority(
            workload_class.value, PriorityClassRef(group=GROUP, kind="WorkloadPriorityClass", name=name)
        )
    if name := _pod_class_name(own_class, pod_sets):
        pod_class = pod_classes.get(name)
        return MissingPriorityClass("PriorityClass", name) if pod_class is None else _of(pod_class)
    defaults = [class_ for class_ in pod_classes.values() if class_.global_default]
    if defaults:
        return _of(min(defaults, key=lambda priority: (priority.value, priority.metadata.name)))
    return Priority(0, None)


def _pod_class_name(own_class: str | None, pod_sets: Iterable[PodSet]) -> str:
    if own_class is not None:
        return own_class
    names = (decode_template(pod_set.template).spec.priority_class_name for pod_set in pod_sets)
    return next(filter(None, names), "")


def _of(pod_class: PriorityClass) -> Priority:
    ref = PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name=pod_class.metadata.name)
    return Priority(pod_class.value, ref)


def owner_of(resource: Resource[Any], metadata: ObjectMeta) -> OwnerReference:
    """Return the controller reference of a workload to the job with ``metadata``."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def workload_patch(workload: Workload, body: Mapping[str, object]) -> Patch:
    """Return the write that merges ``body`` into the workload at the version it was decided on."""
    return Patch(WORKLOADS, workload.metadata.key, workload.metadata.resource_version, body)


def copied_annotations(metadata: ObjectMeta, keys: Collection[str] = (), *, gated: bool) -> dict[str, str]:
    """Return inherited annotations, and those with ``keys``; ``gated``: external gates are enabled."""
    return {
        key: value
        for key, value in metadata.annotations.items()
        if key.startswith(PROVISIONING_PREFIX)
        or key in TIMEOUT_ANNOTATIONS
        or (gated and key == ADMISSION_GATED_BY)
        or key in keys
    }


def construct_workload(
    resource: Resource[Any],
    metadata: ObjectMeta,
    pod_sets: tuple[PodSet, ...],
    priority: Priority,
    label_keys_to_copy: Iterable[str],
    annotation_keys_to_copy: Collection[str] = (),
    *,
    short_name: bool = False,
    gated: bool = True,
    extra: str = "",
) -> Workload:
    """Return the workload of the job with ``metadata``, controlled by it and in its namespace.

    ``extra`` makes the names of several workloads of one job differ.
    """
    labels = {key: metadata.labels[key] for key in label_keys_to_copy if key in metadata.labels}
    if is_label_value(metadata.uid):
        labels[JOB_UID] = metadata.uid
    copied = copied_annotations(metadata, annotation_keys_to_copy, gated=gated)
    return Workload(
        metadata=ObjectMeta(
            name=workload_name(
                resource.kind, resource.group, metadata.name, metadata.uid, extra, short=short_name
            ),
            namespace=metadata.namespace,
            labels=labels,
            annotations=copied,
            finalizers=(RESOURCE_IN_USE,),
            owner_references=(owner_of(resource, metadata),),
        ),
        spec=workload_spec(metadata, pod_sets, priority),
    )


def workload_spec(queued: ObjectMeta, pod_sets: Iterable[PodSet], priority: Priority) -> WorkloadSpec:
    """Return the spec of a workload with ``pod_sets``, queued as the labels of ``queued`` say."""
    return WorkloadSpec(
        pod_sets=with_unique_items(pod_sets),
        queue_name=queue_name_of(queued),
        priority=priority.value,
        priority_class_ref=priority.source,
        maximum_execution_time_seconds=maximum_execution_s(queued),
    )


Keys = Mapping[str, tuple[tuple[str, str], ...]]
"""By list: the fields of the key of its items, each with the value that it has if it is absent."""

_OF_CONTAINER: Final[Keys] = {"env": (("name", ""),), "ports": (("containerPort", ""), ("protocol", "TCP"))}
_OF_POD: Final[Keys] = {"imagePullSecrets": (("name", ""),), "hostAliases": (("ip", ""),)}
_CONTAINERS: Final = ("initContainers", "containers")


def with_unique_items(pod_sets: Iterable[PodSet]) -> tuple[PodSet, ...]:
    """Return pod sets with the templates that a Workload can have.

    A pod may repeat a variable, a port, a pull secret or a host alias.  In Kueue's definition of the Workload
    these lists have keys, so the API server refuses a Workload with such a template.  Of items with one key
    the last is used, as for the variables of a container, and in Kueue (``SanitizePodSets``).  An amount such
    as ``0.5`` becomes a text.
    """
    return tuple(_unique(pod_set) for pod_set in pod_sets)


def _unique(pod_set: PodSet) -> PodSet:
    template = read_template(pod_set.template)
    spec = template.get("spec") or {}
    unique = with_amounts_as_text(unique_spec(spec))
    if unique == spec:
        return pod_set
    return msgspec.structs.replace(pod_set, template=msgspec.Raw(codec.encode({**template, "spec": unique})))


def unique_spec(spec: Json) -> Json:
    """Return a pod spec without the items that a later item with the same key replaces.

    Lists that are not as a pod has them are left as they are: a job without a schema may have anything.
    """
    containers = {
        field: [_with_lists(item, _OF_CONTAINER) if isinstance(item, dict) else item for item in spec[field]]
        for field in _CONTAINERS
        if isinstance(spec.get(field), list)
    }
    return _with_lists({**spec, **containers}, _OF_POD)


def _with_lists(obj: Json, keys: Keys) -> Json:
    lists = {field: _last_items(obj[field], key) for field, key in keys.items() if obj.get(field)}
    return {**obj, **lists}


def _last_items(items: Any, key: tuple[tuple[str, str], ...]) -> Any:
    try:
        unique = {tuple(item.get(field, absent) for field, absent in key): item for item in items}
    except (AttributeError, TypeError):
        return items
    return list(unique.values())
