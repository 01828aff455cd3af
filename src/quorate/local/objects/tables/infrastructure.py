"""Table layouts of autoscalers, ingresses, admission policies, devices and certificates."""

from collections.abc import Sequence
from typing import Any, Final

from quorate.api.codec import Json
from quorate.api.human_duration import human_duration
from quorate.local.objects.tables.layout import (
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    TableLayout,
    age_of,
    columns,
    name_with_default,
    named,
)
from quorate.local.objects.tables.workloads import selector_text

_DEFAULT_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_METRIC_FIELDS: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_SHOWN_METRICS: Final = 2
_SHOWN_HOSTS: Final = 3
_ADDRESS_WIDTH: Final = 16


@named("Reference,Targets,MinPods,MaxPods,Replicas,Age")
def autoscaler(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec.get("metrics") or (), status.get("currentMetrics") or ()),
        str(spec["minReplicas"]) if "minReplicas" in spec else UNSET,
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age_of(obj, now),
    ]


def _metrics(specs: Sequence[Json], current: Sequence[Json]) -> str:
    """Return `cpu: 20%/50%, 100m/1k (avg)`: the current and the target value of each metric."""
    shown = [
        _metric(spec, current[index] if index < len(current) else {})
        for index, spec in enumerate(specs[:_SHOWN_METRICS])
    ]
    more = len(specs) - len(shown)
    return (", ".join(shown) + (f" + {more} more..." if more else "")) or NONE


def _metric(spec: Json, current: Json) -> str:
    field = _METRIC_FIELDS.get(spec.get("type", ""), "")
    if not field:
        return "<unknown type>"
    source, value = spec.get(field) or {}, (current.get(field) or {}).get("current") or {}
    target = source.get("target") or {}
    if field not in ("resource", "containerResource"):
        name = "averageValue" if field == "pods" or "averageValue" in target else "value"
        average = " (avg)" if name == "averageValue" and field != "pods" else ""
        return f"{value.get(name, UNKNOWN)}/{target.get(name, '')}{average}"
    if "averageValue" in target:
        return f"{source.get('name')}: {value.get('averageValue', UNKNOWN)}/{target['averageValue']}"
    now = f"{value['averageUtilization']}%" if "averageUtilization" in value else UNKNOWN
    wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>"
    return f"{source.get('name')}: {now}/{wanted}"


@named("Class,Hosts,Address,Ports,Age")
def ingress(obj: Json, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    rules = spec.get("rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    hidden = len(rules) - _SHOWN_HOSTS if len(hosts[:_SHOWN_HOSTS]) == _SHOWN_HOSTS else 0
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    addresses = {
        address.get("ip") or address.get("hostname") or "" for address in balancer.get("ingress") or ()
    }
    address = ",".join(sorted(addresses - {""}))
    return [
        spec.get("ingressClassName", NONE),
        (",".join(hosts[:_SHOWN_HOSTS]) + (f" + {hidden} more..." if hidden > 0 else "")) or "*",
        address if len(address) <= _ADDRESS_WIDTH else f"{address[: _ADDRESS_WIDTH - 3]}...",
        "80, 443" if spec.get("tls") else "80",
        age_of(obj, now),
    ]


def _ingress_class(obj: Json, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    parameters = spec.get("parameters")
    kind = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if "apiGroup" in parameters else ""
        kind = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    return [name_with_default(obj, _DEFAULT_CLASS), spec.get("controller", ""), kind, age_of(obj, now)]


INGRESS_CLASS = TableLayout((NAME, *columns("Controller,Parameters,Age")), _ingress_class)


@named("Validations:integer,ParamKind,Age")
def admission_policy(obj: Json, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    kind = spec.get("paramKind")
    parameters = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
    return [len(spec.get("validations") or ()), parameters, age_of(obj, now)]


@named("PolicyName,ParamRef,Age")
def admission_policy_binding(obj: Json, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    reference = spec.get("paramRef") or {}
    parameters = UNSET
    if reference.get("name"):
        parameters = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif "selector" in reference:
        parameters = selector_text(reference["selector"])
    return [spec.get("policyName", ""), parameters, age_of(obj, now)]


@named("State,Age")
def resource_claim(obj: Json, now: float) -> list[Any]:
    status = obj.get("status") or {}
    states = ["deleted"] if "deletionTimestamp" in obj["metadata"] else []
    if status.get("allocation"):
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    return [",".join(states) or "pending", age_of(obj, now)]


resource_slice = named("Node,Driver,Pool,Age")(
    lambda obj, now: [
        obj["spec"].get("nodeName", ""),
        obj["spec"].get("driver", ""),
        (obj["spec"].get("pool") or {}).get("name", ""),
        age_of(obj, now),
    ]
)


@named("Age,SignerName,Requestor,RequestedDuration,Condition")
def signing_request(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    types = {condition["type"] for condition in status.get("conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    state += ",Failed" if "Failed" in types else ""
    seconds = spec.get("expirationSeconds")
    return [
        age_of(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human_duration(seconds),
        state + (",Issued" if status.get("certificate") else ""),
    ]
