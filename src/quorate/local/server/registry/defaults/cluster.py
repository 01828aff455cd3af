"""Defaults of the smaller kinds that depend on other fields, and their initial status."""

import base64
from collections.abc import Iterator

from quorate.api.codec import Json
from quorate.local.server.registry.autoscaler_versions import DEFAULT_UTILIZATION, cpu_target
from quorate.local.server.registry.defaults.pods import set_missing

NAME_LABEL = "kubernetes.io/metadata.name"


def default_namespace(obj: Json) -> None:
    obj["metadata"].setdefault("labels", {})[NAME_LABEL] = obj["metadata"].get("name", "")
    obj.setdefault("spec", {})


def prepare_namespace_for_create(obj: Json) -> None:
    finalizers = obj["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["status"] = {"phase": "Active"}


def prepare_namespace_for_update(new: Json, old: Json) -> None:
    """Restore spec.finalizers, which only /finalize changes."""
    new["spec"] = old.get("spec", {})


def default_node(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    if "podCIDR" in spec:
        spec.setdefault("podCIDRs", [spec["podCIDR"]])
    status = obj.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", status["capacity"])


def default_secret(obj: Json) -> None:
    """Encode stringData into data."""
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", {})
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        obj["data"] = obj.get("data", {}) | encoded


def default_limit_range(obj: Json) -> None:
    """Set the default of a container to its max, and defaultRequest to the default, else to the min."""
    for item in obj.get("spec", {}).get("limits", ()):
        if item.get("type") != "Container":
            continue
        limits = item.get("max", {}) | item.get("default", {})
        requests = item.get("min", {}) | limits | item.get("defaultRequest", {})
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


SESSION_AFFINITY_S = 10_800


def default_service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    set_missing(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        affinity = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        affinity.setdefault("timeoutSeconds", SESSION_AFFINITY_S)
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):  # clients in Go write the zero value
            port["targetPort"] = port.get("port")
    kind = spec["type"]
    if kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if "clusterIP" in spec:
            spec.setdefault("clusterIPs", [spec["clusterIP"]])


def _ip_families(spec: Json) -> Json:
    """Return the IP families; a headless service without a selector is dual-stack."""
    if spec.get("clusterIP") == "None" and not spec.get("selector"):
        return {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
    return {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}


def prepare_service_for_create(obj: Json) -> None:
    """Allocate the IP families, which the creator does not own."""
    obj["status"] = {"loadBalancer": {}}
    if obj["spec"]["type"] != "ExternalName":
        set_missing(obj["spec"], _ip_families(obj["spec"]))


def prepare_service_for_update(new: Json, old: Json) -> None:
    """Restore allocated addresses that an update leaves out, and drop what only the former type has."""
    spec = new.setdefault("spec", {})
    _drop_of_former_type(spec, old["spec"])
    if spec.get("type", "ClusterIP") == "ExternalName":
        return
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if name in old["spec"]:
            spec.setdefault(name, old["spec"][name])
    set_missing(spec, _ip_families(spec))


def _drop_of_former_type(spec: Json, former: Json) -> None:
    """Delete what the new type does not have and the update does not change."""
    kind, dropped = spec.get("type", "ClusterIP"), list[str]()
    if kind != "LoadBalancer":
        dropped += ["allocateLoadBalancerNodePorts", "healthCheckNodePort", "loadBalancerClass"]
    if kind == "ExternalName" or (kind == "ClusterIP" and not spec.get("externalIPs")):
        dropped.append("externalTrafficPolicy")
    if kind == "ExternalName":
        dropped += ["clusterIP", "clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"]
    for name in dropped:
        if name in spec and spec[name] == former.get(name):
            del spec[name]
    numbers = [[port.get("nodePort") for port in part.get("ports", ())] for part in (spec, former)]
    if kind in ("ClusterIP", "ExternalName") and numbers[0] == numbers[1]:
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)


def default_network_policy(obj: Json) -> None:
    """Set policyTypes: Ingress, and Egress if the policy has egress rules."""
    spec = obj.get("spec", {})
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


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


RBAC_GROUP = "rbac.authorization.k8s.io"


def default_binding(obj: Json) -> None:
    """Set the API group of subjects other than service accounts, and of the role."""
    for subject in obj.get("subjects", ()):
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = RBAC_GROUP
    role = obj.setdefault("roleRef", {})
    if not role.get("apiGroup"):
        role["apiGroup"] = RBAC_GROUP


def keep_metadata(new: Json, old: Json) -> None:
    """Restore the metadata that users set."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        _keep(name, new, old)


def keep_labels(new: Json, old: Json) -> None:
    _keep("labels", new, old)


def _keep(name: str, new: Json, old: Json) -> None:
    new["metadata"].pop(name, None)
    if name in old["metadata"]:
        new["metadata"][name] = old["metadata"][name]


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
