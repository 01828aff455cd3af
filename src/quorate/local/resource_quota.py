"""Usage of ResourceQuotas: which pods a quota counts, and how much of its limits is used.

The server enforces quotas with it on admission, and a controller recomputes usage.  Not supported: the scope
``VolumeAttributesClass`` matches nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.api.codec import Json
from quorate.api.core import Pod, ResourceQuotaSpec, Resources, ScopeRequirement
from quorate.api.core.pod_resources import pod_limits, pod_requests, sum_resources
from quorate.api.meta import SelectorRequirement, matches_requirement
from quorate.api.quantity import Quantity, parse_quantity

# Object count names that predate count/<resource>.<group>.
LEGACY_COUNT_NAMES: Final = (
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
)
SERVICE_NAMES: Final = ("services.loadbalancers", "services.nodeports")
STORAGE: Final = "requests.storage"
CLASS_INFIX: Final = ".storageclass.storage.k8s.io/"
DEVICES_SUFFIX: Final = ".deviceclass.resource.k8s.io/devices"
ALL_DEVICES: Final = 32  # of a request with the allocation mode All: as many as a claim can get
CROSS_NAMESPACE: Final = "CrossNamespacePodAffinity"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
NO_AMOUNTS: Final[Mapping[str, Quantity]] = {}


def quota_usage(
    limited: Iterable[str],
    pods: Iterable[Pod],
    counts: Mapping[str, int],
    amounts: Mapping[str, Quantity] = NO_AMOUNTS,
) -> Resources:
    """Return the usage of each limited name; finished pods count only as objects.

    ``counts`` is by plural and group: ``pods``, ``jobs.batch``.  ``amounts``: the sum of ``object_amounts``.
    Unknown names are omitted.
    """
    unfinished = [pod.spec for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]
    requests = sum_resources(map(pod_requests, unfinished))
    limits = sum_resources(map(pod_limits, unfinished))
    used: Resources = {}
    for name in limited:
        kind, _, resource = name.partition(".")
        if name == "pods":
            used[name] = Quantity.of_units(len(unfinished))
        elif name.startswith("count/"):
            used[name] = Quantity.of_units(counts.get(name.removeprefix("count/"), 0))
        elif name in LEGACY_COUNT_NAMES:
            used[name] = Quantity.of_units(counts.get(name, 0))
        elif is_object_amount(name):
            used[name] = amounts.get(name, Quantity(0))
        elif kind == "limits":
            used[name] = limits.get(resource, Quantity(0))
        elif kind == "requests":
            used[name] = requests.get(resource, Quantity(0))
        elif name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-"):
            used[name] = requests.get(name, Quantity(0))
    return used


def is_object_amount(name: str) -> bool:
    """Return True for a name that ``object_amounts`` counts."""
    return name in SERVICE_NAMES or name == STORAGE or CLASS_INFIX in name or name.endswith(DEVICES_SUFFIX)


def object_amounts(resource: str, obj: Json) -> Resources:
    """Return what a service or a claim uses of quotas, besides its count.

    ``resource`` is plural and group: ``services``, ``resourceclaims.resource.k8s.io``.
    """
    spec = obj.get("spec") or {}
    if resource == "services":
        is_balanced = spec.get("type") == "LoadBalancer"
        ports = spec.get("ports") or ()
        if is_balanced and spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        has_ports = is_balanced or spec.get("type") == "NodePort"
        return {
            "services.loadbalancers": Quantity.of_units(int(is_balanced)),
            "services.nodeports": Quantity.of_units(len(ports) if has_ports else 0),
        }
    if resource == "resourceclaims.resource.k8s.io":
        return sum_resources(map(_devices, (spec.get("devices") or {}).get("requests") or ()))
    if resource != "persistentvolumeclaims":
        return {}
    requests = (spec.get("resources") or {}).get("requests") or {}
    size = parse_quantity(requests["storage"]) if "storage" in requests else Quantity(0)
    prefix = f"{spec.get('storageClassName', '')}{CLASS_INFIX}"
    by_class = {f"{prefix}{STORAGE}": size, f"{prefix}persistentvolumeclaims": Quantity.of_units(1)}
    return {STORAGE: size} | (by_class if spec.get("storageClassName") else {})


def _devices(request: Json) -> Resources:
    """Return the devices of a request by class: of alternatives, the most of each class."""
    most: Resources = {}
    for part in request.get("firstAvailable") or [request.get("exactly") or request]:
        is_all = part.get("allocationMode") == "All"
        devices = Quantity.of_units(ALL_DEVICES if is_all else part.get("count") or 1)
        name = f"{part.get('deviceClassName', '')}{DEVICES_SUFFIX}"
        most[name] = max(most.get(name, devices), devices)
    return most


def has_scopes(spec: ResourceQuotaSpec) -> bool:
    return bool(spec.scopes or spec.scope_selector is not None)


def matches_scopes(spec: ResourceQuotaSpec, pod: Pod, *, crosses: bool = False) -> bool:
    """Return True if a quota counts the pod; ``crosses``: what ``crosses_namespaces`` returns for it."""
    return all(_matches(scope, pod, crosses) for scope in spec.scope_requirements)


def counts_crossing(spec: ResourceQuotaSpec) -> bool:
    """Return True if the quota counts only pods for which ``crosses_namespaces`` returns True."""
    return any(scope.scope_name == CROSS_NAMESPACE for scope in spec.scope_requirements)


def crosses_namespaces(pod: Json) -> bool:
    """Return True if a term of affinity to pods names or selects namespaces."""
    affinity = pod["spec"].get("affinity") or {}
    sides = [affinity.get(side) or {} for side in ("podAffinity", "podAntiAffinity")]
    terms = [term for side in sides for term in side.get(REQUIRED) or ()]
    terms += [weighted["podAffinityTerm"] for side in sides for weighted in side.get(PREFERRED) or ()]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)


def _matches(scope: ScopeRequirement, pod: Pod, crosses: bool) -> bool:
    match scope.scope_name:
        case "Terminating":
            return _is_terminating(pod)
        case "NotTerminating":
            return not _is_terminating(pod)
        case "BestEffort":
            return _is_best_effort(pod)
        case "NotBestEffort":
            return not _is_best_effort(pod)
        case "PriorityClass":
            class_name = pod.spec.priority_class_name
            requirement = SelectorRequirement(key="class", operator=scope.operator, values=scope.values)
            return matches_requirement(requirement, {"class": class_name} if class_name else {})
        case "CrossNamespacePodAffinity":
            return crosses
        case _:
            return False


def _is_terminating(pod: Pod) -> bool:
    return pod.spec.active_deadline_seconds is not None


def _is_best_effort(pod: Pod) -> bool:
    """Return True for QoS class BestEffort: no requests or limits of cpu or memory."""
    amounts = pod_requests(pod.spec).items() | pod_limits(pod.spec).items()
    return not any(amount for name, amount in amounts if name in ("cpu", "memory"))
