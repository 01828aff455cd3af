"""Gating of pod templates in a cluster without webhooks.

Pods that a set has created before run without quota and cannot be gated any more.  The same write scales the
set to 0, and another one scales it up again once the pods are gone; a set that is scaled meanwhile is scaled
to 0 again.  A set with ready pods is not interrupted: an event explains what to do.
"""

import re
from typing import Final

from quorate.api.field_path import look_up, read_entries, read_field
from quorate.controllers.executor import Plan, warning_event
from quorate.controllers.pods import constants
from quorate.controllers.pods.defaulting import NOT_GATED, DefaultingContext
from quorate.controllers.serving.kinds import ServingSet
from quorate.controllers.serving.set_templates import (
    SetKind,
    default_set,
    gate_templates,
    ready_pods,
    replicas,
    templates_in,
)
from quorate.kube.patches import merge_patch
from quorate.kube.resources import Json, Resource, reference_to
from quorate.kube.writes import Patch

REPLICAS_BEFORE_GATING: Final = "quorate.dev/replicas-before-gating"
_REPLICAS: Final = re.compile(r"[0-9]{1,9}")  # users may write the annotation, too


def gate_plan(
    kind: SetKind,
    resource: Resource[ServingSet],
    obj: ServingSet,
    *,
    has_pods: bool = False,
    topology: bool = False,
) -> Plan | None:
    """Return what a set needs before its pods can be admitted; None: it is gated.

    ``has_pods``: a pod of the set exists, which its status may not count yet.
    ``topology``: pods may get places in topologies, for which they wait behind a gate of its own.
    Raises ``InvalidTemplate``.
    """
    document = obj.document
    before = obj.metadata.annotations.get(REPLICAS_BEFORE_GATING)
    wanted = replicas(document)
    if before is not None and wanted:  # scaled since, while pods without the gate may be left
        return _patch(resource, obj, _scaled_down(wanted, {}))
    if before is not None:
        if not _is_scaled_down(document, has_pods):
            return Plan()
        scaled_up = {
            "metadata": {"annotations": {REPLICAS_BEFORE_GATING: None}},
            "spec": {"replicas": int(before) if _REPLICAS.fullmatch(before) else 1},
        }
        return _patch(resource, obj, scaled_up)
    if all(_is_marked(template) for template in templates_in(kind, document)):
        return None
    if ready_pods(kind, document):
        text = (
            f"pods of the set run outside of all quota, since its template lacks the scheduling gate "
            f"{constants.ADMISSION_GATE}: scale it to 0 and back, or install the webhooks before it is made"
        )
        return Plan(events=(warning_event(reference_to(resource, obj.metadata), NOT_GATED, text),))
    queued = DefaultingContext(  # checked by the reconciler
        namespace_managed=True, manage_without_queue_name=True, topology=topology
    )
    gated = gate_templates(kind, default_set(kind, document, queued), queued)
    change = merge_patch({"spec": obj.spec}, {"spec": gated["spec"]})
    return _patch(resource, obj, _scaled_down(wanted, change["spec"]) if wanted else change)


def _scaled_down(wanted: int, spec: Json) -> Json:
    """Return the change ``spec`` with a scale to 0 that remembers how many replicas are wanted."""
    return {
        "metadata": {"annotations": {REPLICAS_BEFORE_GATING: str(wanted)}},
        "spec": {**spec, "replicas": 0},
    }


def _is_marked(template: Json) -> bool:
    """Return True if the webhook or ``gate_plan`` has changed the template."""
    return look_up(template, ("metadata", "annotations", constants.SUSPENDING_PARENT)) is not None


def _is_scaled_down(document: Json, has_pods: bool) -> bool:
    """Return True if the set's own controller has observed the scale to 0 and no pod is left.

    The status of a LeaderWorkerSet has no ``observedGeneration``. It is available without a ready group only
    once its controller has observed the scale to 0, perhaps before its StatefulSet has.
    """
    if read_field(document, ("status", "replicas"), int, 0) > 0:
        return False
    observed = read_field(document, ("status", "observedGeneration"), int, -1)
    if observed < 0:
        conditions = read_entries(document, ("status", "conditions"))
        states = {(condition.get("type"), condition.get("status")) for condition in conditions}
        return not has_pods and ("Available", "True") in states
    return bool(observed >= document["metadata"].get("generation", 0))


def _patch(resource: Resource[ServingSet], obj: ServingSet, change: Json) -> Plan:
    metadata = obj.metadata
    return Plan(writes=(Patch(resource, metadata.key, metadata.resource_version, change),))
