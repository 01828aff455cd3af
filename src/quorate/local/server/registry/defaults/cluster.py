"""Volumes, claims and the classes of storage."""

import base64
from typing import Any

from quorate.local.server.registry.defaults.pods import fill

Json = dict[str, Any]

NAME_LABEL = "kubernetes.io/metadata.name"


def namespace(obj: Json) -> None:
    obj["metadata"].setdefault("labels", {})[NAME_LABEL] = obj["metadata"].get("name", "")
    obj.setdefault("spec", {})


def begin_namespace(obj: Json) -> None:
    finalizers = obj["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["status"] = {"phase": "Active"}


def carry_namespace(new: Json, old: Json) -> None:
    """Only /finalize changes the finalizers in spec."""
    new["spec"] = old.get("spec", {})


def node(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    if "podCIDR" in spec:
        spec.setdefault("podCIDRs", [spec["podCIDR"]])
    status = obj.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", status["capacity"])


def secret(obj: Json) -> None:
    """Plain strings become data, and never come back."""
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", {})
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        obj["data"] = obj.get("data", {}) | encoded


def limit_range(obj: Json) -> None:
    """A container's limit is its maximum if no other is given, its request the limit, else the minimum."""
    for item in obj.get("spec", {}).get("limits", ()):
        if item.get("type") != "Container":
            continue
        limits = item.get("max", {}) | item.get("default", {})
        requests = item.get("min", {}) | limits | item.get("defaultRequest", {})
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def priority_class(obj: Json) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def begin_without_status(obj: Json) -> None:
    obj["status"] = {}


def service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    for port in spec.get("ports", ()):
        fill(port, {"protocol": "TCP", "targetPort": port.get("port")})
    kind = spec["type"]
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if kind != "ExternalName":
        fill(spec, {"internalTrafficPolicy": "Cluster"} | _families(spec))
        if "clusterIP" in spec:
            spec.setdefault("clusterIPs", [spec["clusterIP"]])


def _families(spec: Json) -> Json:
    """A service without an address and without pods of its own may stand for anything."""
    if spec.get("clusterIP") == "None" and not spec.get("selector"):
        return {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
    return {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}


def begin_service(obj: Json) -> None:
    obj["status"] = {"loadBalancer": {}}


def carry_service(new: Json, old: Json) -> None:
    """Addresses and node ports, once given, stay when an update leaves them out."""
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if name in old["spec"] and new.get("spec", {}).get("type", "ClusterIP") != "ExternalName":
            new.setdefault("spec", {}).setdefault(name, old["spec"][name])


def disruption_budget(obj: Json) -> None:
    obj.setdefault("spec", {})


def network_policy(obj: Json) -> None:
    """A policy is about traffic that comes in, and about what goes out if it has a rule for it."""
    spec = obj.get("spec", {})
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


def endpoints(obj: Json) -> None:
    for subset in obj.get("subsets", ()):
        for port in subset.get("ports", ()):
            port.setdefault("protocol", "TCP")


def endpoint_slice(obj: Json) -> None:
    for port in obj.get("ports") or ():
        fill(port, {"name": "", "protocol": "TCP"})


def api_service(obj: Json) -> None:
    service = obj.setdefault("spec", {}).get("service")
    if service:
        service.setdefault("port", 443)


def volume(obj: Json) -> None:
    fill(obj.setdefault("spec", {}), {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def claim(obj: Json) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def begin_pending(obj: Json) -> None:
    obj["status"] = {"phase": "Pending"}


def storage_class(obj: Json) -> None:
    fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


HTTPS_PORT = 443
TIMEOUT_S = 10


def validating(configuration: Json) -> None:
    for webhook in configuration.get("webhooks", ()):
        _fill_in(webhook)


def mutating(configuration: Json) -> None:
    for webhook in configuration.get("webhooks", ()):
        _fill_in(webhook)
        webhook.setdefault("reinvocationPolicy", "Never")


def _fill_in(webhook: Json) -> None:
    fill(
        webhook,
        {
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "timeoutSeconds": TIMEOUT_S,
        },
    )
    for rule in webhook.get("rules", ()):
        rule.setdefault("scope", "*")
    service = webhook.get("clientConfig", {}).get("service")
    if service:
        service.setdefault("port", HTTPS_PORT)
