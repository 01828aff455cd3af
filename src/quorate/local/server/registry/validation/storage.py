"""Rules that relate fields of persistent volumes, claims and storage classes."""

from typing import Final

from quorate.api.codec import Json
from quorate.local.objects.errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from quorate.local.server.registry.validation.field_rules import (
    IMMUTABLE,
    Causes,
    Scope,
    check_update,
    relation,
    union_fields,
)
from quorate.local.server.registry.validation.formats import check_format, qualified
from quorate.local.server.registry.validation.resource_amounts import amount, positive_amount

CLAIM_IMMUTABLE: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName"
    " for bound claims"
)


@relation
def exclusive_access_mode(spec: Json, path: str, _: Scope) -> Causes:
    modes = spec.get("accessModes", [])
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        message = "may not use ReadWriteOncePod with other access modes"
        yield forbidden_field(f"{path}.accessModes", message)


@relation
def volume_capacity(spec: Json, path: str, _: Scope) -> Causes:
    capacity = spec.get("capacity")
    if not capacity:
        yield required(f"{path}.capacity")
    elif list(capacity) != ["storage"]:
        yield not_supported(f"{path}.capacity", capacity, ["storage"])
    else:
        where = f"{path}.capacity[storage]"
        yield from amount("storage", capacity["storage"], where)
        yield from positive_amount(capacity["storage"], where)


def validate_volume_update(new: Json, old: Json) -> list[Cause]:
    now, was = new["spec"], old["spec"]
    causes = list(check_update("PersistentVolumeSpec.update", now, was, "spec"))
    if any(now.get(source) != was.get(source) for source in union_fields("PersistentVolumeSpec")):
        causes.append(forbidden_field("spec.persistentvolumesource", "is immutable after creation"))
    if "nodeAffinity" in was:
        causes += check_update("PersistentVolumeSpec.affinity", now, was, "spec")
    return causes


@relation
def storage_request(spec: Json, path: str, _: Scope) -> Causes:
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None:
        yield required(f"{path}.resources[storage]")
    else:
        yield from positive_amount(storage, f"{path}.resources[storage]")


def validate_claim_update(new: Json, old: Json) -> list[Cause]:
    """Allow a claim to be bound, to get a class where it had none, and to request more once it is bound."""
    now, was = dict(new["spec"]), dict(old["spec"])
    is_bound = old.get("status", {}).get("phase") == "Bound"
    for field in ("resources", "volumeAttributesClassName") if is_bound else ():
        now.pop(field, None)
        was.pop(field, None)
    for field in ("volumeName", "storageClassName"):
        if field not in was:
            now.pop(field, None)
    return [] if now == was else [forbidden_field("spec", CLAIM_IMMUTABLE)]


@relation
def provisioner_name(storage_class: Json, path: str, _: Scope) -> Causes:
    if storage_class.get("provisioner"):
        yield from check_format(storage_class["provisioner"].lower(), "provisioner", qualified)


@relation
def distinct_values(requirement: Json, path: str, _: Scope) -> Causes:
    values = requirement.get("values", [])
    for index, value in enumerate(values):
        if value in values[:index]:
            yield duplicate(f"{path}.values[{index}]", value)


@relation
def distinct_topology(term: Json, path: str, scope: Scope) -> Causes:
    """Compare the values by key: neither keys nor values have an order."""
    values = {
        expression.get("key", ""): sorted(set(expression.get("values", [])))
        for expression in term.get("matchLabelExpressions", [])
    }
    if scope.container.is_duplicate("topology", values):
        yield duplicate(f"{path}.matchLabelExpressions", "")


def validate_csi_node_update(new: Json, old: Json) -> list[Cause]:
    """Allow drivers to be added and removed, and an existing one to change how many volumes it can attach."""
    left = {driver["name"]: {**driver, "allocatable": None} for driver in new["spec"].get("drivers", [])}
    return [
        invalid_value("spec.drivers", left[driver["name"]], IMMUTABLE)
        for driver in old["spec"].get("drivers", [])
        if left.get(driver["name"]) not in (None, {**driver, "allocatable": None})
    ]
