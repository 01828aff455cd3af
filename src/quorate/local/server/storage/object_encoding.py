"""Encoding of built-in kinds as in kube-apiserver: ``omitempty`` fields are left out.

The table of types lists the fields.  This module adds which values are omitted: empty strings, lists and
maps, and those numbers and booleans that are not pointers in the Go types.
"""

from typing import Any

from quorate.local.objects import decoding, schema_types
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, SchemaOr, Type, Untyped
from quorate.local.server.errors import bad_request
from quorate.local.server.registry.kinds import Decoded, Kind

Json = dict[str, Any]

OMIT_ZERO: dict[str, frozenset[str]] = {
    "PodSpec": frozenset({"hostNetwork", "hostPID", "hostIPC"}),
    "Container": frozenset({"stdin", "stdinOnce", "tty"}),
    "EphemeralContainer": frozenset({"stdin", "stdinOnce", "tty"}),
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
    "DaemonSetSpec": frozenset({"minReadySeconds"}),
    "DaemonSetStatus": frozenset(
        {"numberAvailable", "numberUnavailable", "observedGeneration", "updatedNumberScheduled"}
    ),
    "ReplicationControllerSpec": frozenset({"minReadySeconds"}),
    "ReplicationControllerStatus": frozenset(
        {"availableReplicas", "fullyLabeledReplicas", "observedGeneration", "readyReplicas"}
    ),
    "HorizontalPodAutoscalerStatus": frozenset({"currentReplicas"}),
    "ExactDeviceRequest": frozenset({"count"}),
    "DeviceSubRequest": frozenset({"count"}),
    "ServiceBackendPort": frozenset({"number"}),
    "ValidatingAdmissionPolicyStatus": frozenset({"observedGeneration"}),
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
    "GRPCAction": frozenset({"service"}),
    "PersistentVolumeClaimSpec": frozenset({"storageClassName"}),
    "RoleRef": frozenset({"apiGroup", "kind", "name"}),
    "OwnerReference": frozenset({"apiVersion", "kind", "name", "uid"}),
}
"""Strings without ``omitempty``: written even if empty."""


ALWAYS_WRITTEN: dict[str, Json] = {
    "CoreEvent": {"reportingComponent": "", "reportingInstance": ""},
    "ControllerRevision": {"revision": 0},
    "DaemonEndpoint": {"Port": 0},
    "DaemonSetStatus": {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    "HorizontalPodAutoscalerStatus": {"desiredReplicas": 0},
    "HorizontalPodAutoscalerStatusV1": {"currentReplicas": 0, "desiredReplicas": 0},
    "ReplicationControllerStatus": {"replicas": 0},
    "ResourcePool": {"generation": 0, "resourceSliceCount": 0},
    "VolumeAttachmentStatus": {"attached": False},
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
    """Return the type of a built-in kind.

    Raises KeyError if the table of types does not have it.
    """
    builtin = schema_types.builtin_type(kind.api_version, kind.kind)
    if builtin is None:
        raise KeyError(kind.api_version, kind.kind)
    return builtin


def decode(kind: Kind, obj: Json) -> Decoded:
    """Decode an object of a built-in kind.

    Raises StatusError(400) for a value of the wrong type.
    """
    type_ = type_of(kind)
    try:
        decoded, unknown = decoding.decode_object(obj, type_)
    except decoding.UndecodableObject as error:
        where = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{where}: {error}") from error
    return Decoded(omit_empty(decoded, type_), tuple(f'unknown field "{path}"' for path in unknown))


def omit_empty(value: Any, type_: Type) -> Any:
    """Return a value without its empty fields, and with the structs that are always written."""
    match type_:
        case SchemaOr(schema=schema) if isinstance(value, dict):
            return omit_empty(value, schema)
        case ListOf(item) if isinstance(value, list):
            return [omit_empty(part, item) for part in value]
        case MapOf(fields=fields) if fields and isinstance(value, dict):
            return _omit_empty_fields(value, type_)
        case MapOf(rest=rest) if rest is not None and isinstance(value, dict):
            return {name: omit_empty(part, rest) for name, part in value.items()}
    return value


def _omit_empty_fields(value: Json, type_: MapOf) -> Json:
    encoded: Json = {}
    for name, part in value.items():
        field_type = type_.field_type(name)
        assert field_type is not None, "decoding dropped what is not declared"
        field_value = omit_empty(part, field_type)
        if not _is_omitted(field_value, name, field_type, type_):
            encoded[name] = field_value
    for name in type_.always - encoded.keys():
        if isinstance(type_.fields[name], MapOf):
            encoded[name] = omit_empty({}, type_.fields[name])
    return ALWAYS_WRITTEN.get(type_.name, {}) | encoded


def _is_omitted(value: Any, name: str, field_type: Type, struct: MapOf) -> bool:
    match field_type:
        case ListOf():
            return value == [] and name not in struct.always
        case MapOf(name=struct_name):
            return value == {} and not struct_name
        case Untyped():
            return False
        case Scalar():
            if value == "":
                return name not in KEEP_EMPTY.get(struct.name, ())
            return not value and name in OMIT_ZERO.get(struct.name, ())
