"""CEL rules cost what kube-apiserver estimates; a definition with expensive ones is refused as it does."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.local.objects.crd.cel import compile_rules
from quorate.local.objects.crd.cel_cost.estimator import estimated_cost
from quorate.local.objects.crd.cel_cost.syntax import Comprehension, UnknownSyntax, syntax_tree
from quorate.local.objects.crd.cel_cost.types import NoEstimate, type_of_schema
from quorate.local.server.registry.validation.api_extensions import (
    validate_definition_update,
    validate_new_definition,
)

Json = dict[str, Any]

RECORDED: Json = yaml.safe_load(Path(__file__).with_name("cel-costs.yaml").read_text("utf-8"))
TEXT: Json = {"type": "string"}
ADVICE = (
    " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and"
    " strings are declared)"
)


def cost_of(expression: str, kind: str = "rule", schema: Json = RECORDED["schema"]) -> int:
    source: Json = {"rule": expression, "optionalOldSelf": kind == "optional"}
    if kind == "message":
        source = {"rule": "true", "messageExpression": expression}
    (rule,) = compile_rules([source])
    node = syntax_tree(rule.message_program or rule.program)
    if kind == "optional":
        assert isinstance(node, Comprehension)
        node = node.result
    root = type_of_schema(schema, is_root=False)
    assert root is not None
    return estimated_cost(node, root, optional_old_self=kind == "optional")


@pytest.mark.parametrize(
    ("kind", "expression", "cost"),
    [
        pytest.param(kind, recorded[kind], recorded["cost"], id=recorded[kind])
        for recorded in RECORDED["expressions"]
        for kind in ("rule", "optional", "message")
        if kind in recorded
    ],
)
def test_an_expression_costs_what_kube_apiserver_estimates(kind: str, expression: str, cost: int) -> None:
    assert cost_of(expression, kind) == cost


@pytest.mark.parametrize("expression", ["self.missing == 1", "self.count.missing", "self.name[0]"])
def test_what_has_no_type_has_no_estimate(expression: str) -> None:
    with pytest.raises(NoEstimate):
        cost_of(expression)


@pytest.mark.parametrize("expression", ["timestamp('2030-01-01T00:00:00Z') == google.protobuf.Timestamp{}"])
def test_a_message_is_not_read(expression: str) -> None:
    with pytest.raises(UnknownSyntax):
        cost_of(expression)


def a_definition(spec: Json) -> Json:
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": names, "versions": [version],
            "conversion": {"strategy": "None"},
        },
    }  # fmt: skip


def ruled(*rules: str, **schema: Any) -> Json:
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


def findings(definition: Json, old: Json | None = None) -> list[str]:
    causes = validate_definition_update(definition, old) if old else validate_new_definition(definition)
    prefix = "spec.validation.openAPIV3Schema"
    return sorted(
        f"{cause.field.removeprefix(prefix)}: {cause.message.removesuffix(ADVICE)}" for cause in causes
    )


OF_SPEC = ".properties[spec]"
RULE = "x-kubernetes-validations[0].rule: Forbidden:"
EACH = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
TOTAL = (
    ": Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema "
    "exceeds budget by"
)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(
            {"type": "array", "items": ruled("self.matches('^[a-z]+$')", **TEXT)},
            [
                f"{OF_SPEC}.items.{RULE} {EACH}",
                f"{OF_SPEC}.items.{RULE} estimated rule cost exceeds budget by factor of more than 100x",
                f"{TOTAL} factor of more than 100x",
            ],
            id="a regular expression for each item of a list without limits",
        ),
        pytest.param(
            {"type": "array", "maxItems": 10, "items": ruled("self.matches('^[a-z]+$')", **TEXT)},
            [],
            id="for each of ten items",
        ),
        pytest.param(
            {"type": "array", "maxItems": 32, "items": ruled("self.contains('abc')", **TEXT)},
            [f"{OF_SPEC}.items.{RULE} estimated rule cost exceeds budget by factor of 1.006637x"],
            id="just above the limit",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": ruled("self != 'a'", **TEXT)},
            [],
            id="a comparison for each value of a map without limits",
        ),
        pytest.param(
            ruled(*["self.all(x, x.contains('a'))"] * 2, type="array", maxItems=30, items=TEXT),
            [],
            id="two rules just below the limit",
        ),
        pytest.param(
            ruled(*["self.all(x, x.contains('a'))"] * 11, type="array", maxItems=30, items=TEXT),
            [
                *(f"{OF_SPEC}.x-kubernetes-validations[{at}].rule: Forbidden: {EACH}" for at in range(4)),
                f"{TOTAL} factor of 1.038104x",
            ],
            id="eleven of them exceed the limit of the schema, and four are named",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": ruled("self.b == 1", type="object", properties={})}},
            [],
            id="a rule without an estimate",
        ),
    ],
)
def test_definitions_with_expensive_rules_are_refused(spec: Json, want: list[str]) -> None:
    assert findings(a_definition(spec)) == want


def test_an_expensive_rule_of_an_unchanged_schema_is_kept() -> None:
    old = a_definition({"type": "array", "maxItems": 32, "items": ruled("self.contains('abc')", **TEXT)})
    assert findings(old, old) == []
    changed = a_definition({"type": "array", "maxItems": 33, "items": ruled("self.contains('abc')", **TEXT)})
    assert len(findings(changed, old)) == 1
    assert len(findings(old, changed)) == 1


def test_an_invalid_definition_is_refused_without_estimates() -> None:
    spec = {"type": "array", "items": ruled("self.matches('^[a-z]+$')", "self.(", **TEXT)}
    assert findings(a_definition(spec)) == []  # what is invalid is found elsewhere
