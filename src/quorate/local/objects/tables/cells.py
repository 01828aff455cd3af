"""Functions that compute a cell of a kubectl table from a whole object, such as the status of a pod.

``builtin.yaml`` names the function of each such column; other columns show the value of one field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from quorate.api.codec import Json
from quorate.api.human_duration import age as elapsed
from quorate.api.human_duration import epoch, human_duration
from quorate.local.objects.tables.layout import NONE, UNKNOWN, UNSET, age_of


def _spec(obj: Json) -> Json:
    return obj.get("spec") or {}


def _status(obj: Json) -> Json:
    return obj.get("status") or {}


def value_at(obj: Json, path: str, absent: Any) -> Any:
    """Return the value of the field at a path, or ``absent``."""
    return value_below(obj, path.split("."), absent)


def value_below(obj: Json, names: Iterable[str], absent: Any) -> Any:
    """Return the value that the names lead to, or ``absent``."""
    value: Any = obj
    for name in names:
        if not isinstance(value, dict) or value.get(name) is None:
            return absent
        value = value[name]
    return value


def _name_with_default(obj: Json, annotation: str) -> str:
    """Return the name of a class, followed by (default) if the annotation marks it as the default class."""
    metadata = obj["metadata"]
    is_default = (metadata.get("annotations") or {}).get(annotation) == "true"
    return f"{metadata['name']} (default)" if is_default else str(metadata["name"])


def pod_group_state(obj: Json) -> str:
    """Return the reason of a disruption, else whether the group is scheduled."""
    conditions = {condition["type"]: condition for condition in _status(obj).get("conditions") or ()}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"]["reason"])
    if "PodGroupScheduled" not in conditions:
        return "Pending"
    return "Scheduled" if conditions["PodGroupScheduled"]["status"] == "True" else "Unschedulable"


def node_states(obj: Json) -> str:
    ready = [c for c in _status(obj).get("conditions") or [] if c["type"] == "Ready"]
    states = ["Ready" if ready[0]["status"] == "True" else "NotReady"] if ready else ["Unknown"]
    if _spec(obj).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _roles(labels: Json) -> Iterator[str]:
    prefix = "node-role.kubernetes.io/"
    for key, value in labels.items():
        if key.startswith(prefix) and key != prefix:
            yield key.removeprefix(prefix)
        elif key == "kubernetes.io/role" and value:
            yield value


def _address(obj: Json, type_: str) -> str:
    addresses = {address["type"]: address["address"] for address in _status(obj).get("addresses") or []}
    return str(addresses.get(type_, NONE))


def kernel(obj: Json) -> str:
    info = _status(obj).get("nodeInfo") or {}
    version = info.get("kernelVersion") or UNKNOWN
    return f"{version} ({info['architecture']})" if info.get("architecture") else str(version)


_SHORT: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}  # in display order


def _modes(given: Iterable[str]) -> str:
    modes = set(given)
    return ",".join(short for mode, short in _SHORT.items() if mode in modes)


def claim(obj: Json) -> str:
    reference = _spec(obj).get("claimRef") or {}
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _is_bound(claim: Json) -> bool:
    return bool(_spec(claim).get("volumeName"))


def token_audiences(obj: Json) -> str:
    tokens = _spec(obj).get("tokenRequests")
    return UNSET if tokens is None else ",".join(token.get("audience", "") for token in tokens)


def selector_text(selector: Json | None) -> str:
    """Return `a=b,c in (d,e)`; `<none>` for an empty selector."""
    selector = selector or {}
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for requirement in selector.get("matchExpressions") or []:
        key, values = requirement["key"], ",".join(sorted(requirement.get("values") or []))
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[requirement["operator"]]
        )
    return ",".join(parts) or NONE


def labels_text(labels: Json | None) -> str:
    """Return `a=b,c=d`; `<none>` without labels."""
    return selector_text({"matchLabels": labels or {}})


def _template(obj: Json) -> Json:
    """Return the pod template of an object, of its spec, or of the job that it starts."""
    owner = obj if "template" in obj else obj["spec"]
    template: Json = owner["jobTemplate"]["spec"]["template"] if "jobTemplate" in owner else owner["template"]
    return template


def _containers(obj: Json) -> Sequence[Json]:
    containers: Sequence[Json] = _template(obj)["spec"]["containers"]
    return containers


def selector(obj: Json) -> str:
    spec = obj["spec"]
    return selector_text((spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec).get("selector"))


def last_schedule(obj: Json, now: float) -> str:
    last = _status(obj).get("lastScheduleTime")
    return elapsed(last, now) if last else NONE


_JOB_STATES: Final = (
    "Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet",
)  # fmt: skip


def job_state(obj: Json) -> str:
    holding = {c["type"] for c in _status(obj).get("conditions") or [] if c["status"] == "True"}
    if "deletionTimestamp" in obj["metadata"]:
        holding.add("Terminating")
    return next((state for state in _JOB_STATES if state in holding), "Running")


def completions(obj: Json) -> str:
    parallelism, wanted = obj["spec"].get("parallelism", 0), obj["spec"].get("completions")
    if wanted is None:
        wanted = f"1 of {parallelism}" if parallelism > 1 else 1
    return f"{_status(obj).get('succeeded', 0)}/{wanted}"


def job_duration(obj: Json, now: float) -> str:
    status = _status(obj)
    if not status.get("startTime"):
        return ""
    end = epoch(status["completionTime"]) if status.get("completionTime") else now
    return human_duration(end - epoch(status["startTime"]))


def controller(obj: Json) -> str:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            return f"{owner['kind'].lower()}{'.' if group else ''}{group}/{owner['name']}"
    return NONE


def external_addresses(obj: Json) -> str:
    spec = _spec(obj)
    kind, external = spec.get("type", "ClusterIP"), list(spec.get("externalIPs") or [])
    if kind == "ExternalName":
        external = [spec.get("externalName", "")]
    elif kind == "LoadBalancer":
        external = [
            address.get("ip") or address.get("hostname") or "" for address in _ingress(obj)
        ] + external
    return ",".join(external) or ("<pending>" if kind == "LoadBalancer" else NONE)


def _ingress(obj: Json) -> Sequence[Json]:
    """Return the addresses of the load balancer of a service or an ingress."""
    return (_status(obj).get("loadBalancer") or {}).get("ingress") or ()


def _port(port: Json) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


_SHOWN_HOSTS: Final = 3
_ADDRESS_WIDTH: Final = 16


def hosts(obj: Json) -> str:
    rules = _spec(obj).get("rules") or ()
    names = [rule["host"] for rule in rules if rule.get("host")]
    hidden = len(rules) - _SHOWN_HOSTS if len(names) >= _SHOWN_HOSTS else 0
    return (",".join(names[:_SHOWN_HOSTS]) + (f" + {hidden} more..." if hidden > 0 else "")) or "*"


def ingress_address(obj: Json) -> str:
    addresses = {address.get("ip") or address.get("hostname") or "" for address in _ingress(obj)}
    text = ",".join(sorted(addresses - {""}))
    return text if len(text) <= _ADDRESS_WIDTH else f"{text[: _ADDRESS_WIDTH - 3]}..."


def ingress_parameters(obj: Json) -> str:
    parameters = _spec(obj).get("parameters")
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if "apiGroup" in parameters else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


_METRIC_FIELDS: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_SHOWN_METRICS: Final = 2


def scale_target(obj: Json) -> str:
    target = obj["spec"].get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def metrics(obj: Json) -> str:
    """Return `cpu: 20%/50%, 100m/1k (avg)`: the current and the target value of each metric."""
    specs, current = obj["spec"].get("metrics") or (), _status(obj).get("currentMetrics") or ()
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


def _quota(obj: Json, *, limits: bool) -> str:
    hard, used = _status(obj).get("hard") or {}, _status(obj).get("used") or {}
    names = (name for name in sorted(hard) if name.startswith("limits.") == limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def _subjects(obj: Json, kind: str) -> str:
    of_kind = (subject for subject in obj.get("subjects") or () if subject["kind"] == kind)
    return ", ".join(
        f"{s['namespace']}/{s['name']}" if kind == "ServiceAccount" else s["name"] for s in of_kind
    )


def parameter_kind(obj: Json) -> str:
    kind = _spec(obj).get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def parameter_reference(obj: Json) -> str:
    reference = _spec(obj).get("paramRef") or {}
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return selector_text(reference["selector"]) if "selector" in reference else UNSET


def claim_state(obj: Json) -> str:
    status = _status(obj)
    states = ["deleted"] if "deletionTimestamp" in obj["metadata"] else []
    if status.get("allocation"):
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    return ",".join(states) or "pending"


def requested_duration(obj: Json) -> str:
    seconds = obj["spec"].get("expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def request_state(obj: Json) -> str:
    status = _status(obj)
    types = {condition["type"] for condition in status.get("conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    return state + (",Failed" if "Failed" in types else "") + (",Issued" if status.get("certificate") else "")


MOST_LISTED: Final = 3


def _first(items: Sequence[str], absent: str) -> str:
    """Return the first three items, and how many there are beside them; ``absent`` if there is none."""
    text = ",".join(items[:MOST_LISTED])
    more = len(items) - MOST_LISTED
    return f"{text} + {more} more..." if more > 0 else text or absent


def endpoints(obj: Json) -> str:
    """Return the addresses of Endpoints, each with each port."""
    subsets = obj.get("subsets") or ()
    listed = [
        f"[{ip}]:{port}" if port and ":" in ip else f"{ip}:{port}" if port else ip
        for subset in subsets
        for port in [part.get("port", 0) for part in subset.get("ports") or ()] or [None]
        for ip in (address["ip"] for address in subset.get("addresses") or ())
    ]
    return _first(listed, "" if subsets else NONE)


def slice_ports(obj: Json) -> str:
    ports = obj.get("ports") or ()
    return _first([str(port.get("port", port.get("name", "*"))) for port in ports], UNSET)


def slice_addresses(obj: Json) -> str:
    listed = [address for part in obj.get("endpoints") or () for address in part.get("addresses") or ()]
    return _first(listed, UNSET)


CELLS: Mapping[str, Callable[[Json], Any]] = {
    "claim": claim,
    "endpoints": endpoints,
    "maximum_unavailable": lambda obj: str(value_at(obj, "spec.maxUnavailable", "N/A")),
    "minimum_available": lambda obj: str(value_at(obj, "spec.minAvailable", "N/A")),
    "pod_selector": lambda obj: selector_text(_spec(obj).get("podSelector")),
    "slice_addresses": slice_addresses,
    "slice_ports": slice_ports,
    "claim_capacity": lambda obj: value_at(obj, "status.capacity.storage", "") if _is_bound(obj) else "",
    "claim_modes": lambda obj: _modes(_status(obj).get("accessModes") or ()) if _is_bound(obj) else "",
    "claim_state": claim_state,
    "cluster_ip": lambda obj: (_spec(obj).get("clusterIPs") or [_spec(obj).get("clusterIP") or NONE])[0],
    "completions": completions,
    "containers": lambda obj: ",".join(container["name"] for container in _containers(obj)),
    "controller": controller,
    "data_count": lambda obj: len(obj.get("data") or {}) + len(obj.get("binaryData") or {}),
    "external_addresses": external_addresses,
    "external_ip": lambda obj: _address(obj, "ExternalIP"),
    "groups": lambda obj: _subjects(obj, "Group"),
    "hosts": hosts,
    "images": lambda obj: ",".join(container.get("image", "") for container in _containers(obj)),
    "ingress_address": ingress_address,
    "ingress_class_name": lambda obj: _name_with_default(obj, "ingressclass.kubernetes.io/is-default-class"),
    "ingress_parameters": ingress_parameters,
    "ingress_ports": lambda obj: "80, 443" if _spec(obj).get("tls") else "80",
    "internal_ip": lambda obj: _address(obj, "InternalIP"),
    "job_state": job_state,
    "kernel": kernel,
    "lifecycle_modes": lambda obj: ",".join(_spec(obj).get("volumeLifecycleModes") or ()) or NONE,
    "metrics": metrics,
    "minimum_replicas": lambda obj: str(obj["spec"].get("minReplicas", UNSET)),
    "node_roles": lambda obj: ",".join(sorted(set(_roles(obj["metadata"].get("labels") or {})))) or NONE,
    "node_selector": lambda obj: labels_text(_template(obj)["spec"].get("nodeSelector")),
    "node_states": node_states,
    "parameter_kind": parameter_kind,
    "parameter_reference": parameter_reference,
    "pod_group_state": pod_group_state,
    "phase": lambda obj: (
        "Terminating" if "deletionTimestamp" in obj["metadata"] else value_at(obj, "status.phase", "")
    ),
    "quota_limits": lambda obj: _quota(obj, limits=True),
    "quota_requests": lambda obj: _quota(obj, limits=False),
    "ready_replicas": lambda obj: f"{_status(obj).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 1)}",
    "request_state": request_state,
    "requested_duration": requested_duration,
    "role": lambda obj: f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}",
    "scale_target": scale_target,
    "scheduling_policy": lambda obj: "Gang" if value_at(obj, "spec.schedulingPolicy.gang", None) else "Basic",
    "selected_labels": lambda obj: labels_text(_spec(obj).get("selector")),
    "selector": selector,
    "service_accounts": lambda obj: _subjects(obj, "ServiceAccount"),
    "service_ports": lambda obj: ",".join(_port(port) for port in _spec(obj).get("ports") or []) or NONE,
    "storage_class_name": lambda obj: _name_with_default(obj, "storageclass.kubernetes.io/is-default-class"),
    "suspended": lambda obj: "True" if obj["spec"].get("suspend") else "False",
    "template_labels": lambda obj: labels_text(_template(obj)["metadata"].get("labels")),
    "token_audiences": token_audiences,
    "users": lambda obj: _subjects(obj, "User"),
    "volume_modes": lambda obj: _modes(_spec(obj).get("accessModes") or ()),
}
TIMED_CELLS: Mapping[str, Callable[[Json, float], Any]] = {
    "age": age_of,
    "job_duration": job_duration,
    "last_schedule": last_schedule,
}
"""Cells that depend on the time, in epoch seconds."""
