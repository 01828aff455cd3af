"""Kubernetes' protobuf format: literal bytes, bodies of a kube-apiserver, and laws for every kind."""

import base64
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.kube.limits import MAX_VALUES
from quorate.local.objects.protobuf.envelope import MAGIC, open_envelope, write_body, write_watch_event
from quorate.local.objects.protobuf.reader import read_message
from quorate.local.objects.protobuf.table import Field, FieldType, Message, find_message
from quorate.local.objects.protobuf.wire import Malformed
from quorate.local.objects.protobuf.writer import Unwritable, write_message
from quorate.local.objects.schema_types import (
    Json,
    ListOf,
    MapOf,
    Scalar,
    Type,
    Untyped,
    builtin_type,
)
from quorate.local.server.registry import builtin
from quorate.local.server.registry.kinds import Kind

# Metrics are computed for each request and sent as JSON.
KINDS = [kind for kind in builtin.KINDS if kind.group != builtin.COMPUTED_GROUP]

ANSWERS: list[Json] = [
    json.loads(line)
    for line in Path(__file__).with_name("protobuf-bodies.jsonl").read_text("utf-8").splitlines()
]
"""Responses of kube-apiserver 1.36.3 to one request in both formats."""


def message(*fields: tuple[int, Any]) -> bytes:
    """Return a message of these fields: text, bytes, or a number."""
    data = b""
    for number, value in fields:
        if isinstance(value, int):
            data += varint(number << 3) + varint(value & (1 << 64) - 1)
        else:
            raw = value.encode() if isinstance(value, str) else value
            data += varint(number << 3 | 2) + varint(len(raw)) + raw
    return data


def varint(number: int) -> bytes:
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def body(api_version: str, kind: str, content: bytes) -> bytes:
    return MAGIC + message((1, message((1, api_version), (2, kind))), (2, content))


def read(data: bytes) -> Json:
    return open_envelope(data).read()


def moment(seconds: int, nanos: int = 0) -> bytes:
    return message((1, seconds), (2, nanos))


