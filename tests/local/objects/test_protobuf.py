"""Decoding of Kubernetes' protobuf format, from literal bytes."""

import contextlib
from typing import Any

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
    ],
)
def test_an_invalid_message_is_rejected(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


numbers = st.integers(-(2**63), 2**63 - 1)


@given(numbers, numbers)
def test_any_time_is_read_or_malformed(seconds: int, nanos: int) -> None:
    created = message((1, "a"), (8, message((1, seconds), (2, nanos))))
    with contextlib.suppress(Malformed):
        read(body("v1", "ConfigMap", message((1, created))))


fields = st.recursive(
    numbers | st.binary(max_size=20),
    lambda inner: st.lists(st.tuples(st.integers(1, 15), inner), max_size=4).map(
        lambda parts: message(*parts)
    ),
    max_leaves=20,
)


@given(
    st.sampled_from(("ConfigMap", "Pod", "Service", "Node")), st.lists(st.tuples(st.integers(1, 5), fields))
)
def test_any_message_is_read_or_malformed(kind: str, parts: list[tuple[int, Any]]) -> None:
    with contextlib.suppress(Malformed):
        read(body("v1", kind, message(*parts)))
