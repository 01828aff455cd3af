"""ConfigMaps and Secrets."""

import base64

from quorate.local.server.errors import Cause, forbidden_field, invalid_value, required, too_long
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import Causes, Json, spelled, unchanged

LARGEST = 1024 * 1024
"""Bytes of all values of one object together."""
FROZEN = "field is immutable when `immutable` is set"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
NEEDS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""Keys without which a secret is not of its type."""


def config_map(given: Json) -> list[Cause]:
    return list(_config_map(given))


def _config_map(given: Json) -> Causes:
    text, binary = given.get("data", {}), given.get("binaryData", {})
    for field, values in (("data", text), ("binaryData", binary)):
        for key in values:
            yield from spelled(key, f"{field}[{key}]", formats.data_key)
    for key in sorted(text.keys() & binary.keys()):
        yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
    if sum(len(value.encode()) for value in text.values()) + _decoded_size(binary) > LARGEST:
        yield too_long("", "", LARGEST)


def _decoded_size(values: dict[str, str]) -> int:
    return sum(len(base64.b64decode(value)) for value in values.values())


def config_map_update(new: Json, old: Json) -> list[Cause]:
    return list(_frozen(new, old, "data", "binaryData"))


def _frozen(new: Json, old: Json, *fields: str) -> Causes:
    """What is marked immutable stays, and stays marked."""
    if old.get("immutable"):
        for field in ("immutable", *fields):
            if new.get(field) != old.get(field):
                yield forbidden_field(field, FROZEN)


def secret(given: Json) -> list[Cause]:
    return list(_secret(given))


def _secret(given: Json) -> Causes:
    data = given.get("data", {})
    for key in data:
        yield from spelled(key, f"data[{key}]", formats.data_key)
    if _decoded_size(data) > LARGEST:
        yield too_long("data", "", LARGEST)
    for key in NEEDS.get(given.get("type", ""), ()):
        if key not in data:
            yield required(f"data[{key}]")
    match given.get("type"):
        case "kubernetes.io/service-account-token":
            if not given["metadata"].get("annotations", {}).get(ACCOUNT_NAME):
                yield required(f"metadata.annotations[{ACCOUNT_NAME}]")
        case "kubernetes.io/basic-auth" if not data.keys() & {"username", "password"}:
            yield required("data[username]")
            yield required("data[password]")


def secret_update(new: Json, old: Json) -> list[Cause]:
    return [*unchanged(new, old, "", "type"), *_frozen(new, old, "data")]
