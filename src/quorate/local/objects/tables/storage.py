"""Table layouts of volumes, claims, storage classes and CSI nodes."""

from collections.abc import Iterable
from typing import Any, Final

from quorate.api.codec import Json
from quorate.local.objects.crd.definition import Column
from quorate.local.objects.tables.layout import (
    NAME,
    NONE,
    UNSET,
    TableLayout,
    age_of,
    columns,
    name_with_default,
    named,
)

_SHORT: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}  # in display order
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _modes(given: Iterable[str]) -> str:
    named = set(given)
    return ",".join(short for mode, short in _SHORT.items() if mode in named)


def _phase(obj: Json) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str((obj.get("status") or {}).get("phase", ""))


@named(
    "Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age",
    "VolumeMode",
)
def volume(obj: Json, now: float) -> list[Any]:
    spec, claim = obj["spec"], obj["spec"].get("claimRef") or {}
    return [
        (spec.get("capacity") or {}).get("storage", ""),
        _modes(spec.get("accessModes") or ()),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        (obj.get("status") or {}).get("reason", ""),
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


@named("Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age", "VolumeMode")
def claim(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        _phase(obj),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        _modes(status.get("accessModes") or ()) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        age_of(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _class(obj: Json, now: float) -> list[Any]:
    return [
        name_with_default(obj, _DEFAULT_CLASS),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", ""),
        obj.get("volumeBindingMode", ""),
        obj.get("allowVolumeExpansion", False),
        age_of(obj, now),
    ]


STORAGE_CLASS = TableLayout(
    (NAME, *columns("Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age")), _class
)
csi_node = named("Drivers,Age")(
    lambda obj, now: [len((obj.get("spec") or {}).get("drivers") or ()), age_of(obj, now)]
)


@named(
    "AttachRequired:boolean,PodInfoOnMount:boolean,StorageCapacity:boolean,TokenRequests,RequiresRepublish:boolean,Modes,Age"
)
def csi_driver(obj: Json, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    tokens = spec.get("tokenRequests")
    return [
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        UNSET if tokens is None else ",".join(token.get("audience", "") for token in tokens),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age_of(obj, now),
    ]


def _attachment(obj: Json, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    return [
        obj["metadata"]["name"],
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        (obj.get("status") or {}).get("attached", False),
        age_of(obj, now),
    ]


VOLUME_ATTACHMENT = TableLayout(
    (NAME, Column("Attacher", "string", "", "name"), *columns("PV,Node,Attached:boolean,Age")), _attachment
)
volume_attributes_class = named("DriverName,Age")(
    lambda obj, now: [obj.get("driverName", ""), age_of(obj, now)]
)
