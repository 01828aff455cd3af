"""Validation of random objects: any object that can be decoded is validated without an exception."""

from random import Random
from typing import Any

import pytest

from quorate.local.objects.errors import group_resource
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, Type, Untyped
from quorate.local.server.registry import builtin
from quorate.local.server.registry.kinds import Kind, no_findings

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

Json = dict[str, Any]

WORDS = (
    "",
    "a",
    "Bad_Name",
    "In",
    "Exists",
    "Indexed",
    "Always",
    "None",
    "True",
    "Complete",
    "1,3-5",
    "a.b/c",
)
SCALARS: dict[str, tuple[Any, ...]] = {
    "string": WORDS,
    "int32": (-1, 0, 1, 100_001),
    "int64": (-1, 0, 1, 100_001),
    "number": (-1, 0, 1),
    "boolean": (False, True),
    "time": ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"),
    "micro-time": ("2024-01-01T00:00:00.000000Z",),
    "quantity": ("-1", "0", "1", "1500m", "2Gi"),
    "bytes": ("", "YQ=="),
    "int-or-string": (0, 80, "web", "Bad Port"),
}
VALIDATIONS = ("validate", "validate_create", "validate_update", "validate_status")
KINDS = {
    group_resource(kind.group, kind.plural): kind
    for kind in builtin.KINDS
    if kind.group != "apiextensions.k8s.io"
    and any(getattr(kind.strategy, name) is not no_findings for name in VALIDATIONS)
}
PAIRS = 300


def a_value(shape: Type, rng: Random) -> Any:
    match shape:
        case Scalar(name):
            return rng.choice(SCALARS[name])
        case ListOf(item):
            return [a_value(item, rng) for _ in range(rng.randrange(3))]
        case MapOf(fields=fields) if fields:
            chosen = rng.sample(sorted(fields), min(len(fields), rng.randrange(5)))
            return {name: a_value(fields[name], rng) for name in chosen}
        case MapOf(rest=rest) if rest is not None:
            return {rng.choice(WORDS): a_value(rest, rng) for _ in range(rng.randrange(3))}
        case _:
            assert isinstance(shape, Untyped | MapOf)
            return {}


def an_object(kind: Kind, rng: Random) -> Json:
    fields = kind.type.fields
    parts = {
        name: a_value(fields[name], rng) for name in fields if name not in ("apiVersion", "kind", "metadata")
    }
    obj = kind.strategy.decode(parts | {"metadata": {"name": "n", "uid": "u", "namespace": "default"}}).object
    kind.strategy.default(obj)
    return obj


@pytest.mark.parametrize("name", KINDS)
def test_validation_of_a_decoded_object_does_not_fail(name: str) -> None:
    kind, rng = KINDS[name], Random(name)
    found = 0
    for _ in range(PAIRS):
        old, new = an_object(kind, rng), an_object(kind, rng)
        found += len(kind.strategy.validate(new) + kind.strategy.validate_create(new))
        found += len(kind.strategy.validate_update(new, old) + kind.strategy.validate_status(new, old))
        kind.strategy.warnings(new)
    assert found, "the random objects violate no rule"


@pytest.mark.parametrize("name", KINDS)
def test_an_update_without_changes_has_no_findings(name: str) -> None:
    kind, rng = KINDS[name], Random(name)
    for _ in range(PAIRS):
        obj = an_object(kind, rng)
        if not kind.strategy.validate(obj):
            assert kind.strategy.validate_update(obj, obj) == []
