"""What an administrator sets up: namespaces, nodes, priority classes, runtime classes."""

from quorate.local.server.errors import Cause, duplicate, forbidden_field, not_supported
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import (
    Causes,
    Json,
    one_of,
    present,
    spelled,
    unchanged,
)
from quorate.local.server.registry.validation.pods.scheduling import TAINT_EFFECTS
from quorate.local.server.registry.validation.resource_amounts import (
    amount,
    container_resource_name,
    known_name,
)

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def namespace(given: Json) -> list[Cause]:
    return [
        cause
        for index, finalizer in enumerate(given.get("spec", {}).get("finalizers", ()))
        for cause in spelled(finalizer, f"spec.finalizers[{index}]", formats.qualified)
    ]


def node(given: Json) -> list[Cause]:
    return [*_taints(given.get("spec", {}).get("taints", [])), *_capacity(given.get("status", {}))]


def _taints(taints: list[Json]) -> Causes:
    known = set()
    for index, taint in enumerate(taints):
        here = f"spec.taints[{index}]"
        yield from spelled(taint.get("key", ""), f"{here}.key", formats.qualified)
        yield from spelled(taint.get("value", ""), f"{here}.value", formats.label_value)
        yield from present(taint, here, "effect")
        yield from one_of(taint, here, "effect", TAINT_EFFECTS)
        identity = (taint.get("key"), taint.get("effect"))
        if identity in known:
            yield duplicate(here, taint)
        known.add(identity)


def _capacity(status: Json) -> Causes:
    for field in ("capacity", "allocatable"):
        for name, value in status.get(field, {}).items():
            yield from known_name(name, f"status.{field}[{name}]")
            yield from amount(name, value, f"status.{field}[{name}]")


def node_update(new: Json, old: Json) -> list[Cause]:
    """What a node's provider said of it once stays."""
    now, was = new.get("spec", {}), old.get("spec", {})
    return [
        forbidden_field(f"spec.{path}", f'node updates may not change {field} except from "" to valid')
        for field, path in (("podCIDR", "podCIDRs"), ("providerID", "providerID"))
        if was.get(field) and now.get(field) != was[field]
    ]


def node_status(new: Json, _: Json) -> list[Cause]:
    return list(_capacity(new.get("status", {})))


def priority_class(given: Json) -> list[Cause]:
    return list(_priority_class(given))


def _priority_class(given: Json) -> Causes:
    name, value = given["metadata"].get("name", ""), given.get("value", 0)
    if name.startswith("system-"):
        if SYSTEM_CLASSES.get(name) != value:
            why = (
                "priority class names with 'system-' prefix are reserved for system use only."
                f" error: {name} is not a known system priority class"
            )
            yield forbidden_field("metadata.name", why)
    elif value > HIGHEST_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        yield forbidden_field("value", why)
    supported = ("Never", "PreemptLowerPriority")
    if given.get("preemptionPolicy", "Never") not in supported:
        yield not_supported("preemptionPolicy", given["preemptionPolicy"], supported)


def priority_class_update(new: Json, old: Json) -> list[Cause]:
    changed = new.get("value", 0) != old.get("value", 0)
    return [
        *([forbidden_field("value", "may not be changed in an update.")] if changed else []),
        *unchanged(new, old, "", "preemptionPolicy"),
    ]


def runtime_class(given: Json) -> list[Cause]:
    return list(_runtime_class(given))


def _runtime_class(given: Json) -> Causes:
    yield from spelled(given.get("handler", ""), "handler", formats.label)
    for name, value in given.get("overhead", {}).get("podFixed", {}).items():
        yield from container_resource_name(name, f"overhead.podFixed[{name}]")
        yield from amount(name, value, f"overhead.podFixed[{name}]")


def runtime_class_update(new: Json, old: Json) -> list[Cause]:
    return list(unchanged(new, old, "", "handler"))
