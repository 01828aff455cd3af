"""Selectors of labels and of nodes, written into an object's fields."""

from collections.abc import Mapping

from quorate.local.server.errors import forbidden_field, invalid_value, required
from quorate.local.server.registry.validation import formats, metadata
from quorate.local.server.registry.validation.field_rules import Causes, Json, spelled

VALUED = ("In", "NotIn")
BARE = ("Exists", "DoesNotExist")
NUMERIC = ("Gt", "Lt")


def label_selector(selector: Json, path: str) -> Causes:
    yield from metadata.labels(selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        here = f"{path}.matchExpressions[{index}]"
        yield from _operator(requirement, here)
        yield from spelled(requirement.get("key", ""), f"{here}.key", formats.qualified)
        for position, value in enumerate(requirement.get("values", ())):
            yield from spelled(value, f"{here}.values[{position}]", formats.label_value)


def _operator(requirement: Json, path: str, known: tuple[str, ...] = (*VALUED, *BARE)) -> Causes:
    """An operator that is known, with as many values as it takes."""
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if operator not in known:
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif operator in VALUED and not values:
        yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in BARE and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden_field(f"{path}.values", why)
    elif operator in NUMERIC and len(values) != 1:
        yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")


def selector_matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a label selector that breaks no rule selects these labels."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for requirement in selector.get("matchExpressions", ()):
        key, values = requirement.get("key", ""), requirement.get("values", ())
        match requirement.get("operator"):
            case "In" if labels.get(key) not in values:
                return False
            case "NotIn" if labels.get(key) in values:
                return False
            case "Exists" if key not in labels:
                return False
            case "DoesNotExist" if key in labels:
                return False
    return True


def node_selector_term(term: Json, path: str) -> Causes:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        here = f"{path}.matchExpressions[{index}]"
        yield from _operator(requirement, here, (*VALUED, *BARE, *NUMERIC))
        yield from spelled(requirement.get("key", ""), f"{here}.key", formats.qualified)
    for index, requirement in enumerate(term.get("matchFields", ())):
        yield from _field_requirement(requirement, f"{path}.matchFields[{index}]")


def _field_requirement(requirement: Json, path: str) -> Causes:
    values = requirement.get("values", [])
    if requirement.get("operator") not in VALUED:
        yield invalid_value(
            f"{path}.operator", requirement.get("operator", ""), "not a valid selector operator"
        )
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", why)
    if requirement.get("key") != "metadata.name":
        yield invalid_value(f"{path}.key", requirement.get("key", ""), "not a valid field selector key")
        return
    for position, value in enumerate(values):
        yield from spelled(value, f"{path}.values[{position}]", formats.subdomain)
