"""Admission plugin LimitRanger: apply the LimitRanges of a namespace to a new pod."""

from collections.abc import Iterator
from typing import Any

from quorate.api.quantity import parse_quantity
from quorate.local.server.errors import forbidden
from quorate.local.server.requests.context import RequestContext

Json = dict[str, Any]

ANNOTATION = "kubernetes.io/limit-ranger"


def apply_limit_ranges(context: RequestContext, pod: Json) -> None:
    """Set default requests and limits, then check the bounds.

    Raises StatusError(403) with all violations.
    """
    ranges = [entry.decode() for entry in context.server.store.entries("limitranges", context.namespace)]
    items = [
        item
        for limit_range in ranges
        for item in limit_range.get("spec", {}).get("limits") or ()
        if item.get("type") == "Container"
    ]
    applied = [message for item in items for message in _apply_defaults(pod["spec"], item)]
    if applied:
        message = f"LimitRanger plugin set: {'; '.join(applied)}"
        pod["metadata"].setdefault("annotations", {})[ANNOTATION] = message
    violations = [violation for item in items for violation in _violations(pod["spec"], item)]
    if violations:
        message = violations[0] if len(violations) == 1 else f"[{', '.join(violations)}]"
        raise forbidden("", "pods", pod["metadata"].get("name", ""), message)


def _apply_defaults(spec: Json, item: Json) -> Iterator[str]:
    """Set the defaults; yield what was set, by container."""
    for group, word in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(group, ()):
            resources = container.setdefault("resources", {})
            for kind, source, noun in (
                ("requests", "defaultRequest", "request"),
                ("limits", "default", "limit"),
            ):
                missing = item.get(source, {}).keys() - resources.get(kind, {}).keys()
                if missing:
                    amounts = {name: item[source][name] for name in missing}
                    resources[kind] = resources.get(kind, {}) | amounts
                    yield f"{', '.join(sorted(missing))} {noun} for {word} {container.get('name', '')}"


def _violations(spec: Json, item: Json) -> Iterator[str]:
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        for name, minimum in sorted(item.get("min", {}).items()):
            requested = resources.get("requests", {}).get(name)
            if requested is None:
                yield f"minimum {name} usage per Container is {minimum}.  No request is specified"
            elif parse_quantity(requested) < parse_quantity(minimum):
                yield f"minimum {name} usage per Container is {minimum}, but request is {requested}"
        for name, maximum in sorted(item.get("max", {}).items()):
            limit = resources.get("limits", {}).get(name)
            if limit is None:
                yield f"maximum {name} usage per Container is {maximum}.  No limit is specified"
            elif parse_quantity(maximum) < parse_quantity(limit):
                yield f"maximum {name} usage per Container is {maximum}, but limit is {limit}"
