"""Where a pod may run: tolerations, affinity, spreading, scheduling gates."""

from quorate.local.server.errors import duplicate, invalid_value, not_supported, required
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import (
    Causes,
    Json,
    one_of,
    positive,
    present,
    spelled,
    well_named,
    within,
)
from quorate.local.server.registry.validation.selectors import label_selector, node_selector_term

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
HONOR = ("Honor", "Ignore")


def tolerations(given: list[Json], path: str) -> Causes:
    for index, toleration in enumerate(given):
        yield from _toleration(toleration, f"{path}[{index}]")


def _toleration(toleration: Json, path: str) -> Causes:
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    yield from well_named(toleration, path, "key", formats.qualified)
    if not toleration.get("key") and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid_value(f"{path}.operator", operator, why)
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid_value(f"{path}.effect", toleration.get("effect", ""), why)
    match operator:
        case "" | "Equal":
            yield from spelled(value, f"{path}.operator", formats.label_value)
        case "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                yield invalid_value(f"{path}.operator", value, why)
        case _:
            yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    yield from one_of(toleration, path, "effect", TAINT_EFFECTS)


def affinity(given: Json, path: str) -> Causes:
    yield from _node_affinity(given.get("nodeAffinity", {}), f"{path}.nodeAffinity")
    for side in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(given.get(side, {}), f"{path}.{side}")


def _node_affinity(given: Json, path: str) -> Causes:
    if REQUIRED in given:
        here = f"{path}.{REQUIRED}.nodeSelectorTerms"
        terms = given[REQUIRED].get("nodeSelectorTerms", [])
        if not terms:
            yield required(here, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from node_selector_term(term, f"{here}[{index}]")
    for index, weighted in enumerate(given.get(PREFERRED, ())):
        here = f"{path}.{PREFERRED}[{index}]"
        yield from within({"weight": 0} | weighted, here, "weight", 1, 100)
        yield from node_selector_term(weighted.get("preference", {}), f"{here}.preference")


def _pod_affinity(given: Json, path: str) -> Causes:
    for index, term in enumerate(given.get(REQUIRED, ())):
        yield from _pod_affinity_term(term, f"{path}.{REQUIRED}[{index}]")
    for index, weighted in enumerate(given.get(PREFERRED, ())):
        here = f"{path}.{PREFERRED}[{index}]"
        yield from within({"weight": 0} | weighted, here, "weight", 1, 100)
        yield from _pod_affinity_term(weighted.get("podAffinityTerm", {}), f"{here}.podAffinityTerm")


def _pod_affinity_term(term: Json, path: str) -> Causes:
    for selector in ("labelSelector", "namespaceSelector"):
        if selector in term:
            yield from label_selector(term[selector], f"{path}.{selector}")
    for namespace in term.get("namespaces", ()):
        yield from spelled(namespace, f"{path}.namespace", formats.label)
    yield from present(term, path, "topologyKey", why="can not be empty")
    yield from spelled(term.get("topologyKey", ""), f"{path}.topologyKey", formats.qualified)


def topology_spread(given: list[Json], path: str) -> Causes:
    known = set()
    for index, constraint in enumerate(given):
        here = f"{path}[{index}]"
        yield from positive({"maxSkew": 0} | constraint, here, "maxSkew")
        yield from present(constraint, here, "topologyKey", why="can not be empty")
        when = constraint.get("whenUnsatisfiable", "")
        if when not in ("DoNotSchedule", "ScheduleAnyway"):
            yield not_supported(f"{here}.whenUnsatisfiable", when, ("DoNotSchedule", "ScheduleAnyway"))
        identity = (constraint.get("topologyKey"), when)
        if identity in known:
            yield duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", identity)
        known.add(identity)
        yield from positive(constraint, here, "minDomains")
        if "minDomains" in constraint and when != "DoNotSchedule":
            why = "can only use minDomains if whenUnsatisfiable=DoNotSchedule"
            yield invalid_value(f"{here}.minDomains", constraint["minDomains"], why)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from one_of(constraint, here, policy, HONOR)
        yield from label_selector(constraint.get("labelSelector", {}), f"{here}.labelSelector")


def scheduling_gates(given: list[Json], path: str) -> Causes:
    known = set()
    for index, gate in enumerate(given):
        name = gate.get("name", "")
        yield from spelled(name, f"{path}[{index}]", formats.qualified)
        if name in known:
            yield duplicate(f"{path}[{index}]", name)
        known.add(name)
