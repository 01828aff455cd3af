"""The table of merge rules is about fields that exist."""

from importlib.resources import files
from typing import Any

import yaml

from quorate.local import objects
from quorate.local.objects.protobuf.table import message_named
from quorate.local.objects.schema_types import ListOf, MapOf, Type, builtin_type
from quorate.local.server.registry.builtin import KINDS

RULES: dict[str, Any] = yaml.safe_load(files(objects).joinpath("merge_rules.yaml").read_text("utf-8"))


def named_types(type_: Type | None, seen: dict[str, MapOf]) -> dict[str, MapOf]:
    """Return the types with names that a type contains, itself included."""
    match type_:
        case ListOf(item):
            return named_types(item, seen)
        case MapOf(name=name) if name not in seen:
            if name:
                seen[name] = type_
            for part in (*type_.fields.values(), type_.rest):
                named_types(part, seen)
    return seen


def test_every_rule_is_about_a_type_and_a_field_of_the_built_in_kinds() -> None:
    types: dict[str, MapOf] = {}
    for kind in KINDS:
        named_types(builtin_type(kind.api_version, kind.kind), types)
    for name, fields in RULES["merge"].items():
        assert fields.keys() <= types[name].fields.keys(), name
    assert {*RULES["atomic"], *RULES["embedded"], *RULES["names"].values()} <= types.keys()
    for message in RULES["names"]:
        assert message_named(message).fields
