"""Volumes, claims, classes of storage, and the storage drivers of nodes."""

from typing import Final

from quorate.local.server.errors import Cause, forbidden_field, invalid_value, not_supported, required
from quorate.local.server.registry.validation import formats, selectors
from quorate.local.server.registry.validation.field_rules import (
    Causes,
    Json,
    identified,
    one_of,
    positive,
    present,
    spelled,
    unchanged,
    well_named,
)
from quorate.local.server.registry.validation.resource_amounts import amount

ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")
SOURCES: Final = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskName",),
    "csi": ("driver", "volumeHandle"),
    "gcePersistentDisk": ("pdName",),
    "hostPath": ("path",),
    "local": ("path",),
    "nfs": ("server", "path"),
}
"""The kinds of volumes, and what each cannot do without."""


def volume(given: Json) -> list[Cause]:
    return list(_volume(given["spec"]))


def _volume(spec: Json) -> Causes:
    yield from _access_modes(spec)
    if not spec.get("capacity"):
        yield required("spec.capacity")
    elif list(spec["capacity"]) != ["storage"]:
        yield not_supported("spec.capacity", spec["capacity"], ["storage"])
    else:
        yield from amount("storage", spec["capacity"]["storage"], "spec.capacity[storage]")
    sources = [kind for kind in SOURCES if kind in spec]
    if not sources:
        yield required("spec", "must specify a volume type")
    for surplus in sources[1:]:
        yield forbidden_field(f"spec.{surplus}", "may not specify more than 1 volume type")
    for kind in sources[:1]:
        yield from present(spec[kind], f"spec.{kind}", *SOURCES[kind])
    affinity = spec.get("nodeAffinity", {})
    if "nodeAffinity" in spec and "required" not in affinity:
        yield required("spec.nodeAffinity.required", "must specify required node constraints")
    for index, term in enumerate(affinity.get("required", {}).get("nodeSelectorTerms", ())):
        path = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]"
        yield from selectors.node_selector_term(term, path)
    if "local" in spec and not affinity:
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
    yield from one_of(spec, "spec", "persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain"))
    yield from one_of(spec, "spec", "volumeMode", VOLUME_MODES)
    yield from well_named(spec, "spec", "storageClassName", formats.subdomain)


def volume_update(new: Json, old: Json) -> list[Cause]:
    now, was = new["spec"], old["spec"]
    causes = list(unchanged(now, was, "spec", "volumeMode"))
    if {kind: now.get(kind) for kind in SOURCES} != {kind: was.get(kind) for kind in SOURCES}:
        causes.append(forbidden_field("spec.persistentvolumesource", "is immutable after creation"))
    if "nodeAffinity" in was:
        causes += unchanged(now, was, "spec", "nodeAffinity")
    return causes


def claim(given: Json) -> list[Cause]:
    return list(_claim(given["spec"]))


def _claim(spec: Json) -> Causes:
    yield from _access_modes(spec)
    yield from selectors.label_selector(spec.get("selector", {}), "spec.selector")
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None:
        yield required("spec.resources[storage]")
    else:
        yield from amount("storage", storage, "spec.resources[storage]")
    yield from one_of(spec, "spec", "volumeMode", VOLUME_MODES)
    yield from well_named(spec, "spec", "storageClassName", formats.subdomain)


def claim_update(new: Json, old: Json) -> list[Cause]:
    """A claim may be bound, may get a class where it had none, and may ask for more."""
    now, was = dict(new["spec"]), dict(old["spec"])
    for field in ("resources", "volumeAttributesClassName"):
        now.pop(field, None)
        was.pop(field, None)
    for field in ("volumeName", "storageClassName"):
        if field not in was:
            now.pop(field, None)
    if now == was:
        return []
    why = (
        "spec is immutable after creation except resources.requests and volumeAttributesClassName"
        " for bound claims"
    )
    return [forbidden_field("spec", why)]


def _access_modes(spec: Json) -> Causes:
    modes = spec.get("accessModes", [])
    if not modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported("spec.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        why = "may not use ReadWriteOncePod with other access modes"
        yield forbidden_field("spec.accessModes", why)


def storage_class(given: Json) -> list[Cause]:
    return list(_storage_class(given))


def _storage_class(given: Json) -> Causes:
    if not given.get("provisioner"):
        yield required("provisioner")
    else:
        yield from spelled(given["provisioner"].lower(), "provisioner", formats.qualified)
    for field, known in (
        ("reclaimPolicy", ("Delete", "Retain")),
        ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
    ):
        if field in given and given[field] not in known:
            yield not_supported(field, given[field], known)
    for index, term in enumerate(given.get("allowedTopologies", ())):
        for position, one in enumerate(term.get("matchLabelExpressions", ())):
            path = f"allowedTopologies[{index}].matchLabelExpressions[{position}]"
            yield from spelled(one.get("key", ""), f"{path}.key", formats.qualified)
            yield from present(one, path, "values")


def storage_class_update(new: Json, old: Json) -> list[Cause]:
    return [
        forbidden_field(field, f"updates to {field} are forbidden.")
        for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        if new.get(field) != old.get(field)
    ]


def csi_node(given: Json) -> list[Cause]:
    return list(_drivers(given["spec"].get("drivers") or []))


def _drivers(drivers: list[Json]) -> Causes:
    known: set[str] = set()
    for index, driver in enumerate(drivers):
        path = f"spec.drivers[{index}]"
        yield from identified(driver, path, "name", formats.subdomain, known)
        yield from present(driver, path, "nodeID")
        yield from positive(driver.get("allocatable", {}), f"{path}.allocatable", "count")
        keys = driver.get("topologyKeys", [])
        for key in keys:
            yield from spelled(key, f"{path}.topologyKeys", formats.qualified)
        if len(set(keys)) < len(keys):
            yield invalid_value(f"{path}.topologyKeys", keys, "must not name a key twice")
