"""Pruning, defaulting and validation of custom resources."""

from typing import Any

import pytest

from quorate.api.codec import Json
from quorate.local.objects.crd.cel import FieldTree, InvalidRule, referenced_fields
from quorate.local.objects.crd.schema import Schema, apply_defaults, compile_schema, object_merge_type, prune
from quorate.local.objects.crd.validation import validate
from quorate.local.objects.errors import Cause
from quorate.local.objects.schema_types import ListMergeType, ListOf, MapOf


def schema_of(**properties: Json) -> Schema:
    """Return the schema of a kind with these fields in its spec."""
    spec = {"type": "object", "properties": properties}
    return compile_schema({"type": "object", "properties": {"spec": spec}})


def show(causes: list[Cause]) -> list[str]:
    """Return each finding as `field Reason`."""
    return [f"{cause.field} {cause.reason.removeprefix('FieldValue')}" for cause in causes]


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
KEYED: Json = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "required": ["k"], "properties": {"k": STRING, "v": INTEGER}},
}
EITHER = {
    "type": "object",
    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    "properties": {"a": {}, "b": {}},
}
PERCENT = {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+%?$", "anyOf": [INTEGER, STRING]}


@pytest.mark.parametrize(
    ("schema", "value", "want"),
    [
        pytest.param({"type": "integer", "minimum": 1}, 0, ["spec.x Invalid"], id="below the minimum"),
        pytest.param({"type": "integer", "maximum": 10}, 11, ["spec.x Invalid"], id="above the maximum"),
        pytest.param({"type": "integer", "maximum": 10}, 10, [], id="the maximum itself"),
        pytest.param(
            {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            0,
            ["spec.x Invalid"],
            id="an exclusive minimum",
        ),
        pytest.param({"type": "integer", "multipleOf": 5}, 7, ["spec.x Invalid"], id="not a multiple"),
        pytest.param(INTEGER, "1", ["spec.x TypeInvalid"], id="a string is not an integer"),
        pytest.param(INTEGER, True, ["spec.x TypeInvalid"], id="a boolean is not an integer"),
        pytest.param(
            INTEGER, 1.5, ["spec.x TypeInvalid", "<nil> Invalid"], id="a fraction is not an integer"
        ),
        pytest.param(INTEGER, 1.0, [], id="a whole float is an integer"),
        pytest.param(INTEGER, 2**63 - 1, [], id="the largest integer"),
        pytest.param(
            INTEGER, 2**63, ["spec.x TypeInvalid", "<nil> Invalid"], id="more than the largest integer"
        ),
        pytest.param({"type": "number"}, 1, [], id="an integer is a number"),
        pytest.param(INTEGER | {"format": "int32"}, 3_000_000_000, ["<nil> Invalid"], id="more than 32 bits"),
        pytest.param(INTEGER | {"format": "int64"}, (1 << 63) - 1, [], id="64 bits"),
        pytest.param(STRING | {"minLength": 2}, "a", ["spec.x Invalid"], id="too short"),
        pytest.param(STRING | {"maxLength": 2}, "abc", ["spec.x TooLong"], id="too long"),
        pytest.param(STRING | {"pattern": "^[a-z]+$"}, "AB", ["spec.x Invalid"], id="a pattern mismatch"),
        pytest.param(STRING | {"pattern": "b"}, "abc", [], id="an unanchored pattern"),
        pytest.param(STRING | {"enum": ["x", "y"]}, "z", ["spec.x NotSupported"], id="not in the enum"),
        pytest.param(STRING | {"format": "date-time"}, "yesterday", ["spec.x TypeInvalid"], id="not a time"),
        pytest.param(STRING | {"format": "date-time"}, "2024-01-01T00:00:00Z", [], id="a time"),
        pytest.param(STRING | {"format": "duration"}, "later", ["spec.x TypeInvalid"], id="not a duration"),
        pytest.param(STRING | {"format": "duration"}, "1h30m", [], id="a duration"),
        pytest.param(STRING | {"format": "whatever"}, "x", [], id="an unknown format is not checked"),
        pytest.param({"type": "array", "items": STRING}, [1], ["spec.x[0] TypeInvalid"], id="a wrong item"),
        pytest.param({"type": "array", "items": STRING, "minItems": 1}, [], ["spec.x Invalid"], id="too few"),
        pytest.param(
            {"type": "array", "items": STRING, "maxItems": 1}, ["a", "b"], ["spec.x TooMany"], id="too many"
        ),
        pytest.param(
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            ["a", "b", "a"],
            ["spec.x[2] Duplicate"],
            id="a duplicate in a set",
        ),
        pytest.param(KEYED, [{"k": "1"}, {"k": "1", "v": 2}], ["spec.x[1] Duplicate"], id="a duplicate key"),
        pytest.param(KEYED, [{"v": 1}], ["spec.x[0].k Required"], id="a missing key"),
        pytest.param(
            {"type": "object", "maxProperties": 1, "additionalProperties": INTEGER},
            {"a": 1, "b": "x"},
            ["spec.x TooMany", "spec.x.b TypeInvalid"],
            id="arbitrary keys",
        ),
        pytest.param(PERCENT, 7, [], id="an int-or-string that is an integer"),
        pytest.param(PERCENT, "50%", [], id="an int-or-string that is a string"),
        pytest.param(PERCENT, "abc", ["spec.x Invalid"], id="an int-or-string with a pattern mismatch"),
        pytest.param(PERCENT, 1.5, ["spec.x TypeInvalid"], id="an int-or-string that is neither"),
        pytest.param(EITHER, {"a": 1}, [], id="matches one of two"),
        pytest.param(EITHER, {}, ["<nil> Invalid", "spec.x.a Required"], id="matches none of two"),
        pytest.param(EITHER, {"a": 1, "b": 2}, ["<nil> Invalid"], id="matches both"),
        pytest.param(STRING | {"not": {"enum": ["no"]}}, "no", ["<nil> Invalid"], id="not"),
        pytest.param(STRING | {"nullable": True}, None, [], id="a nullable field"),
        pytest.param(
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
            {"spec": {}},
            ["spec.x.apiVersion Required", "spec.x.kind Required"],
            id="an embedded resource has a kind",
        ),
    ],
)
def test_validate(schema: Json, value: Any, want: list[str]) -> None:
    assert show(validate({"spec": {"x": value}}, schema_of(x=schema))) == want


def test_all_findings_are_reported() -> None:
    schema = schema_of(n={"type": "integer", "minimum": 1}, e=STRING | {"enum": ["x"]})
    assert show(validate({"spec": {"n": 0, "e": "q"}}, schema)) == ["spec.n Invalid", "spec.e NotSupported"]


def test_unchanged_values_are_ratcheted() -> None:
    schema = schema_of(n={"type": "integer", "maximum": 1}, m=INTEGER)
    old = {"spec": {"n": 5}}
    assert show(validate({"spec": {"n": 5, "m": 1}}, schema, old)) == []
    assert show(validate({"spec": {"n": 6}}, schema, old)) == ["spec.n Invalid"]


def ruled(schema: Json, *rules: Json | str) -> Json:
    return schema | {"x-kubernetes-validations": [{"rule": r} if isinstance(r, str) else r for r in rules]}


RULES = schema_of(
    name=ruled(STRING, {"rule": "self == oldSelf", "message": "name is immutable"}),
    once=ruled(
        STRING,
        {
            "rule": "self.startsWith('a')",
            "messageExpression": "'must start with a, is ' + self",
            "reason": "FieldValueForbidden",
        },
    ),
    list={"type": "array", "items": ruled({"type": "object", "properties": {"a": INTEGER}}, "self.a > 0")},
    map={"type": "object", "additionalProperties": ruled(INTEGER, "self > 0")},
    grow=ruled(INTEGER, {"rule": "!oldSelf.hasValue() || self >= oldSelf.value()", "optionalOldSelf": True}),
    sorted=ruled({"type": "array", "items": INTEGER}, "self.isSorted() && self.sum() < 10"),
    keyed=KEYED | {"items": ruled(KEYED["items"], "self.v >= oldSelf.v")},
)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(
            {"name": "n"}, {"name": "m"}, 'spec.name: Invalid value: "m": name is immutable', id="change"
        ),
        pytest.param({"name": "n"}, {"name": "n"}, "", id="no change"),
        pytest.param({}, {"name": "first"}, "", id="a transition rule needs an old value"),
        pytest.param(
            {}, {"once": "xyz"}, "spec.once: Forbidden: must start with a, is xyz", id="a message expression"
        ),
        pytest.param(
            {},
            {"list": [{"a": 1}, {"a": 0}]},
            "spec.list[1]: Invalid value: failed rule: self.a > 0",
            id="an item of a list",
        ),
        pytest.param(
            {}, {"map": {"k": 0}}, "spec.map[k]: Invalid value: 0: failed rule: self > 0", id="a map's value"
        ),
        pytest.param({}, {"grow": 3}, "", id="an absent optional old value"),
        pytest.param(
            {"grow": 5},
            {"grow": 4},
            "spec.grow: Invalid value: 4: failed rule: !oldSelf.hasValue() || self >= oldSelf.value()",
            id="a present optional old value",
        ),
        pytest.param({}, {"sorted": [1, 2]}, "", id="list functions"),
        pytest.param(
            {},
            {"sorted": [2, 1]},
            "spec.sorted: Invalid value: failed rule: self.isSorted() && self.sum() < 10",
            id="list functions that return false",
        ),
        pytest.param(
            {"keyed": [{"k": "a", "v": 2}, {"k": "b", "v": 1}]},
            {"keyed": [{"k": "b", "v": 1}, {"k": "a", "v": 1}]},
            "spec.keyed[1]: Invalid value: failed rule: self.v >= oldSelf.v",
            id="items of a keyed list are compared by key",
        ),
        pytest.param(
            {},
            {"list": [{}]},
            'spec.list[0]: Invalid value: "object": no such key: a evaluating rule: self.a > 0',
            id="a rule with an evaluation error",
        ),
    ],
)
def test_rules(old: Json, new: Json, want: str) -> None:
    causes = validate({"spec": new}, RULES, {"spec": old})
    assert [f"{cause.field}: {cause.message}" for cause in causes] == ([want] if want else [])


