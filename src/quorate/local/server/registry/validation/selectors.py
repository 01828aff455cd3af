"""Rules of label selectors and node selectors, and matching of labels."""

from collections.abc import Mapping

from quorate.api.codec import Json
from quorate.local.objects.errors import invalid_value, required
from quorate.local.server.registry.validation.field_rules import Causes, Scope, relation
from quorate.local.server.registry.validation.formats import check_format, subdomain

WITH_VALUES = ("In", "NotIn")
NUMERIC = ("Gt", "Lt")
UNKNOWN_OPERATOR = "not a valid selector operator"


@relation
def one_number(requirement: Json, path: str, _: Scope) -> Causes:
    if requirement.get("operator") in NUMERIC and len(requirement.get("values", ())) != 1:
        yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")


@relation
def node_field_requirement(requirement: Json, path: str, _: Scope) -> Causes:
    operator, values = requirement.get("operator", ""), requirement.get("values", [])
    if operator not in WITH_VALUES:
        yield invalid_value(f"{path}.operator", operator, UNKNOWN_OPERATOR)
    elif len(values) != 1:
        message = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", message)
    if requirement.get("key") != "metadata.name":
        yield invalid_value(f"{path}.key", requirement.get("key", ""), "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from check_format(value, f"{path}.values[{index}]", subdomain)


def selector_matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Return True if a valid label selector matches the labels."""
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
