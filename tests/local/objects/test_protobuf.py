"""Decoding of Kubernetes' protobuf format, from literal bytes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.local.objects.protobuf import MAGIC, Malformed, read
from quorate.local.objects.schema_types import Json


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


def moment(seconds: int, nanos: int = 0) -> bytes:
    return message((1, seconds), (2, nanos))


META = message((1, "a"), (11, message((1, "app"), (2, "x"))), (8, message()))
CREATED = message((1, "a"), (8, message((1, 1_704_067_200))))


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param(
            body("v1", "ConfigMap", message((1, META), (2, message((1, "k"), (2, "v"))), (4, 1))),
            {"metadata": {"name": "a", "labels": {"app": "x"}, "creationTimestamp": None}}
            | {"data": {"k": "v"}, "immutable": True},
            id="maps, booleans, an absent time",
        ),
        pytest.param(
            body("v1", "Secret", message((1, CREATED), (2, message((1, "p"), (2, b"\xff"))))),
            {
                "metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00+00:00"},
                "data": {"p": "/w=="},
            },
            id="bytes and times",
        ),
        pytest.param(
            body(
                "v1",
                "ResourceQuota",
                message((2, message((1, message((1, "pods"), (2, message((1, "5")))))))),
            ),
            {"spec": {"hard": {"pods": "5"}}},
            id="quantities",
        ),
        pytest.param(
            body(
                "v1",
                "Service",
                message((2, message((1, message((3, 80), (4, message((2, 8080))))), (1, message((3, 81)))))),
            ),
            {"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 81}]}},
            id="lists of messages, and an integer or a string",
        ),
        pytest.param(
            body("scheduling.k8s.io/v1", "PriorityClass", message((2, -5))),
            {"value": -5},
            id="negative numbers",
        ),
        pytest.param(body("v1", "ConfigMap", message((99, "new"))), {}, id="unknown fields are ignored"),
        pytest.param(
            body("coordination.k8s.io/v1", "Lease", message((2, message((3, moment(5, 1_999)))))),
            {"spec": {"acquireTime": "1970-01-01T00:00:05.000001+00:00"}},
            id="a time with a fraction has whole microseconds",
        ),
        pytest.param(
            body("coordination.k8s.io/v1", "Lease", message((2, message((3, moment(5, -1_999)))))),
            {"spec": {"acquireTime": "1970-01-01T00:00:04.999999+00:00"}},
            id="before the second too",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, message((8, moment(5, 2**40 + 7)))))),
            {"metadata": {"creationTimestamp": "1970-01-01T00:00:05+00:00"}},
            id="other times have none",
        ),
        pytest.param(
            body("v1", "ConfigMap", message((1, message((8, moment(-62_135_596_800)))))),
            {"metadata": {"creationTimestamp": "0001-01-01T00:00:00+00:00"}},
            id="the first second of the year 1",
        ),
        pytest.param(
            body("scheduling.k8s.io/v1", "PriorityClass", b"\x10" + b"\xff" * 9 + b"\x7f"),
            {"value": -1},
            id="the lower 64 bits of a number",
        ),
    ],
)
def test_read(data: bytes, want: Json) -> None:
    got = read(data)
    assert {name: part for name, part in got.items() if name not in ("apiVersion", "kind")} == want


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"{}", id="wrong magic bytes"),
        pytest.param(body("v1", "Nonsense", b""), id="an unknown kind"),
        pytest.param(body("v1", "ConfigMap", b"\x0a\x05ab"), id="truncated in a field"),
        pytest.param(body("v1", "ConfigMap", b"\x80"), id="truncated in a number"),
        pytest.param(body("v1", "ConfigMap", b"\x0d\x00\x00\x00\x00"), id="an unused wire type"),
        pytest.param(body("v1", "ConfigMap", message((1, 5))), id="a number for a message"),
        pytest.param(body("v1", "ConfigMap", message((2, message((1, b"\xff"))))), id="not UTF-8"),
        *(
            pytest.param(
                body("v1", "ConfigMap", message((1, message((8, moment(seconds)))))), id=f"{seconds} s"
            )
            for seconds in (2**63 - 1, -(2**63), 253_402_300_800, -62_135_596_801)
        ),
    ],
)
def test_an_invalid_message_is_rejected(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


NUMBERS = st.one_of(st.sampled_from((0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)), st.integers(0, 2**70))
CONTENTS = st.recursive(
    st.one_of(NUMBERS, st.binary(max_size=12), st.sampled_from(("1", "2026-01-01T00:00:00Z"))),
    lambda inner: st.lists(st.tuples(st.integers(1, 20), inner), max_size=6).map(
        lambda fields: message(*fields)
    ),
    max_leaves=30,
)
KINDS = (
    "v1 Pod",
    "v1 Secret",
    "v1 Event",
    "v1 ResourceQuota",
    "batch/v1 Job",
    "coordination.k8s.io/v1 Lease",
)


@given(st.sampled_from(KINDS), st.lists(st.tuples(st.integers(1, 20), CONTENTS), max_size=6))
def test_any_message_is_read_as_json_or_rejected(kind: str, fields: list[tuple[int, Any]]) -> None:
    api_version, name = kind.split()
    try:
        got = read(body(api_version, name, message(*fields)))
    except Malformed:
        return
    assert msgspec.json.decode(msgspec.json.encode(got)) == got
