"""The table of field rules is complete: every name in it exists, and every registered rule is used."""

import pytest

from quorate.local.server.registry import strategies
from quorate.local.server.registry.validation.field_rules import (
    ENTRIES,
    RELATIONS,
    FieldRule,
    check,
    rule_table,
)
from quorate.local.server.registry.validation.formats import FORMATS
from tests.local.server.validation.objects import show

RULES = [rule for rules in rule_table().values() for rule in rules]
NESTED = [rule.each for rule in RULES if rule.each is not None]


def test_every_type_named_by_a_rule_has_rules() -> None:
    named = {name for rule in RULES for name in (rule.type, rule.items, *rule.types.values()) if name}
    assert named <= rule_table().keys()


def test_the_table_and_the_registered_relations_name_each_other() -> None:
    assert strategies.RELATIONS_OF_FIELD_RULES, "registers the relations"
    assert {rule.relation for rule in RULES if rule.relation} == RELATIONS.keys()


def test_every_format_and_every_map_rule_exists_and_is_used() -> None:
    assert {rule.format for rule in RULES + NESTED if rule.format} == FORMATS.keys()
    assert {rule.entries for rule in RULES if rule.entries} == ENTRIES.keys()


@pytest.mark.parametrize(
    ("type_name", "obj", "want"),
    [
        pytest.param("Lease", {}, [], id="an absent field is valid"),
        pytest.param("RuntimeClass", {}, ["handler Invalid"], id="unless the table has a value for it"),
        pytest.param(
            "Endpoint",
            {},
            ["addresses Required"],
            id="a required field is reported once, its other rules not",
        ),
        pytest.param(
            "LifecycleHandler",
            {"exec": {}, "sleep": {}},
            ["sleep Forbidden", "exec.command Required"],
            id="of several alternatives only the first is checked",
        ),
    ],
)
def test_application_of_rules(type_name: str, obj: dict[str, object], want: list[str]) -> None:
    if type_name == "Endpoint":
        obj = {"endpoints": [obj], "addressType": "FQDN"}
        type_name, want = "EndpointSlice", [f"endpoints[0].{finding}" for finding in want]
    assert show(list(check(type_name, obj))) == want


def test_a_rule_with_an_unknown_key_is_an_error() -> None:
    with pytest.raises(TypeError):
        FieldRule(colour="red")  # type: ignore[call-arg]