EMPTY_NODE_STATUS: Json = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(
        (
            "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion",
            "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",
        ),
        "",
    ),
}  # fmt: skip
META = message((1, "a"), (11, message((1, "app"), (2, "x"))), (8, message()))
CREATED = message((1, "a"), (8, message((1, 1_704_067_200))))


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(
            body("v1", "ConfigMap", message((1, META), (2, message((1, "k"), (2, "v"))), (4, 1))),
            {"metadata": {"name": "a", "labels": {"app": "x"}}, "data": {"k": "v"}, "immutable": True},
            id="maps, booleans, an absent time",
        ),
        pytest.param(
            body("v1", "Secret", message((1, CREATED), (2, message((1, "p"), (2, b"\xff"))))),
            {"metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}, "data": {"p": "/w=="}},
            id="bytes and times",
        ),
        pytest.param(
            body("v1", "Node", message((3, message((1, message((1, "pods"), (2, message((1, "5"))))))))),
            {"metadata": {}, "spec": {}} | {"status": {"capacity": {"pods": "5"}} | EMPTY_NODE_STATUS},
            id="quantities, and structs that are never left out",
        ),
        pytest.param(
            body(
                "v1",
                "Service",
                message((2, message((1, message((3, 80), (4, message((2, 8080))))), (1, message((3, 81)))))),
            ),
            {"metadata": {}, "status": {"loadBalancer": {}}}
            | {"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": 0}]}},
            id="lists of messages, and an integer or a string",
        ),
        pytest.param(
            body("scheduling.k8s.io/v1", "PriorityClass", message((2, -5))),
            {"metadata": {}, "value": -5},
            id="negative numbers",
        ),
        pytest.param(
            body("v1", "Pod", message((2, message((11, 0), (25, 0), (19, ""))))),
            {"metadata": {}, "spec": {"containers": None, "priority": 0}, "status": {}},
            id="a pointer to zero is set, other zeros are not",
        ),
        pytest.param(
            body("coordination.k8s.io/v1", "Lease", message((2, message((3, moment(5, 1_999)))))),
            {"metadata": {}, "spec": {"acquireTime": "1970-01-01T00:00:05.000001Z"}},
            id="a time with a fraction has whole microseconds",
        ),
        pytest.param(
            body("coordination.k8s.io/v1", "Lease", message((2, message((3, moment(5, -1_999)))))),
            {"metadata": {}, "spec": {"acquireTime": "1970-01-01T00:00:04.999999Z"}},
            id="before the second too",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, message((8, moment(5, 2**40 + 7)))))),
            {"metadata": {"creationTimestamp": "1970-01-01T00:00:05Z"}},
            id="other times have none",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, message((8, moment(-62_135_596_800)))))),
            {"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}},
            id="the first second of the year 1",
        ),
        pytest.param(
            body("scheduling.k8s.io/v1", "PriorityClass", b"\x10" + b"\xff" * 9 + b"\x7f"),
            {"metadata": {}, "value": -1},
            id="the lower 64 bits of a number",
        ),
        pytest.param(
            body("v1", "Pod", message((2, message((14, b"\x22\x02\x01\x02"))))),
            {"metadata": {}, "status": {}}
            | {"spec": {"containers": None, "securityContext": {"supplementalGroups": [1, 2]}}},
            id="a packed list of numbers",
        ),
    ],
)
def test_read(data: bytes, want: Json) -> None:
    got = read(data)
    assert {name: part for name, part in got.items() if name not in ("apiVersion", "kind")} == want


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"{}", "expected prefix [107 56 115 0]", id="wrong magic bytes"),
        pytest.param(body("v1", "Nonsense", b""), "has no protobuf format", id="an unknown kind"),
        pytest.param(
            body("v1", "ConfigMap", b"\x0a\x05ab"),
            "metadata: a field is longer than its message",
            id="truncated in a field",
        ),
        pytest.param(body("v1", "ConfigMap", b"\x80"), "the body is cut off", id="truncated in a number"),
        pytest.param(
            body("v1", "ConfigMap", message((1, b"\x38\xff"), (2, b""))),
            "metadata: a number is longer than its message",
            id="a number that goes on after its message",
        ),
        pytest.param(
            body("v1", "ConfigMap", b"\x0d\x00\x00\x00\x00"),
            "field 1 of core.ConfigMap has the wrong wire type 5",
            id="an unused wire type",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, 5))),
            "field 1 of core.ConfigMap has the wrong wire type 0",
            id="a number for a message",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((99, "new"))), "core.ConfigMap has no field 99", id="a new field"
        ),
        pytest.param(
            body("v1", "Pod", message((2, message((2, message((10, message((77, "x"))))))))),
            "spec.containers.livenessProbe: core.Probe has no field 77",
            id="a new field in a part",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((2, message((3, "x"))))),
            "data: an entry of a map has no field 3 of wire type 2",
            id="a new field in an entry",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, META), (1, META))),
            "metadata: the field occurs twice",
            id="twice",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((2, message((1, b"\xff"))))),
            "data: 'utf-8' codec can't decode",
            id="not UTF-8",
        ),
        pytest.param(
            body("apps/v1", "ControllerRevision", message((2, message((1, "{"))))),
            "data.raw: Input data was truncated",
            id="not JSON",
        ),
        *(
            pytest.param(
                body("v1", "ConfigMap", message((1, message((8, moment(seconds)))))),
                "metadata.creationTimestamp: a time that is not in the years 1 to 9999",
                id=f"{seconds} s",
            )
            for seconds in (2**63 - 1, -(2**63), 253_402_300_800, -62_135_596_801)
        ),
    ],
)
def test_an_invalid_message_is_rejected(data: bytes, problem: str) -> None:
    with pytest.raises(Malformed) as error:
        read(data)
    assert problem in str(error.value)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer['method']} {answer['path']}")
