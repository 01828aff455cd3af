"""Defaults of autoscalers and device claims, and the server-owned fields of certificate requests."""

from collections.abc import Iterator

from quorate.api.codec import Json
from quorate.local.server.registry.autoscaler_versions import DEFAULT_UTILIZATION, cpu_target
from quorate.local.server.registry.defaults.pods import set_missing

SCALE_PERIOD_S = 15


def default_autoscaler(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    set_missing(spec, {"minReplicas": 1, "metrics": [cpu_target(DEFAULT_UTILIZATION)]})
    behavior = spec.get("behavior")
    if behavior is None:
        return
    double = {"type": "Percent", "value": 100, "periodSeconds": SCALE_PERIOD_S}
    add_four = {"type": "Pods", "value": 4, "periodSeconds": SCALE_PERIOD_S}
    set_missing(
        behavior.setdefault("scaleUp", {}),
        {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [add_four, double]},
    )
    set_missing(behavior.setdefault("scaleDown", {}), {"selectPolicy": "Max", "policies": [dict(double)]})


def default_autoscaler_v1(obj: Json) -> None:
    obj.setdefault("spec", {}).setdefault("minReplicas", 1)


def default_claim(obj: Json) -> None:
    _default_requests(obj.get("spec", {}))


def default_claim_template(obj: Json) -> None:
    template = obj.setdefault("spec", {})
    template.setdefault("metadata", {})
    _default_requests(template.get("spec", {}))


def _default_requests(spec: Json) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        for alternative in _alternatives(request):
            alternative.setdefault("allocationMode", "ExactCount")
            if alternative["allocationMode"] == "ExactCount" and not alternative.get("count"):
                alternative["count"] = 1


def _alternatives(request: Json) -> Iterator[Json]:
    if "exactly" in request:
        yield request["exactly"]
    yield from request.get("firstAvailable", ())


def keep_request(new: Json, old: Json) -> None:
    """Restore the spec of a certificate request, which never changes."""
    new["spec"] = old["spec"]


def prepare_request_status(new: Json, old: Json) -> None:
    """Restore the conditions of a certificate request with which an approver decided it."""
    was = {condition.get("type"): condition for condition in old.get("status", {}).get("conditions", ())}
    conditions = new["status"].get("conditions", [])
    for index, condition in enumerate(conditions):
        if condition.get("type") in ("Approved", "Denied") and condition["type"] in was:
            conditions[index] = was[condition["type"]]


def keep_certificate(new: Json, old: Json) -> None:
    """Restore all of a certificate request's status but its conditions, which an approver sets."""
    kept = {name: value for name, value in old.get("status", {}).items() if name != "conditions"}
    new["status"] = kept | {name: value for name, value in new["status"].items() if name == "conditions"}
