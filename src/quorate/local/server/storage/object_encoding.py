"""Encoding of built-in kinds as kube-apiserver does it: empty fields with ``omitempty`` are left out.

The table of types lists the fields.  This module adds which values are omitted: empty strings, lists and
maps, and those numbers and booleans that are not pointers in the Go types.
"""

from typing import Any

from quorate.local.objects import decoding, schema_types
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, Type, Untyped
from quorate.local.server.errors import bad_request
from quorate.local.server.registry.kinds import Decoded, Kind

Json = dict[str, Any]

OMIT_ZERO: dict[str, frozenset[str]] = {
    "PodSpec": frozenset({"hostNetwork", "hostPID", "hostIPC"}),
    "Container": frozenset({"stdin", "stdinOnce", "tty"}),
    "ContainerPort": frozenset({"hostPort"}),
    "VolumeMount": frozenset({"readOnly"}),
    "JobStatus": frozenset({"active", "succeeded", "failed"}),
    "DeploymentSpec": frozenset({"minReadySeconds", "paused"}),
    "DeploymentStatus": frozenset(
        {
            "availableReplicas",
            "observedGeneration",
            "readyReplicas",
            "replicas",
            "unavailableReplicas",
            "updatedReplicas",
        }
    ),
    "ReplicaSetSpec": frozenset({"minReadySeconds"}),
    "ReplicaSetStatus": frozenset(
        {"availableReplicas", "fullyLabeledReplicas", "observedGeneration", "readyReplicas"}
    ),
    "StatefulSetSpec": frozenset({"minReadySeconds"}),
    "StatefulSetStatus": frozenset(
        {"currentReplicas", "observedGeneration", "readyReplicas", "updatedReplicas"}
    ),
    "NodeSpec": frozenset({"unschedulable"}),
    "PriorityClass": frozenset({"globalDefault"}),
    "ServiceSpec": frozenset({"publishNotReadyAddresses", "healthCheckNodePort"}),
    "ServicePort": frozenset({"nodePort"}),
    "CoreEvent": frozenset({"count"}),
    "Event": frozenset({"deprecatedCount"}),
    "ObjectMeta": frozenset({"generation"}),
}
"""Numbers and booleans that are not pointers in Go: zero and false are omitted."""

KEEP_EMPTY: dict[str, frozenset[str]] = {
    "Container": frozenset({"name"}),
    "EnvVar": frozenset({"name"}),
    "PodCondition": frozenset({"type", "status"}),
    "JobCondition": frozenset({"type", "status"}),
    "NodeCondition": frozenset({"type", "status"}),
    "ContainerStatus": frozenset({"name", "image", "imageID"}),
    "PersistentVolumeClaimSpec": frozenset({"storageClassName"}),
    "RoleRef": frozenset({"apiGroup", "kind", "name"}),
    "OwnerReference": frozenset({"apiVersion", "kind", "name", "uid"}),
}
"""Strings without ``omitempty``: written even if empty."""


ALWAYS_WRITTEN: dict[str, Json] = {
    "CoreEvent": {"reportingComponent": "", "reportingInstance": ""},
    "DaemonEndpoint": {"Port": 0},
    "ReplicaSetStatus": {"replicas": 0},
    "StatefulSetStatus": {"availableReplicas": 0, "replicas": 0},
    "NodeSystemInfo": dict.fromkeys(
        (
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ),
        "",
    ),
}
"""Scalars without ``omitempty``: written even if unset."""


def type_of(kind: Kind) -> MapOf:
    """Return the type of a built-in kind.  Raises KeyError if the table of types does not have it."""
    found = schema_types.builtin_type(kind.api_version, kind.kind)
    if found is None:
        raise KeyError(kind.api_version, kind.kind)
    return found


def decode(kind: Kind, obj: Json) -> Decoded:
    """Decode an object of a built-in kind.  Raises StatusError(400) for a value of the wrong type."""
    shape = type_of(kind)
    try:
        read, unknown = decoding.decode_object(obj, shape)
    except decoding.UndecodableObject as misfit:
        where = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{where}: {misfit}") from misfit
    return Decoded(omit_empty(read, shape), tuple(f'unknown field "{path}"' for path in unknown))


def omit_empty(value: Any, shape: Type) -> Any:
    """Return a value without its empty fields, and with the structs that are always written."""
    match shape:
        case ListOf(item) if isinstance(value, list):
            return [omit_empty(part, item) for part in value]
        case MapOf(fields=fields) if fields and isinstance(value, dict):
            return _omit_empty_fields(value, shape)
        case MapOf(rest=rest) if rest is not None and isinstance(value, dict):
            return {name: omit_empty(part, rest) for name, part in value.items()}
    return value


def _omit_empty_fields(value: Json, shape: MapOf) -> Json:
    tidied: Json = {}
    for name, part in value.items():
        declared = shape.field_type(name)
        assert declared is not None, "decoding dropped what is not declared"
        tidy_part = omit_empty(part, declared)
        if not _is_omitted(tidy_part, name, declared, shape):
            tidied[name] = tidy_part
    for name in shape.always - tidied.keys():
        if isinstance(shape.fields[name], MapOf):
            tidied[name] = omit_empty({}, shape.fields[name])
    return ALWAYS_WRITTEN.get(shape.name, {}) | tidied


def _is_omitted(value: Any, name: str, declared: Type, owner: MapOf) -> bool:
    match declared:
        case ListOf():
            return value == [] and name not in owner.always
        case MapOf(fields=fields):
            return value == {} and not fields
        case Untyped():
            return False
        case Scalar():
            if value == "":
                return name not in KEEP_EMPTY.get(owner.name, ())
            return not value and name in OMIT_ZERO.get(owner.name, ())
