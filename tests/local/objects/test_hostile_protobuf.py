"""Bytes that no client writes: they are read as JSON or rejected, in time and within the limits."""

import base64
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.kube.limits import MAX_VALUES
from quorate.local.objects.protobuf.envelope import open_envelope
from quorate.local.objects.protobuf.reader import read_message
from quorate.local.objects.protobuf.table import Malformed, Message, find_message
from tests.local.objects.protobuf_bodies import ANSWERS, MESSAGES, message

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
