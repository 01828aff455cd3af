"""Defaulting and validation of Deployments, StatefulSets and LeaderWorkerSets.

These sets cannot be suspended; their pods are gated instead.  With webhooks an annotation in the pod template
is enough, because the webhook gates each pod at its creation; without webhooks the template has the gate.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.field_path import Path, format_path, look_up, read_entries, read_field, with_field
from quorate.api.findings import Finding
from quorate.api.names.kueue import PRIORITY_CLASS, QUEUE_NAME
from quorate.api.normal_form import with_amounts_in_nanos
from quorate.controllers.pods import constants
from quorate.controllers.pods.defaulting import DefaultingContext, gates_of, labels_of, with_default_queue
from quorate.controllers.pods.queued_pod import role_shape
from quorate.kube.resources import Json

_QUEUE_PATH: Final = f"metadata.labels[{QUEUE_NAME}]"


@dataclass(frozen=True, slots=True)
class SetKind:
    """One kind of set; ``ready`` is the path of the number of its ready pods."""

    framework: str
    templates: tuple[Path, ...]
    ready: Path
    copies_labels: bool  # each pod is queued individually and needs the label of the queue


DEPLOYMENT: Final = SetKind(constants.DEPLOYMENT, (("spec", "template"),), ("status", "readyReplicas"), True)
STATEFUL_SET: Final = SetKind("statefulset", (("spec", "template"),), ("status", "readyReplicas"), False)
LEADER_WORKER_SET: Final = SetKind(
    "leaderworkerset.x-k8s.io/leaderworkerset",
    (("spec", "leaderWorkerTemplate", "leaderTemplate"), ("spec", "leaderWorkerTemplate", "workerTemplate")),
    ("status", "readyReplicas"),
    False,
)
_SIZE: Final[Path] = ("spec", "leaderWorkerTemplate", "size")


def default_set(kind: SetKind, obj: Json, context: DefaultingContext) -> Json:
    """Annotate the templates of a set that is to be queued; return any other set unchanged.

    Raises ``InvalidTemplate``.
    """
    if not context.namespace_managed or context.is_child or is_stamped_by_other(kind, obj):
        return obj
    queued = with_default_queue(obj, context)
    if not (queue_of(queued) or context.manage_without_queue_name):
        return queued
    marked = queued
    for path in _template_paths(kind, marked):
        metadata: Path = (*path, "metadata")
        marked = _extended(marked, (*metadata, "annotations"), {constants.SUSPENDING_PARENT: kind.framework})
        if kind.copies_labels:
            marked = _extended(marked, (*metadata, "labels"), _inherited_labels(queued))
    return marked


def gate_templates(kind: SetKind, obj: Json, context: DefaultingContext) -> Json:
    """Add the gates to the templates, so that pods are gated without a webhook.

    Raises ``InvalidTemplate``.
    """
    gated = obj
    for path in _template_paths(kind, gated):
        gates_path: Path = (*path, "spec", "schedulingGates")
        for name in gates_of(context):
            gates = read_entries(gated, gates_path)
            if name not in [gate.get("name") for gate in gates]:
                gated = with_field(gated, gates_path, [*gates, {"name": name}])
    return gated


def _extended(obj: Json, path: Path, added: Json) -> Json:
    extended: Json = with_field(obj, path, {**read_field(obj, path, dict, {}), **added})
    return extended


def _template_paths(kind: SetKind, obj: Json) -> Sequence[Path]:
    """Return the paths of the existing templates."""
    return [path for path in kind.templates if isinstance(look_up(obj, path), dict)]


def _inherited_labels(obj: Json) -> dict[str, str]:
    inherited = {QUEUE_NAME: queue_of(obj), PRIORITY_CLASS: labels_of(obj).get(PRIORITY_CLASS)}
    return {**{key: value for key, value in inherited.items() if value}, constants.MANAGED: "true"}


def templates_in(kind: SetKind, obj: Json) -> Sequence[Json]:
    """Return the existing templates; the caller may change them in place."""
    templates = (look_up(obj, path) for path in kind.templates)
    return [template for template in templates if isinstance(template, dict)]


def is_stamped_by_other(kind: SetKind, obj: Json) -> bool:
    """Return True if the pods of a set belong to a set of another kind, which made its template."""
    path = ("metadata", "annotations", constants.SUSPENDING_PARENT)
    stamps = {look_up(template, path) for template in templates_in(kind, obj)}
    return not stamps <= {None, kind.framework}


def queue_of(obj: Json) -> str:
    """Return the queue name of a set; the annotation is the older form."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return str(labels_of(obj).get(QUEUE_NAME) or annotations.get(QUEUE_NAME) or "")