def test_bodies_are_those_of_a_kube_apiserver(answer: Json) -> None:
    want, data = answer["json"], base64.b64decode(answer["protobuf"])
    if answer["method"] == "WATCH":
        frames = (write_watch_event(event["type"], write_body(event["object"])) for event in want)
        assert b"".join(frames) == data
        return
    assert write_body(want) == data
    assert read(data) == want | _without_kinds(want)


def _without_kinds(obj: Json) -> Json:
    """Return the fields in which the format loses something: an empty list, and kinds inside of a message."""
    lost: Json = {}
    if "items" in obj:
        lost["items"] = [without_kind(item) for item in obj["items"] or ()] or None
    if obj["kind"] == "StatefulSet":
        templates = [without_kind(template) for template in obj["spec"]["volumeClaimTemplates"]]
        lost["spec"] = obj["spec"] | {"volumeClaimTemplates": templates}
    return lost


def without_kind(obj: Json) -> Json:
    return {name: part for name, part in obj.items() if name not in ("apiVersion", "kind")}


def messages() -> Iterator[tuple[str, str, Message]]:
    """Yield API version, kind and message of every kind that the server reads or writes, and of its lists."""
    others = (
        ("v1", "Status"), ("v1", "DeleteOptions"), ("v1", "Binding"), ("autoscaling/v1", "Scale"),
        ("policy/v1", "Eviction"), ("authentication.k8s.io/v1", "TokenRequest"),
        ("meta.k8s.io/v1", "PartialObjectMetadata"), ("meta.k8s.io/v1", "PartialObjectMetadataList"),
    )  # fmt: skip
    lists = [(kind.api_version, kind.list_kind) for kind in KINDS if "list" in kind.verbs]
    for api_version, kind in (*((kind.api_version, kind.kind) for kind in KINDS), *lists, *others):
        found = find_message(api_version, kind)
        assert found is not None, f"{kind} of {api_version} has no message"
        yield api_version, kind, found


TEXT = st.sampled_from(("", "a", "ü/b", "x" * 130))
BYTES = st.binary(max_size=3).map(lambda data: base64.b64encode(data).decode())
DATES = st.datetimes()
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.just(0.5) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
INT32 = st.integers(-(2**31), 2**31 - 1)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "bytes": BYTES,
    "bool": st.booleans(),
    "int32": INT32,
    "int64": st.integers(-(2**63), 2**63 - 1),
    "double": st.integers(-5, 5) | st.just(0.5),
    "json": ANY.filter(lambda value: value is not None),
    "time": DATES.map(lambda date: date.isoformat(timespec="seconds") + "Z"),
    "micro-time": DATES.map(lambda date: date.isoformat(timespec="microseconds") + "Z"),
    "quantity": st.sampled_from(("0", "100m", "1Gi", "-5")),
    "int-or-string": INT32 | TEXT,
    "strings": st.lists(TEXT, max_size=2),
    "raw": ANY.filter(lambda value: value is not None),
    "fields": ANY.filter(lambda value: value is not None),
    "any": ANY.filter(lambda value: value is not None),
}
SCHEMA = find_message("apiextensions.k8s.io/v1", "JSONSchemaProps")
ALTERNATIVES: Mapping[str, st.SearchStrategy[Any]] = {
    "schema-or-array": st.lists(st.just({"type": "string"}), min_size=1, max_size=2),
    "schema-or-bool": st.booleans(),
    "schema-or-strings": st.lists(TEXT, min_size=1, max_size=2),
}
MAX_PART_DEPTH = 6


