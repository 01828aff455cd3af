"""Resource amounts of pods as a kube-apiserver 1.36 stores them, and the QoS class that follows from them."""

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core.pod import RequestingSpec
from quorate.api.core.pod_resources import pod_limits, pod_requests
from quorate.api.quantity import Quantity, parse_quantity

NANOS_IN_MILLI = 1_000_000
COMPUTE = ("cpu", "memory")


def pod_amounts(spec: Json, *, pod_level: bool = True) -> RequestingSpec:
    """Decode the amounts of a pod spec without its overhead, however many there are."""
    fields = ("containers", "initContainers", *(("resources",) if pod_level else ()))
    return codec.decode_any_quantities(
        RequestingSpec, codec.encode({name: spec[name] for name in fields if name in spec})
    )


def default_amounts(spec: Json) -> None:
    """Round the amounts of a pod or a template up to a thousandth, the smallest unit."""
    parts = (spec, *spec.get("containers", ()), *spec.get("initContainers", ()))
    for resources in (part.get("resources") or {} for part in parts):
        for amounts in resources.values():
            if isinstance(amounts, dict):
                round_up_to_milli(amounts)
    round_up_to_milli(spec.get("overhead") or {})


def round_up_to_milli(amounts: Json) -> None:
    for name, amount in amounts.items():
        quantity = parse_quantity(amount)
        if quantity.nanos % NANOS_IN_MILLI:
            amounts[name] = str(
                Quantity(-(-quantity.nanos // NANOS_IN_MILLI) * NANOS_IN_MILLI, quantity.form)
            )


def default_requests(spec: Json) -> None:
    """Set the missing requests of the containers, then the missing requests of the pod itself."""
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container.setdefault("resources", {})
        if "limits" in resources:
            resources["requests"] = resources["limits"] | resources.get("requests", {})
    resources = spec.get("resources") or {}
    requests = resources.get("requests", {})
    if not requests and not resources.get("limits"):
        return
    containers = pod_amounts(spec, pod_level=False)
    pages = {
        name: str(amount)
        for name, amount in pod_limits(containers).items()
        if is_huge_pages(name) and name not in requests
    }
    limits = pages | resources.get("limits", {})
    if not limits:
        return
    together = pod_requests(containers)
    resources["limits"] = limits
    resources["requests"] = (
        {name: amount for name, amount in limits.items() if is_pod_level(name)}
        | {name: str(together[name]) for name in COMPUTE if name in together}
        | requests
    )


def is_huge_pages(name: str) -> bool:
    return name.startswith("hugepages-")


def is_pod_level(name: str) -> bool:
    """Return True if pods have amounts of the resource, not only containers."""
    return name in COMPUTE or is_huge_pages(name)


def qos_class(spec: Json) -> str:
    """Return the QoS class by the cpu and memory of the pod itself if it has any, else of its containers."""
    if "resources" in spec:
        return _qos_class([spec["resources"] or {}])
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    return _qos_class([container.get("resources", {}) for container in containers])


def _qos_class(all_resources: list[Json]) -> str:
    if not any(
        _compute_resources(resources, kind) for resources in all_resources for kind in ("requests", "limits")
    ):
        return "BestEffort"
    guaranteed = all(
        len(limits := _compute_resources(resources, "limits")) == len(COMPUTE)
        and limits == _compute_resources(resources, "requests")
        for resources in all_resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _compute_resources(resources: Json, kind: str) -> Json:
    amounts = resources.get(kind) or {}
    return {name: amounts[name] for name in COMPUTE if amounts.get(name, "0") != "0"}
