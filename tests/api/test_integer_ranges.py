"""Integers that are written are within the ranges of their fields."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from msgspec import inspect

from quorate.api import codec
from quorate.api.crds import custom_resource_definitions
from quorate.api.integer_ranges import within_ranges
from quorate.api.kueue import ClusterQueue, Workload, WorkloadStatus
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Job
from quorate.kube import resources
from quorate.kube.patches import merge_patch

MAX32, MAX64 = 2**31 - 1, 2**63 - 1


@pytest.mark.parametrize(
    ("type_", "written", "limited"),
    [
        pytest.param(
            Workload,
            {"status": {"accumulatedPastExecutionTimeSeconds": 5 * 10**9}},
            {"status": {"accumulatedPastExecutionTimeSeconds": MAX32}},
            id="a field that may be absent",
        ),
        pytest.param(
            PodGroup,
            {"spec": {"minMember": 2**70, "minTaskMember": {"a": -(2**40), "b": 10**9}}},
            {"spec": {"minMember": MAX32, "minTaskMember": {"a": -(2**31), "b": 10**9}}},
            id="beyond 64 bits, and in a map",
        ),
        pytest.param(
            Job,
            {"spec": {"tasks": [{"replicas": 10**10, "template": {"unknown": 10**10, "name": "t"}}]}},
            {"spec": {"tasks": [{"replicas": MAX32, "template": {"unknown": 10**10, "name": "t"}}]}},
            id="in a list, and not in a template",
        ),
        pytest.param(
            ClusterQueue,
            {"status": {"fairSharing": {"weightedShare": 10**120}, "pendingWorkloads": 3}},
            {"status": {"fairSharing": {"weightedShare": MAX64}, "pendingWorkloads": 3}},
            id="an int64",
        ),
        pytest.param(
            Workload,
            {"metadata": {"resourceVersion": "12345678901", "name": ",12345678901"}, "spec": None},
            {"metadata": {"resourceVersion": "12345678901", "name": ",12345678901"}, "spec": None},
            id="texts and nulls stay",
        ),
    ],
)
def test_integers_beyond_their_range_are_limited(type_: Any, written: Any, limited: Any) -> None:
    assert codec.decode(dict[str, Any], within_ranges(type_, codec.encode(written))) == limited


def test_a_number_that_is_limited_when_written_is_no_change_once_it_is_stored() -> None:
    stored = WorkloadStatus(accumulated_past_execution_time_seconds=MAX32)
    wanted = WorkloadStatus(accumulated_past_execution_time_seconds=MAX32 + 5)
    assert merge_patch(WorkloadStatus(), wanted) == {"accumulatedPastExecutionTimeSeconds": MAX32}
    assert merge_patch(stored, wanted) == {}


def unlimited(schema: Any, declared: inspect.Type, path: str) -> Iterator[str]:
    """Yield the integer fields of a schema that a type declares without a range."""
    match declared:
        case inspect.UnionType(types):
            for each in types:
                yield from unlimited(schema, each, path)
        case inspect.StructType(fields=fields):
            properties = schema.get("properties", {})
            for field in fields:
                if field.encode_name in properties:
                    part = properties[field.encode_name]
                    yield from unlimited(part, field.type, f"{path}.{field.encode_name}")
        case inspect.DictType(value_type=inner):
            yield from unlimited(schema.get("additionalProperties", {}), inner, f"{path}{{}}")
        case inspect.VarTupleType(item_type=inner):
            yield from unlimited(schema.get("items", {}), inner, f"{path}[]")
        case inspect.IntType(ge=minimum, le=maximum):
            bits = {"int32": 31, "int64": 63}[schema["format"]]
            if (minimum, maximum) != (-(2**bits), 2**bits - 1):
                yield path


@pytest.mark.parametrize("file", ["kueue.yaml", "volcano.yaml"])
def test_every_integer_of_our_kinds_has_the_range_of_its_format(file: str) -> None:
    types = {
        (each.group, each.version, each.plural): each.type
        for each in vars(resources).values()
        if isinstance(each, resources.Resource)
    }
    found: list[str] = []
    known = 0
    for definition in custom_resource_definitions(files("quorate.api.crds").joinpath(file).read_text()):
        spec = definition["spec"]
        for version in spec["versions"]:
            type_ = types.get((spec["group"], version["name"], spec["names"]["plural"]))
            if type_ is not None:
                known += 1
                schema = version["schema"]["openAPIV3Schema"]
                found += unlimited(schema, inspect.type_info(type_), spec["names"]["kind"])
    assert known >= 4
    assert found == []
