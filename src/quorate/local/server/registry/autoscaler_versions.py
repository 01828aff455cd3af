"""Conversion of HorizontalPodAutoscalers between autoscaling/v1 and autoscaling/v2, in which they are stored.

v1 has a target for the utilization of CPU only. What else v2 has is in annotations of the v1 object, as in
kube-apiserver.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from quorate.api.codec import Json
from quorate.local.objects.decoding import UndecodableObject, decode_object
from quorate.local.objects.schema_types import builtin_type

PREFIX = "autoscaling.alpha.kubernetes.io/"
KEPT_FIELDS = (
    ("spec", "metrics", f"{PREFIX}metrics"),
    ("spec", "behavior", f"{PREFIX}behavior"),
    ("status", "currentMetrics", f"{PREFIX}current-metrics"),
    ("status", "conditions", f"{PREFIX}conditions"),
)
"""Fields that v1 lacks, with the annotation that has the content as JSON."""
DEFAULT_UTILIZATION = 80
TARGET, CURRENT = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"


async def convert_v1(objects: Sequence[Json], to_stored: bool) -> list[Json]:
    return [to_v2(obj) if to_stored else to_v1(obj) for obj in objects]


def to_v2(obj: Json) -> Json:
    """Return an autoscaler of autoscaling/v1 in version v2."""
    parts: dict[str, Json] = {"spec": dict(obj.get("spec") or {}), "status": dict(obj.get("status") or {})}
    annotations = dict(obj["metadata"].get("annotations") or {})
    for part, field, annotation in KEPT_FIELDS:
        kept = _decoded(part, field, annotations.pop(annotation, ""))
        if kept:
            parts[part][field] = kept
    target = parts["spec"].pop(TARGET, None)
    metrics = parts["spec"].get("metrics", [])
    if target is not None or not metrics:
        parts["spec"]["metrics"] = [*metrics, cpu_target(DEFAULT_UTILIZATION if target is None else target)]
    current = parts["status"].pop(CURRENT, None)
    if current is not None and "currentMetrics" not in parts["status"]:
        resource = {"name": "cpu", "current": {"averageUtilization": current}}
        parts["status"]["currentMetrics"] = [{"type": "Resource", "resource": resource}]
    if not parts["status"].get("currentReplicas"):
        parts["status"].pop("currentReplicas", None)
    metadata = _annotated(obj["metadata"], annotations)
    return obj | parts | {"apiVersion": "autoscaling/v2", "metadata": metadata}


def to_v1(obj: Json) -> Json:
    """Return an autoscaler of autoscaling/v2 in version v1."""
    parts: dict[str, Json] = {
        "spec": dict(obj["spec"]),
        "status": {"currentReplicas": 0, "desiredReplicas": 0} | (obj.get("status") or {}),
    }
    annotations = dict(obj["metadata"].get("annotations") or {})
    targets = [metric for metric in parts["spec"].get("metrics") or () if cpu_utilization(metric) is not None]
    if targets:
        parts["spec"][TARGET] = cpu_utilization(targets[0])
        parts["spec"]["metrics"] = [metric for metric in parts["spec"]["metrics"] if metric not in targets]
    for metric in parts["status"].get("currentMetrics") or ():
        resource = metric.get("resource") or {}
        if resource.get("name") == "cpu" and "averageUtilization" in (resource.get("current") or {}):
            parts["status"][CURRENT] = resource["current"]["averageUtilization"]
    for part, field, annotation in KEPT_FIELDS:
        kept = parts[part].pop(field, None)
        if kept:
            annotations[annotation] = msgspec.json.encode(kept).decode()
    metadata = _annotated(obj["metadata"], annotations)
    return obj | parts | {"apiVersion": "autoscaling/v1", "metadata": metadata}


def cpu_target(utilization: int) -> Json:
    """Return the metric of v2 for a target in percent of the requested CPU."""
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def cpu_utilization(metric: Json) -> int | None:
    """Return the target utilization of CPU in percent; None for any other metric."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    utilization: int | None = (resource.get("target") or {}).get("averageUtilization")
    return utilization


def _annotated(metadata: Json, annotations: Json) -> Json:
    others = {name: value for name, value in metadata.items() if name != "annotations"}
    return others | ({"annotations": annotations} if annotations else {})


def _decoded(part: str, field: str, text: str) -> Any:
    """Return the content of an annotation as a field of v2; None if it is no JSON of that type."""
    type_ = builtin_type("autoscaling/v2", "HorizontalPodAutoscaler")
    assert type_ is not None
    try:
        autoscaler, _ = decode_object({part: {field: msgspec.json.decode(text)}}, type_)
    except (msgspec.DecodeError, UndecodableObject):
        return None
    return autoscaler[part].get(field)