def ready_pods(kind: SetKind, obj: Json) -> int:
    ready = look_up(obj, kind.ready)
    return ready if isinstance(ready, int) else 0


def set_findings(kind: SetKind, new: Json, old: Json | None) -> Iterator[Finding]:
    """Validate the queue name: immutable while pods are ready, and never removed."""
    if old is None:
        return
    was, now = queue_of(old), queue_of(new)
    if was and not now:
        yield Finding(_QUEUE_PATH, now, f"cannot be removed (was {was!r})")
    elif was != now and ready_pods(kind, old) > 0:
        yield Finding(_QUEUE_PATH, now, f"is immutable while pods of the set are ready (was {was!r})")


@dataclass(frozen=True, slots=True)
class ScaleDownState:
    """What exists of a StatefulSet that was scaled to 0."""

    pods: bool = False
    active_workload: bool = False  # one that is not on hold


def stateful_set_findings(new: Json, old: Json | None, remains: ScaleDownState) -> Iterator[Finding]:
    """Validate an update of a queued StatefulSet; its workload has one pod for each replica."""
    yield from set_findings(STATEFUL_SET, new, old)
    if old is None or not (queue_of(new) and queue_of(old)):
        return
    was, now = replicas(old), replicas(new)
    path = "spec.replicas"
    if was != now and 0 not in (was, now):
        yield Finding(path, now, f"can only change to and from 0 while the set is queued (was {was})")
    elif was == 0 and now > 0 and (remains.pods or remains.active_workload):
        yield Finding(path, now, "must stay 0 for now: scaling down is still in progress")
    yield from _template_findings(STATEFUL_SET, new, old)


def _template_findings(kind: SetKind, new: Json, old: Json) -> Iterator[Finding]:
    """Validate an update of the templates of a queued set: its workloads keep the pod sets they have."""
    for template in kind.templates:
        path: Path = (*template, "spec")
        was, now = (look_up(version, path) for version in (old, new))
        if was == now:
            continue
        shapes = (None if spec is None else role_shape(with_amounts_in_nanos(spec)) for spec in (was, now))
        for place in _changed_places(*shapes):
            rule = "is immutable in what its pods ask of the cluster"
            yield Finding(format_path((*path, *place)), look_up(new, (*path, *place)), rule)


def _changed_places(was: Any, now: Any) -> Iterator[Path]:
    """Return the paths of the innermost fields that differ."""
    match was, now:
        case dict(), dict():
            for name in sorted(was.keys() | now.keys()):
                yield from ((name, *place) for place in _changed_places(was.get(name), now.get(name)))
        case list(), list() if len(was) == len(now):
            for index, items in enumerate(zip(was, now, strict=True)):
                yield from ((index, *place) for place in _changed_places(*items))
        case _ if was != now:
            yield ()


def leader_worker_set_findings(
    new: Json, old: Json | None, *, immutable_size: bool = True
) -> Iterator[Finding]:
    """Validate an update of a queued LeaderWorkerSet.

    Without ``immutable_size`` its groups may grow; the workloads with quota keep their size.
    """
    yield from set_findings(LEADER_WORKER_SET, new, old)
    if old is None or not (queue_of(new) and queue_of(old)):
        return
    yield from _template_findings(LEADER_WORKER_SET, new, old)
    if not immutable_size:
        return
    was, now = look_up(old, _SIZE), look_up(new, _SIZE)
    if was != now:
        rule = f"is immutable while the set is queued (was {was})"
        yield Finding("spec.leaderWorkerTemplate.size", now, rule)


def replicas(obj: Json) -> int:
    count = look_up(obj, ("spec", "replicas"))
    return count if isinstance(count, int) else 1
