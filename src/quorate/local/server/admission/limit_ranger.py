"""Admission plugin LimitRanger: apply the LimitRanges of a namespace to a new pod."""

import operator
from collections.abc import Iterable, Iterator

from quorate.api.codec import Json
from quorate.api.core import Resources
from quorate.api.core.pod_resources import pod_limits, pod_requests
from quorate.api.quantity import NANOS, Quantity, parse_quantity
from quorate.local.objects.errors import forbidden
from quorate.local.server.registry.defaults.pod_resources import pod_amounts
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.storage.store import Entry

ANNOTATION = "kubernetes.io/limit-ranger"
AMOUNTS = ("default", "defaultRequest", "min", "max", "maxLimitRequestRatio")
GROUPS = (("containers", "container"), ("initContainers", "init container"))


def set_defaults(pod: Json, limit_ranges: Iterable[list[Json]]) -> None:
    """Set the missing requests and limits of containers, from each LimitRange in turn.

    The pod has its limits as requests already.
    """
    for items in limit_ranges:
        defaults: dict[str, Json] = {"requests": {}, "limits": {}}
        for item in items:
            if item.get("type") == "Container":
                defaults["requests"] |= item.get("defaultRequest", {})
                defaults["limits"] |= item.get("default", {})
        if applied := list(_apply_defaults(pod["spec"], defaults)):
            message = f"LimitRanger plugin set: {'; '.join(applied)}"
            pod["metadata"].setdefault("annotations", {})[ANNOTATION] = message


def check_bounds(resource: str, obj: Json, limit_ranges: Iterable[list[Json]]) -> None:
    """Check the amounts of containers and of the pod, or of a claim of a volume.

    Raises StatusError(403) with all violations of a LimitRange.
    """
    violations_of = _violations if resource == "pods" else _claim_violations
    for items in limit_ranges:
        if violations := [violation for item in items for violation in violations_of(obj["spec"], item)]:
            unique = dict.fromkeys(violations)
            message = violations[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
            raise forbidden("", resource, obj["metadata"].get("name", ""), message)


def _claim_violations(spec: Json, item: Json) -> Iterator[str]:
    kind, requests = "PersistentVolumeClaim", (spec.get("resources") or {}).get("requests") or {}
    if item.get("type") != kind:
        return
    for side, word, is_broken in (("min", "minimum", operator.lt), ("max", "maximum", operator.gt)):
        for name, text in sorted(item.get(side, {}).items()):
            rule = f"{word} {name} usage per {kind} is {text}"
            if name not in requests:
                yield f"{rule}.  No request is specified"
            elif is_broken(parse_quantity(requests[name]), parse_quantity(text)):
                yield f"{rule}, but request is {requests[name]}"


def limit_ranges_of(context: RequestContext) -> Iterator[list[Json]]:
    """Return the items of each LimitRange of the namespace."""
    return context.server.store.usable("limitranges", _limits, "LimitRanger", context.namespace)


def _limits(entry: Entry) -> list[Json]:
    """Return the items of a LimitRange.  Raises an exception if one is not usable."""
    items: list[Json] = entry.decode()["spec"].get("limits") or []
    for item in items:
        for field in AMOUNTS:
            for amount in item.get(field, {}).values():
                parse_quantity(amount)
    return items


def _apply_defaults(spec: Json, defaults: dict[str, Json]) -> Iterator[str]:
    """Set the defaults; yield what was set, by container."""
    for group, word in GROUPS:
        for container in spec.get(group, ()):
            resources = container.setdefault("resources", {})
            for kind, amounts in defaults.items():
                missing = amounts.keys() - resources.get(kind, {}).keys()
                if missing:
                    added = {name: amounts[name] for name in missing}
                    resources[kind] = resources.get(kind, {}) | added
                    noun = kind.removesuffix("s")
                    yield f"{', '.join(sorted(missing))} {noun} for {word} {container.get('name', '')}"


def _violations(spec: Json, item: Json) -> Iterator[str]:
    amounts = pod_amounts(spec)
    match item.get("type"):
        case "Container":
            for container in (*amounts.containers, *amounts.init_containers):
                resources = container.resources
                yield from _bound_violations(item, resources.requests, resources.limits)
        case "Pod":
            yield from _bound_violations(item, pod_requests(amounts), pod_limits(amounts))


def _bound_violations(item: Json, requests: Resources, limits: Resources) -> Iterator[str]:
    kind = item["type"]
    for name, text in sorted(item.get("min", {}).items()):
        rule, bound = f"minimum {name} usage per {kind} is {text}", parse_quantity(text)
        if name not in requests:
            yield f"{rule}.  No request is specified"
        elif requests[name] < bound:
            yield f"{rule}, but request is {requests[name]}"
        elif name in limits and limits[name] < bound:
            yield f"{rule}, but limit is {limits[name]}"
    for name, text in sorted(item.get("max", {}).items()):
        rule, bound = f"maximum {name} usage per {kind} is {text}", parse_quantity(text)
        if name not in limits:
            yield f"{rule}.  No limit is specified"
        elif limits[name] > bound:
            yield f"{rule}, but limit is {limits[name]}"
        elif name in requests and requests[name] > bound:
            yield f"{rule}, but request is {requests[name]}"
    for name, text in sorted(item.get("maxLimitRequestRatio", {}).items()):
        rule = f"{name} max limit to request ratio per {kind} is {text}"
        request, limit = requests.get(name, Quantity(0)), limits.get(name, Quantity(0))
        if not request:
            yield f"{rule}, but no request is specified or request is 0"
        elif not limit:
            yield f"{rule}, but no limit is specified or limit is 0"
        elif limit.nanos * NANOS > request.nanos * parse_quantity(text).nanos:
            yield f"{rule}, but provided ratio is {limit.nanos / request.nanos:f}"
