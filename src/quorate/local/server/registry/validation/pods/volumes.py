"""The volumes of a pod: their names, that each has one source, and what common sources need."""

from typing import Final

from quorate.api.quantity import parse_quantity
from quorate.local.server.errors import forbidden_field, invalid_value, required
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import (
    Causes,
    Json,
    identified,
    one_of,
    present,
    within,
)
from quorate.local.server.registry.validation.pods.containers import relative

NEEDS: Final = {
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "secret": ("secretName",),
    "configMap": ("name",),
    "persistentVolumeClaim": ("claimName",),
    "ephemeral": ("volumeClaimTemplate",),
    "csi": ("driver",),
}
"""Fields without which a source is of no use."""
HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
PROJECTIONS = (
    "clusterTrustBundle",
    "configMap",
    "downwardAPI",
    "podCertificate",
    "secret",
    "serviceAccountToken",
)


def volumes(given: list[Json], path: str) -> Causes:
    known: set[str] = set()
    for index, volume in enumerate(given):
        here = f"{path}[{index}]"
        yield from identified(volume, here, "name", formats.label, known)
        sources = sorted(volume.keys() - {"name"})
        if not sources:
            yield required(here, "must specify a volume type")
        for surplus in sources[1:]:
            yield forbidden_field(f"{here}.{surplus}", "may not specify more than 1 volume type")
        for kind in sources[:1]:
            yield from _source(kind, volume[kind], f"{here}.{kind}")


def _source(kind: str, source: Json, path: str) -> Causes:
    yield from present(source, path, *NEEDS.get(kind, ()))
    match kind:
        case "emptyDir":
            if "sizeLimit" in source and parse_quantity(source["sizeLimit"]).nanos < 0:
                yield forbidden_field(f"{path}.sizeLimit", "must be a quantity that is not negative")
        case "hostPath":
            if ".." in source.get("path", "").split("/"):
                yield invalid_value(f"{path}.path", source["path"], "must not contain '..'")
            yield from one_of(source, path, "type", HOST_PATH_TYPES)
        case "nfs":
            if source.get("path") and not source["path"].startswith("/"):
                yield invalid_value(f"{path}.path", source["path"], "must be an absolute path")
        case "secret" | "configMap" | "downwardAPI":
            yield from _files(kind, source, path)
        case "projected":
            yield from _mode(source, path, "defaultMode")
            for index, projection in enumerate(source.get("sources", ())):
                yield from _projection(projection, f"{path}.sources[{index}]")


def _projection(projection: Json, path: str) -> Causes:
    kinds = [kind for kind in PROJECTIONS if kind in projection]
    if not kinds:
        yield required(path, "must specify a source")
    for surplus in kinds[1:]:
        yield forbidden_field(f"{path}.{surplus}", "may not specify more than 1 volume type")
    for kind in kinds[:1]:
        here = f"{path}.{kind}"
        match kind:
            case "secret" | "configMap":
                yield from present(projection[kind], here, "name")
                yield from _files(kind, projection[kind], here)
            case "downwardAPI":
                yield from _files(kind, projection[kind], here)
            case "serviceAccountToken":
                yield from present(projection[kind], here, "path")
                yield from relative(projection[kind], here, "path")


def _files(kind: str, source: Json, path: str) -> Causes:
    """The files that keys, or fields of the pod, are written to."""
    yield from _mode(source, path, "defaultMode")
    for index, item in enumerate(source.get("items", ())):
        here = f"{path}.items[{index}]" if kind != "downwardAPI" else f"{path}[{index}]"
        yield from present(item, here, *(("key",) if kind != "downwardAPI" else ()), "path")
        yield from relative(item, here, "path")
        yield from _mode(item, here, "mode")


def _mode(source: Json, path: str, field: str) -> Causes:
    yield from within(source, path, field, 0, 0o777)
