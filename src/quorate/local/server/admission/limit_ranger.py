"""The limit ranges of a namespace, applied to a new pod."""

from collections.abc import Iterator
from typing import Any

from quorate.api.quantity import parse_quantity
from quorate.local.server.errors import forbidden
from quorate.local.server.requests.context import Call

Json = dict[str, Any]

ANNOTATION = "kubernetes.io/limit-ranger"


def apply(call: Call, pod: Json) -> None:
    """Fill in the requests and limits that containers leave out; then hold them to the bounds.

    Raises StatusError(403) with everything that is out of bounds.
    """
    ranges = [entry.decode() for entry in call.context.store.entries("limitranges", call.namespace)]
    items = [item for found in ranges for item in found["spec"]["limits"] if item["type"] == "Container"]
    filled = [note for item in items for note in _fill(pod["spec"], item)]
    if filled:
        note = f"LimitRanger plugin set: {'; '.join(filled)}"
        pod["metadata"].setdefault("annotations", {})[ANNOTATION] = note
    breaches = [breach for item in items for breach in _breaches(pod["spec"], item)]
    if breaches:
        listed = breaches[0] if len(breaches) == 1 else f"[{', '.join(breaches)}]"
        raise forbidden("", "pods", pod["metadata"].get("name", ""), listed)


def _fill(spec: Json, item: Json) -> Iterator[str]:
    """What was filled in, in words, container by container."""
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
                    yield f"{', '.join(sorted(missing))} {noun} for {word} {container['name']}"


def _breaches(spec: Json, item: Json) -> Iterator[str]:
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        for name, least in sorted(item.get("min", {}).items()):
            asked = resources.get("requests", {}).get(name)
            if asked is None:
                yield f"minimum {name} usage per Container is {least}.  No request is specified"
            elif parse_quantity(asked) < parse_quantity(least):
                yield f"minimum {name} usage per Container is {least}, but request is {asked}"
        for name, most in sorted(item.get("max", {}).items()):
            limit = resources.get("limits", {}).get(name)
            if limit is None:
                yield f"maximum {name} usage per Container is {most}.  No limit is specified"
            elif parse_quantity(most) < parse_quantity(limit):
                yield f"maximum {name} usage per Container is {most}, but limit is {limit}"