@pytest.mark.parametrize(
    ("rule", "variable", "want"),
    [
        pytest.param("self == oldSelf", "self", None, id="the whole value"),
        pytest.param("self['a'] == 1", "self", None, id="an index"),
        pytest.param("self.?a.orValue(0) > 0", "self", None, id="an optional field"),
        pytest.param("has(self.a.b) && self.c", "self", {"a": {"b": None}, "c": None}, id="two fields"),
        pytest.param("self.a.b > self.a.c", "self", {"a": {"b": None, "c": None}}, id="two nested fields"),
        pytest.param("self.a == 1 || self.a.b == 2", "self", {"a": None}, id="a field and a nested one"),
        pytest.param("self.all(x, x > 0)", "self", None, id="a method of the whole value"),
        pytest.param(
            "self.a.exists(c, c.self.d)", "self", {"a": None}, id="a method, and a field with its name"
        ),
        pytest.param("self.a == oldSelf.b", "oldSelf", {"b": None}, id="another variable"),
        pytest.param("oldSelf.a == 1", "self", {}, id="not referenced"),
    ],
)
def test_referenced_fields(rule: str, variable: str, want: FieldTree) -> None:
    assert referenced_fields(rule, variable) == want


def test_rules_are_not_evaluated_on_a_value_of_the_wrong_type() -> None:
    assert show(validate({"spec": {"once": 5}}, RULES)) == ["spec.once TypeInvalid", "<nil> Invalid"]


