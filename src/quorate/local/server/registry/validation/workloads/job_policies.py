"""The policies of a job: which failures count, and when it has succeeded early."""

from quorate.local.server.errors import duplicate, invalid_value, required, too_many
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import (
    Causes,
    Json,
    one_of,
    positive,
    present,
    spelled,
)

MOST_RULES = 20
MOST_PATTERNS = 20
MOST_EXIT_CODES = 255
ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS = ("In", "NotIn")
STATUSES = ("False", "True", "Unknown")


def failure_policy(spec: Json, path: str) -> Causes:
    rules = spec.get("podFailurePolicy", {}).get("rules", [])
    yield from at_most(MOST_RULES, rules, f"{path}.rules")
    for index, rule in enumerate(rules):
        yield from _failure_rule(rule, spec, f"{path}.rules[{index}]")


def at_most(limit: int, items: list[object], path: str) -> Causes:
    if len(items) > limit:
        yield too_many(path, len(items), limit)


def _failure_rule(rule: Json, spec: Json, path: str) -> Causes:
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions", [])
    yield from present(rule, path, "action", why=f"valid values: {', '.join(ACTIONS)}")
    yield from one_of(rule, path, "action", ACTIONS)
    if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield invalid_value(f"{path}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
    if codes is not None:
        yield from _exit_codes(codes, spec, f"{path}.onExitCodes")
    yield from at_most(MOST_PATTERNS, patterns, f"{path}.onPodConditions")
    for index, pattern in enumerate(patterns):
        here = f"{path}.onPodConditions[{index}]"
        yield from spelled(pattern.get("type", ""), f"{here}.type", formats.qualified)
        yield from present(pattern, here, "status", why=f"valid values: {', '.join(STATUSES)}")
        yield from one_of(pattern, here, "status", STATUSES)
    if codes is not None and patterns:
        why = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield invalid_value(path, rule, why)
    if codes is None and not patterns:
        yield invalid_value(path, rule, "specifying one of OnExitCodes and OnPodConditions is required")


def _exit_codes(requirement: Json, spec: Json, path: str) -> Causes:
    yield from present(requirement, path, "operator", why=f"valid values: {', '.join(OPERATORS)}")
    yield from one_of(requirement, path, "operator", OPERATORS)
    template = spec["template"].get("spec", {})
    containers = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in template.get(field, ())
    }
    if requirement.get("containerName", None) not in containers | {None}:
        why = "must be one of the container or initContainer names in the pod template"
        yield invalid_value(f"{path}.containerName", requirement["containerName"], why)
    values = requirement.get("values", [])
    if not values:
        yield invalid_value(f"{path}.values", values, "at least one value is required")
    yield from at_most(MOST_EXIT_CODES, values, f"{path}.values")
    for index, value in enumerate(values):
        if value == 0 and requirement.get("operator") == "In":
            yield invalid_value(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield duplicate(f"{path}.values[{index}]", value)
    if values != sorted(values):
        yield invalid_value(f"{path}.values", values, "must be ordered")


def success_policy(spec: Json, path: str) -> Causes:
    """For an indexed job that says how many indexes it has."""
    if "successPolicy" not in spec:
        return
    rules = spec["successPolicy"].get("rules", [])
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{path}.rules", why)
    yield from at_most(MOST_RULES, rules, f"{path}.rules")
    for index, rule in enumerate(rules):
        yield from _success_rule(rule, spec["completions"], f"{path}.rules[{index}]")


def _success_rule(rule: Json, completions: int, path: str) -> Causes:
    count, listed = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and listed is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    indexes = 0
    if listed is not None:
        try:
            indexes = count_indexes(listed, completions)
        except ValueError as refusal:
            why = f"error parsing succeededIndexes: {refusal}"
            yield invalid_value(f"{path}.succeededIndexes", listed, why)
    if count is not None:
        yield from positive(rule, path, "succeededCount")
        for limit, what in ((completions, "specified completions"), (indexes, "succeededIndexes")):
            if count > limit and (what != "succeededIndexes" or listed is not None):
                why = f"must be less than or equal to {limit} (the number of {what})"
                yield invalid_value(f"{path}.succeededCount", count, why)


def count_indexes(text: str, completions: int) -> int:
    """How many indexes ``1,3-5`` names.  Raises ValueError unless they rise, below ``completions``."""
    count, last = 0, -1
    for interval in text.split(",") if text else ():
        first, dash, end = interval.partition("-")
        if not first.isdecimal() or (dash and not end.isdecimal()):
            raise ValueError(f"{interval!r} is no index and no interval of indexes")
        low, high = int(first), int(end or first)
        if low <= last or (dash and high <= low):
            raise ValueError(f"{interval!r} does not rise")
        if high >= completions:
            raise ValueError(f"{high} is not below the completions, {completions}")
        count, last = count + high - low + 1, high
    return count
