"""Volumes, claims and the classes of storage."""

from typing import Any

from quorate.local.server.defaults.pods import fill

Json = dict[str, Any]


def volume(obj: Json) -> None:
    fill(obj.setdefault("spec", {}), {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def claim(obj: Json) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def begin(obj: Json) -> None:
    obj["status"] = {"phase": "Pending"}


def storage_class(obj: Json) -> None:
    fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