def values(field: Field, depth: int) -> st.SearchStrategy[Any]:
    """Return a strategy for one value of a field, an item of its list or a value of its map."""
    match field.type:
        case str() as name:
            return VALUES[name]
        case Message(is_special=True, name=name) if name in ALTERNATIVES:
            assert SCHEMA is not None
            return objects(SCHEMA, depth + 1) | ALTERNATIVES[name]
        case Message(is_special=True, name=name):
            return VALUES[name]
        case message_type:
            return objects(message_type, depth + 1)


@st.composite
def objects(draw: st.DrawFn, message_type: Message, depth: int = 0) -> Json:
    """Return the JSON that Go writes for a message with a few of its optional fields."""
    obj: Json = {}
    names = [field.name for field in message_type.fields if field.name]
    is_leaf = depth > MAX_PART_DEPTH or not names
    chosen = set() if is_leaf else draw(st.sets(st.sampled_from(names), max_size=3))
    for field in message_type.fields:
        one = values(field, depth)
        if not field.name:
            obj |= draw(one)
        elif field.is_list and field.name in chosen:
            obj[field.name] = draw(st.lists(one, min_size=1, max_size=2))
        elif field.is_map and field.name in chosen:
            obj[field.name] = draw(st.dictionaries(TEXT, one, min_size=1, max_size=2))
        elif field.is_single and (field.is_required or is_struct(field)):
            obj[field.name] = draw(one)
        elif field.name in chosen:
            value = draw(one)
            if field.is_pointer or field.omits_zero or value:
                obj[field.name] = value
        elif field.is_required:
            obj[field.name] = None
    return obj


def is_struct(field: Field) -> bool:
    """Return True for a struct, which Go's JSON has even if it is empty."""
    return isinstance(field.type, Message) and not field.omits_zero


MESSAGES = {message_type.full_name: message_type for _, _, message_type in messages()}


@pytest.mark.parametrize("name", sorted(MESSAGES))
@settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_an_object_is_the_same_after_writing_and_reading(name: str, data: st.DataObject) -> None:
    obj = data.draw(objects(MESSAGES[name]))
    assert read_message(MESSAGES[name], write_message(MESSAGES[name], obj)) == obj


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_the_fields_of_messages_are_those_of_the_types(kind: Kind) -> None:
    """A field in one table only is lost, and a value of another type cannot be written."""
    types, message_type = builtin_type(kind.api_version, kind.kind), find_message(kind.api_version, kind.kind)
    assert types is not None
    assert message_type is not None
    assert list(differences(types, message_type, set())) == []


SCALAR_TYPES = {
    "bytes": ("bytes",),
    "boolean": ("bool",),
    "integer": ("int32", "int64"),
    "number": ("double",),
}
"""The types of numbers and bytes in messages; other types have the same names in both tables."""


def differences(types: MapOf, message_type: Message, seen: set[MapOf]) -> Iterator[str]:
    if types in seen:
        return
    seen.add(types)
    fields = fields_in_json(message_type)
    declared = {name for name in types.fields if name in fields or name not in ("apiVersion", "kind")}
    for name in declared ^ fields.keys():
        yield f"{message_type.full_name}.{name} is in one table only"
    for name in declared & fields.keys():
        part, field = types.fields[name], fields[name]
        match part:
            case ListOf(item) if field.is_list:
                part = item
            case MapOf(name="", rest=rest) if field.is_map and rest is not None:
                part = rest
        if isinstance(part, MapOf) and part.name and isinstance(field.type, Message):
            yield from differences(part, field.type, seen)
        elif not is_same_type(part, field.type):
            yield f"{message_type.full_name}.{name} has the types {part} and {field.type}"


def fields_in_json(message_type: Message) -> Mapping[str, Field]:
    fields: dict[str, Field] = {}
    for field in message_type.fields:
        inlined = {} if field.name or isinstance(field.type, str) else fields_in_json(field.type)
        fields |= {field.name: field} if field.name else inlined
    return fields


