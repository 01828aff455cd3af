"""Which pods of a group are equal: those whose demands on a scheduler are the same share a role.

The hash is Kueue's, so that pods it has seen and pods we see fall into the same roles: eight hex digits of
SHA-256 over JSON with sorted keys, in which what is not said is null.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quorate.controllers.jobframework.podset_info import read_template
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import QueuedPod

_DIGITS: Final = 8
_AS_THEY_ARE: Final = (
    "affinity", "nodeSelector", "overhead", "resourceClaims", "runtimeClassName", "topologySpreadConstraints",
)  # fmt: skip
# Go writes the fields of a struct in the order they are declared, not sorted.
_PORT: Final = ("name", "hostPort", "containerPort", "protocol", "hostIP")
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")


def role_of(pod: QueuedPod) -> str:
    """The name of the pod set it belongs to."""
    return pod.metadata.annotations.get(constants.ROLE_HASH) or role_hash(read_template(pod.spec))


def role_hash(spec: Mapping[str, Any]) -> str:
    """The role of a pod with ``spec``, if nobody gave it another."""
    shape: dict[str, Any] = {name: _sorted(spec.get(name)) or None for name in _AS_THEY_ARE}
    shape |= {
        "containers": _containers(spec.get("containers")),
        "initContainers": _containers(spec.get("initContainers")),
        "priority": spec.get("priority"),
        "tolerations": _structs(spec.get("tolerations"), _TOLERATION),
    }
    if requests := _requests(spec):
        shape["resources"] = {"requests": requests}
    text = msgspec.json.encode({"spec": _by_name(shape)})
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


def _containers(containers: Sequence[Mapping[str, Any]] | None) -> list[Any] | None:
    return [
        {
            "ports": _structs([port for port in each.get("ports") or () if port.get("hostPort")], _PORT),
            "resources": {"requests": _requests(each)},
        }
        for each in containers or ()
    ] or None


def _requests(of: Mapping[str, Any]) -> Any:
    return _sorted((of.get("resources") or {}).get("requests")) or None


def _structs(items: Sequence[Mapping[str, Any]] | None, fields: Sequence[str]) -> list[Any] | None:
    return [
        {name: item[name] for name in fields if item.get(name) is not None} for item in items or ()
    ] or None


def _sorted(value: Any) -> Any:
    match value:
        case Mapping():
            return _by_name({name: _sorted(item) for name, item in value.items()})
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value


def _by_name(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(value.items()))
