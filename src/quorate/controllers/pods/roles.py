"""Roles of the pods of a group: pods that a scheduler treats as equal have the same role.

The role hash is Kueue's, so that both controllers assign the same roles: eight hex digits of SHA-256 over
JSON with sorted keys, in which absent fields are null.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.controllers.jobframework.podset_info import read_template
from quorate.controllers.pods import constants

_DIGITS: Final = 8
_COPIED_FIELDS: Final = (
    "affinity", "nodeSelector", "overhead", "resourceClaims", "runtimeClassName", "topologySpreadConstraints",
)  # fmt: skip
# Go encodes the fields of a struct in their declared order, not sorted.
_PORT: Final = ("name", "hostPort", "containerPort", "protocol", "hostIP")
_NO_AMOUNTS: Final[Mapping[str, Any]] = {"ports": None, "resources": {"requests": None}}
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")


def role_of(pod: Pod) -> str:
    """Return the pod's role, which is the name of its pod set."""
    return pod.metadata.annotations.get(constants.ROLE_HASH) or role_hash(read_template(pod.written))


def role_hash(spec: Mapping[str, Any]) -> str:
    """Compute the role of a pod with ``spec`` and without the annotation."""
    shape: dict[str, Any] = {
        "containers": _containers(spec.get("containers")),
        "initContainers": _containers(spec.get("initContainers")),
        "priority": spec.get("priority"),
        "tolerations": _structs(spec.get("tolerations"), _TOLERATION),
        **{name: _sorted(spec.get(name)) for name in _COPIED_FIELDS},
    }
    if requests := _requests(spec):
        shape["resources"] = {"requests": requests}
    text = codec.encode({"spec": dict(sorted(shape.items()))})
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


def _containers(containers: Sequence[Mapping[str, Any]] | None) -> list[Any] | None:
    return [
        {
            "ports": _structs([port for port in container.get("ports") or () if port.get("hostPort")], _PORT),
            "resources": {"requests": _requests(container)},
        }
        if container.get("ports") or container.get("resources")
        else _NO_AMOUNTS
        for container in containers or ()
    ] or None


def _requests(of: Mapping[str, Any]) -> msgspec.Raw | None:
    return _sorted((of.get("resources") or {}).get("requests"))


def _structs(items: Sequence[Mapping[str, Any]] | None, fields: Sequence[str]) -> list[Any] | None:
    return [
        {name: item[name] for name in fields if item.get(name) is not None} for item in items or ()
    ] or None


def _sorted(value: Any) -> msgspec.Raw | None:
    return msgspec.Raw(codec.encode_sorted(value)) if value else None
