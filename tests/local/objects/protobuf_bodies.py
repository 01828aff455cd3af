"""Bodies in Kubernetes' protobuf format: those of a kube-apiserver, and bodies of given fields."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quorate.api.codec import Json
from quorate.local.objects.protobuf.envelope import MAGIC
from quorate.local.objects.protobuf.table import Message, find_message
from quorate.local.server.registry import builtin

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


MESSAGES = {message_type.full_name: message_type for _, _, message_type in messages()}