@pytest.mark.parametrize("rule", ["1 +", "nothing(self)", "'text'", "self.url().getHost() == 'x'"])
def test_a_rule_that_does_not_compile_is_rejected(rule: str) -> None:
    with pytest.raises(InvalidRule):
        compile_schema(ruled(STRING, rule))


def test_a_rule_over_its_cost_limit_is_a_cause_and_ends_the_evaluation() -> None:
    quadratic = {"x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x + y >= 0))"}]}
    items = {"type": "array", "items": {"type": "integer"}} | quadratic
    schema = compile_schema({"type": "object", "properties": {"a": items, "b": items}})
    causes = validate({"a": list(range(1000)), "b": list(range(1000))}, schema)
    assert [(cause.field, cause.reason) for cause in causes] == [("a", "FieldValueInvalid")]
    assert "no further validation rules will be run due to call cost exceeds limit" in causes[0].message


def test_field_names_are_escaped_for_cel() -> None:
    schema = compile_schema(
        ruled(
            {"type": "object", "properties": {"a-b": INTEGER, "in": INTEGER}}, "self.a__dash__b > self.__in__"
        )
    )
    assert validate({"a-b": 2, "in": 1}, schema) == []
    assert len(validate({"a-b": 1, "in": 2}, schema)) == 1


