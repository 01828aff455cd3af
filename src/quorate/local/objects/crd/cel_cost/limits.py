"""The limits of kube-apiserver on what the rules of a schema may cost.

A rule counts as often as its value can occur in an object. A rule without an estimate counts as free.
"""

from collections.abc import Iterator
from typing import NamedTuple

from quorate.local.objects.crd.cel import compile_rules
from quorate.local.objects.crd.cel_cost.estimates import capped
from quorate.local.objects.crd.cel_cost.estimator import estimated_cost
from quorate.local.objects.crd.cel_cost.syntax import Comprehension, UnknownSyntax, syntax_tree
from quorate.local.objects.crd.cel_cost.types import MAX_REQUEST_BYTES, CelType, NoEstimate, type_of_schema
from quorate.local.objects.schema_types import Json
from quorate.local.server import errors
from quorate.local.server.errors import Cause

MAX_RULE_COST = 10_000_000
MAX_SCHEMA_COST = 100_000_000

_NAMED = 4  # expressions that are named if the schema as a whole costs too much


class ExpressionCost(NamedTuple):
    path: str
    what: str
    """rule or messageExpression"""
    cost: int


def cost_findings(schema: Json, path: str, *, limit_rules: bool) -> list[Cause]:
    """Validate what the rules of a valid schema cost; each alone too if ``limit_rules``."""
    costs = list(_costs(schema, path, None, 1, is_root=True))
    found = [
        errors.forbidden_field(each.path, _message(f"estimated {each.what} cost", each.cost, MAX_RULE_COST))
        for each in costs
        if limit_rules and each.cost > MAX_RULE_COST
    ]
    total = capped(sum(each.cost for each in costs))
    if total > MAX_SCHEMA_COST:
        why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        expensive = sorted((each for each in costs if each.cost >= MAX_SCHEMA_COST // 100), key=_by_cost)
        found += [errors.forbidden_field(each.path, why) for each in expensive[:_NAMED]]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found.append(errors.forbidden_field(path, _message(what, total, MAX_SCHEMA_COST)))
    return found


def _by_cost(each: ExpressionCost) -> int:
    return -each.cost


def _message(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    text = "more than 100" if factor > 100 else f"{factor:f}" if factor < 1.5 else f"{factor:.1f}"
    return (
        f"{what} exceeds budget by factor of {text}x (try simplifying the rule, or adding maxItems,"
        " maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


def _costs(
    schema: Json, path: str, known: CelType | None, times: int | None, *, is_root: bool
) -> Iterator[ExpressionCost]:
    """Yield the costs of the expressions of a schema and of those below it.

    ``known``: the type of its values, if it was made for a schema above.
    ``times``: how often a value of the schema can occur in an object; None if nothing limits it.
    """
    rules = schema.get("x-kubernetes-validations") or []
    kind = known
    if rules and kind is None:
        kind = type_of_schema(schema, is_root=is_root or bool(schema.get("x-kubernetes-embedded-resource")))
    for where, part, inner in _parts(schema, path, kind):
        most = _most_elements(schema)
        below = None if times is None or most is None else capped(times * most)
        yield from _costs(part, where, inner, below, is_root=False)
    if kind is not None:
        yield from _expression_costs(rules, path, kind, times)


def _parts(schema: Json, path: str, kind: CelType | None) -> Iterator[tuple[str, Json, CelType | None]]:
    for name, part in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", part, kind.field_of(name) if kind else None
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{path}.{name}", schema[name], kind.item if kind else None


def _most_elements(schema: Json) -> int | None:
    """Return how many values of a schema below can occur in one value of this one."""
    if schema.get("type") == "array":
        most = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties"):
        most = schema.get("maxProperties")
    else:
        return 1
    return None if most is None else max(0, int(most))


def _expression_costs(
    rules: list[Json], path: str, kind: CelType, times: int | None
) -> Iterator[ExpressionCost]:
    if times is None:
        times = MAX_REQUEST_BYTES // (kind.min_bytes + 1)
    for index, rule in enumerate(compile_rules(rules)):
        for name, program, count in (
            ("rule", rule.program, times),
            ("messageExpression", rule.message_program, 1),
        ):
            if program is None:
                continue
            try:
                node = syntax_tree(program)
                if rule.optional_old_self and isinstance(node, Comprehension):
                    node = node.result  # of the binding that makes oldSelf an optional
                cost = estimated_cost(node, kind, optional_old_self=rule.optional_old_self)
            except (NoEstimate, UnknownSyntax):
                continue
            where = f"{path}.x-kubernetes-validations[{index}].{name}"
            yield ExpressionCost(where, name, capped(cost * count))
