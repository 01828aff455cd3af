"""Sets of pods in a cluster without webhooks: their templates get the gate from here.

Pods that a set has made by then run outside of quota and cannot be gated any more.  So the set is scaled to
nothing with the same write, and back once they are gone.  A set that serves already is not interrupted:
whoever gave it a queue is told what to do.
"""

from typing import Final

from quorate.api.field_path import look_up
from quorate.controllers.pods import constants
from quorate.controllers.pods.adoption import NOT_GATED
from quorate.controllers.pods.defaulting import Setting
from quorate.controllers.pods.plan import IDLE, PodPlan, warned
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

_QUEUED: Final = Setting(namespace_managed=True, manage_without_queue_name=True)  # that is known by now
RESTING: Final = "quorate.dev/replicas-before-gating"  # how many pods the set is to have again


def decide_template(kind: SetKind, resource: Resource[ServingSet], obj: ServingSet) -> PodPlan | None:
    """What a queued set needs before its pods can be admitted; ``None``: it is ready for that."""
    document = obj.document
    resting = obj.metadata.annotations.get(RESTING)
    if resting is not None:
        if not _is_at_rest(document):
            return IDLE
        woken = {"metadata": {"annotations": {RESTING: None}}, "spec": {"replicas": int(resting)}}
        return _patched(resource, obj, woken)
    if all(_is_marked(template) for template in templates_in(kind, document)):
        return None
    if ready_pods(kind, document):
        why = (
            f"pods of the set run outside of all quota, since its template lacks the scheduling gate "
            f"{constants.ADMISSION_GATE}: scale it to 0 and back, or install the webhooks before it is made"
        )
        return PodPlan(told=(warned(reference_to(resource, obj), NOT_GATED, why),))
    wanted = replicas(document)
    gated = gate_templates(kind, default_set(kind, document, _QUEUED))
    change = merge_patch({"spec": obj.spec}, {"spec": gated["spec"]})
    if wanted:
        change = {
            "metadata": {"annotations": {RESTING: str(wanted)}},
            "spec": {**change["spec"], "replicas": 0},
        }
    return _patched(resource, obj, change)


def _is_marked(template: Json) -> bool:
    """Whether a webhook saw the set, or this did: the pods of the template are gated either way."""
    annotations = look_up(template, ("metadata", "annotations")) or {}
    return constants.SUSPENDING_PARENT in annotations


def _is_at_rest(document: Json) -> bool:
    """Whether the set's own controller has seen that it is to have no pods, and it has none."""
    seen = look_up(document, ("status", "observedGeneration")) or 0
    present = look_up(document, ("status", "replicas")) or 0
    return bool(seen >= document["metadata"].get("generation", 0) and present == 0)


def _patched(resource: Resource[ServingSet], obj: ServingSet, change: Json) -> PodPlan:
    metadata = obj.metadata
    return PodPlan(workload=(Patch(resource, metadata.key, metadata.resource_version, change),))