def test_pruning_keeps_metadata_and_preserved_fields() -> None:
    inner = {"type": "object", "properties": {"a": INTEGER}}
    schema = schema_of(
        size=INTEGER,
        open={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"in": inner}},
        any={"x-kubernetes-preserve-unknown-fields": True},
        map={"type": "object", "additionalProperties": STRING},
        list={"type": "array", "items": inner},
    )
    value = {
        "apiVersion": "g/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "bogus": 1},
        "extra": 1,
        "spec": {
            "bogus": 1,
            "open": {"free": {"x": 1}, "in": {"a": 1, "gone": 2}},
            "any": [1, {"y": None}],
            "map": {"k": "v"},
            "list": [{"a": 1, "b": 2}],
        },
    }
    assert prune(value, schema) == [
        "extra",
        "metadata.bogus",
        "spec.bogus",
        "spec.list[0].b",
        "spec.open.in.gone",
    ]
    assert value == {
        "apiVersion": "g/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {
            "open": {"free": {"x": 1}, "in": {"a": 1}},
            "any": [1, {"y": None}],
            "map": {"k": "v"},
            "list": [{"a": 1}],
        },
    }


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {"size": 3, "nested": {"x": 1}, "maybe": "d"}, id="nested defaults"),
        pytest.param(
            {"size": 0, "nested": {"y": 2}, "maybe": "e"},
            {"size": 0, "nested": {"y": 2, "x": 1}, "maybe": "e"},
            id="existing values stay",
        ),
        pytest.param(
            {"size": None, "maybe": None},
            {"size": 3, "nested": {"x": 1}, "maybe": None},
            id="a null in a non-nullable field gets the default",
        ),
        pytest.param(
            {"list": [{}, {"p": "own"}]},
            {"size": 3, "nested": {"x": 1}, "maybe": "d", "list": [{"p": "q"}, {"p": "own"}]},
            id="in items",
        ),
        pytest.param(
            {"plain": None},
            {"size": 3, "nested": {"x": 1}, "maybe": "d"},
            id="a null without a default is removed",
        ),
    ],
)
def test_apply_defaults(spec: Json, want: Json) -> None:
    schema = schema_of(
        size=INTEGER | {"default": 3},
        nested={"type": "object", "default": {}, "properties": {"x": INTEGER | {"default": 1}, "y": INTEGER}},
        maybe=STRING | {"nullable": True, "default": "d"},
        list={"type": "array", "items": {"type": "object", "properties": {"p": STRING | {"default": "q"}}}},
        plain=STRING,
    )
    value: Json = {"spec": spec}
    apply_defaults(value, schema)
    assert value == {"spec": want}


def test_an_object_without_a_spec_gets_none() -> None:
    value: Json = {}
    apply_defaults(value, schema_of(size=INTEGER | {"default": 3}))
    assert value == {}


def test_merge_types() -> None:
    atomic = {"type": "object", "x-kubernetes-map-type": "atomic"}
    kind = object_merge_type(schema_of(keyed=KEYED, whole=atomic, plain={"type": "array", "items": STRING}))
    spec = kind.fields["spec"]
    assert isinstance(spec, MapOf)
    keyed, whole, plain = (spec.fields[name] for name in ("keyed", "whole", "plain"))
    assert isinstance(keyed, ListOf)
    assert (keyed.relation, keyed.keys) == (ListMergeType.MAP, ("k",))
    assert isinstance(whole, MapOf)
    assert whole.atomic
    assert isinstance(plain, ListOf)
    assert plain.relation is ListMergeType.ATOMIC
