"""Usage of ResourceQuotas: which objects a quota counts, and how much of its limits is used.

The server enforces quotas with it on admission, and a controller recomputes usage.
"""

from collections.abc import Iterable
from typing import Final

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import Pod, ResourceQuotaSpec, Resources
from quorate.api.core.pod_resources import quota_usage, sum_resources
from quorate.api.core.quota_scopes import (
    ClaimAttributes,
    ScopeAttributes,
    counted_until,
    is_best_effort,
    is_counted_by,
)
from quorate.api.quantity import Quantity, parse_quantity

CLAIMS: Final = "persistentvolumeclaims"
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
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
COUNTED_NAMES: Final = frozenset(
    {"pods", *LEGACY_COUNT_NAMES, *COMPUTE, *(f"limits.{name}" for name in COMPUTE)}
)
COUNTED_PREFIXES: Final = ("count/", "requests.", "hugepages-")
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def limited_usage(limited: Iterable[str], usages: Iterable[Resources]) -> Resources:
    """Return by limited name the sum of ``usages``, without the names that no usage can have."""
    total = sum_resources(usages)
    return {name: total.get(name, Quantity(0)) for name in limited if _is_counted(name)}


def _is_counted(name: str) -> bool:
    return name in COUNTED_NAMES or name.startswith(COUNTED_PREFIXES) or is_object_amount(name)


def pod_usage(pod: Pod, now: float = 0.0) -> Resources:
    """Return what a pod uses of quotas by name at ``now``, in epoch seconds.

    A pod that has finished, or is stuck terminating, counts only as an object.
    """
    if pod.status.phase in ("Succeeded", "Failed") or counted_until(pod.metadata) <= now:
        return object_usage("pods")
    return quota_usage(pod.spec)


def object_usage(resource: str, amount: int = 1) -> Resources:
    """Return what ``amount`` objects of a kind, ``jobs.batch``, use of quotas, besides ``object_amounts``."""
    names = [f"count/{resource}", *([resource] if resource in LEGACY_COUNT_NAMES else ())]
    return dict.fromkeys(names, Quantity.of_units(amount))


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
    return _storage(obj) if resource == CLAIMS else {}


def _storage(claim: Json) -> Resources:
    """Return the storage of a claim in whole bytes: what is requested, or allocated if that is more."""
    spec, metadata = claim.get("spec") or {}, claim.get("metadata") or {}
    requested = (spec.get("resources") or {}).get("requests") or {}
    allocated = (claim.get("status") or {}).get("allocatedResources") or {}
    sizes = [parse_quantity(amounts["storage"]) for amounts in (requested, allocated) if "storage" in amounts]
    size = max((Quantity.of_units(size.units, size.form) for size in sizes), default=Quantity(0))
    storage_class = (metadata.get("annotations") or {}).get(CLASS_ANNOTATION, spec.get("storageClassName"))
    if not storage_class:
        return {STORAGE: size}
    prefix = f"{storage_class}{CLASS_INFIX}"
    return {STORAGE: size, f"{prefix}{STORAGE}": size, f"{prefix}{CLAIMS}": Quantity.of_units(1)}


def _devices(request: Json) -> Resources:
    """Return the devices of a request by class: of alternatives, the most of each class."""
    most: Resources = {}
    for part in request.get("firstAvailable") or [request.get("exactly") or request]:
        is_all = part.get("allocationMode") == "All"
        devices = Quantity.of_units(ALL_DEVICES if is_all else part.get("count") or 1)
        name = f"{part.get('deviceClassName', '')}{DEVICES_SUFFIX}"
        most[name] = max(most.get(name, devices), devices)
    return most


def counted_by(quota: ResourceQuotaSpec, resource: str, obj: Json) -> bool:
    """Return True if ``quota`` counts an object of a kind; ``resource`` as in ``object_amounts``."""
    if resource == "pods":
        return counts_pod(quota, codec.convert(Pod, obj), crosses=crosses_namespaces(obj))
    return is_counted_by(quota, _claim_attributes(obj) if resource == CLAIMS else None)


def counts_pod(quota: ResourceQuotaSpec, pod: Pod, *, crosses: bool) -> bool:
    """Return True if ``quota`` counts the pod; ``crosses``: what ``crosses_namespaces`` returns for it."""
    spec = pod.spec
    has_deadline = spec.active_deadline_seconds is not None
    attributes = ScopeAttributes(spec.priority_class_name, is_best_effort(spec), has_deadline, crosses)
    return is_counted_by(quota, attributes)


def _claim_attributes(claim: Json) -> ClaimAttributes:
    status = claim.get("status") or {}
    classes = (
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return ClaimAttributes(frozenset(name for name in classes if name))


def crosses_namespaces(pod: Json) -> bool:
    """Return True if a term of affinity to pods names or selects namespaces."""
    affinity = pod["spec"].get("affinity") or {}
    sides = [affinity.get(side) or {} for side in ("podAffinity", "podAntiAffinity")]
    terms = [term for side in sides for term in side.get(REQUIRED) or ()]
    terms += [weighted["podAffinityTerm"] for side in sides for weighted in side.get(PREFERRED) or ()]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)