def is_same_type(part: Type, type_: FieldType) -> bool:
    name = type_ if isinstance(type_, str) else type_.name
    match part:
        case Scalar(scalar):
            return name in SCALAR_TYPES.get(scalar, (scalar,))
        case ListOf(Scalar("string")):
            return name == "strings"
        case Untyped():
            return isinstance(type_, Message) and type_.is_special
    return False


def test_a_field_without_a_number_is_an_error_that_names_it() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "imagee": "x"}]}}
    with pytest.raises(Unwritable, match=r"core\.Container has no field imagee"):
        write_body(pod)


NUMBERS = st.one_of(st.sampled_from((0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)), st.integers(0, 2**70))
CONTENTS = st.recursive(
    st.one_of(NUMBERS, st.binary(max_size=12), st.sampled_from(("1", "2026-01-01T00:00:00Z"))),
    lambda inner: st.lists(st.tuples(st.integers(1, 20), inner), max_size=6).map(
        lambda fields: message(*fields)
    ),
    max_leaves=30,
)


@given(st.sampled_from(sorted(MESSAGES)), st.lists(st.tuples(st.integers(1, 20), CONTENTS), max_size=6))
def test_any_message_is_read_as_json_or_rejected(name: str, fields: list[tuple[int, Any]]) -> None:
    assert_json_or_rejected(MESSAGES[name], message(*fields))


BODIES = [base64.b64decode(answer["protobuf"]) for answer in ANSWERS if answer["method"] == "GET"]


@settings(max_examples=300)
@given(st.sampled_from(BODIES), st.data())
def test_a_damaged_body_is_read_as_json_or_rejected(whole: bytes, data: st.DataObject) -> None:
    damaged = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.just(len(whole)) | st.integers(0, len(whole)))
    try:
        envelope = open_envelope(bytes(damaged[:end]))
    except Malformed:
        return
    found = find_message(envelope.api_version, envelope.kind)
    if found is not None:
        assert_json_or_rejected(found, envelope.message)


def assert_json_or_rejected(message_type: Message, data: bytes) -> None:
    try:
        got = read_message(message_type, data)
    except Malformed:
        return
    assert msgspec.json.decode(msgspec.json.encode(got)) == got


def nested(field: int, depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = message((field, data))
    return data


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        pytest.param(
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            message((2, message((7, message((1, "v1"), (4, message((1, nested(29, 5_000))))))))),
            id="deep nesting",
        ),
        pytest.param("v1 Pod", message((2, b"\x12\0" * 4_000)), id="many empty parts"),
        pytest.param("v1 Pod", message((1, b"\x5a\0" * 4_000)), id="many entries of a map"),
        pytest.param("v1 Secret", b"\x12\xff\xff\xff\xff\x0f", id="a length of four gigabytes"),
        pytest.param("v1 Pod", b"\xff" * 8_000, id="a number without an end"),
    ],
)
def test_a_hostile_body_is_read_or_rejected_in_time(kind: str, content: bytes) -> None:
    found = find_message(*kind.split())
    assert found is not None
    times = []
    for _ in range(3):  # the first reading parses the table, and any may be the one that collects garbage
        start = time.thread_time()
        assert_json_or_rejected(found, content)
        times.append(time.thread_time() - start)
    assert min(times) < 0.05


@pytest.mark.parametrize(
    ("kind", "content", "path"),
    [
        pytest.param("v1 Pod", message((2, b"\x12\0" * (MAX_VALUES + 1))), "spec", id="parts"),
        pytest.param(
            "apps/v1 ControllerRevision",
            message((2, message((1, b"[%s[]]" % (b"[]," * MAX_VALUES))))),
            "data.raw",
            id="parts of an embedded JSON text",
        ),
    ],
)
def test_the_values_of_a_body_are_bounded(kind: str, content: bytes, path: str) -> None:
    found = find_message(*kind.split())
    assert found is not None
    with pytest.raises(Malformed, match=f"^{path}: more than {MAX_VALUES} values$"):
        read_message(found, content)
