"""Validation of metadata, the same for all kinds."""

from collections.abc import Callable, Iterator

from quorate.api.codec import Json
from quorate.local.objects import errors
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation import formats

STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
ANNOTATIONS_LIMIT = 256 * 1024  # bytes of all keys and values together

NAME_RULES: dict[str, Callable[[str], Iterator[str]]] = {
    "events": formats.path_segment,
    "namespaces": formats.label,
    "poddisruptionbudgets.policy": formats.path_segment,
    "services": formats.label,
    "statefulsets.apps": formats.label,
    "roles.rbac.authorization.k8s.io": formats.path_segment,
    "rolebindings.rbac.authorization.k8s.io": formats.path_segment,
    "clusterroles.rbac.authorization.k8s.io": formats.path_segment,
    "clusterrolebindings.rbac.authorization.k8s.io": formats.path_segment,
}
"""Resources with names that are not DNS subdomains."""
FREE_PREFIXES = frozenset({"deviceclasses.resource.k8s.io", "replicationcontrollers"})
"""Resources of which kube-apiserver does not check the ``generateName``."""
FREE_FINALIZERS = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "events",
        "leases.coordination.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "poddisruptionbudgets.policy",
        "runtimeclasses.node.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    }
)
"""Built-in resources of which the finalizers need no domain; those of custom resources need none."""


def validate(kind: Kind, obj: Json) -> list[errors.Cause]:
    metadata: Json = obj["metadata"]
    resource = errors.group_resource(kind.group, kind.plural)  # Events of both groups are stored as one
    name_format = NAME_RULES.get(resource, formats.subdomain)
    findings = []
    if "generateName" in metadata and resource not in FREE_PREFIXES:
        base = metadata["generateName"].removesuffix("-")
        findings += [
            errors.invalid_value("metadata.generateName", metadata["generateName"], message)
            for message in name_format(base)
        ]
    findings += _name(metadata.get("name", ""), name_format)
    findings += labels(metadata.get("labels") or {}, "metadata.labels")
    findings += annotations(metadata.get("annotations") or {}, "metadata.annotations")
    needs_domain = not kind.custom and resource not in FREE_FINALIZERS
    findings += _finalizers(metadata.get("finalizers") or [], needs_domain)
    findings += _owner_references(metadata.get("ownerReferences") or [])
    return findings


def _name(name: str, name_format: Callable[[str], Iterator[str]]) -> list[errors.Cause]:
    if not name:
        return [errors.required("metadata.name", "name or generateName is required")]
    return [errors.invalid_value("metadata.name", name, message) for message in name_format(name)]


def labels(values: dict[str, str], path: str) -> list[errors.Cause]:
    findings = [
        errors.invalid_value(path, key, message)
        for key in sorted(values)
        for message in formats.qualified(key)
    ]
    return findings + [
        errors.invalid_value(path, value, message)
        for _, value in sorted(values.items())
        for message in formats.label_value(value)
    ]


def annotations(values: dict[str, str], path: str) -> list[errors.Cause]:
    findings = [
        errors.invalid_value(path, key, message)
        for key in sorted(values)
        for message in formats.qualified(key.lower())
    ]
    if sum(len(key.encode()) + len(value.encode()) for key, value in values.items()) > ANNOTATIONS_LIMIT:
        findings.append(errors.too_long(path, "", ANNOTATIONS_LIMIT))
    return findings


def _finalizers(values: list[str], qualified: bool) -> list[errors.Cause]:
    findings: list[errors.Cause] = []
    for index, finalizer in enumerate(values):
        path = f"metadata.finalizers[{index}]"
        messages = list(formats.qualified(finalizer))
        if qualified and not messages and not (finalizer in STANDARD_FINALIZERS or "/" in finalizer):
            messages = ["name is neither a standard finalizer name nor is it fully qualified"]
        findings += [errors.invalid_value(path, finalizer, message) for message in messages]
    if "orphan" in values and "foregroundDeletion" in values:
        message = "finalizer orphan and foregroundDeletion cannot be both set"
        findings.append(errors.invalid_value("metadata.finalizers", values, message))
    return findings


def _owner_references(values: list[Json]) -> list[errors.Cause]:
    path = "metadata.ownerReferences"
    findings = [
        errors.invalid_value(f"{path}.{field}", "", "must not be empty")
        for reference in values
        for field in ("apiVersion", "kind", "name", "uid")
        if not reference.get(field)
    ]
    findings += [
        errors.invalid_value(path, reference, "/v1, Kind=Event is disallowed from being an owner")
        for reference in values
        if (reference.get("apiVersion"), reference.get("kind")) == ("v1", "Event")
    ]
    controllers = [reference for reference in values if reference.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{reference.get('kind')}/{reference.get('name')}" for reference in controllers[:2])
        message = (
            "Only one reference can have Controller set to true."
            f' Found "true" in references for {first} and {second}'
        )
        findings.append(errors.invalid_value(path, values, message))
    return findings


def validate_deletion(new: Json, old: Json) -> list[errors.Cause]:
    """Validate the metadata that marks a deletion, which only a deletion may set."""
    return [
        errors.invalid_value(f"metadata.{field}", new[field], "field is immutable")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds")
        if new.get(field) is not None
        and new[field] != old.get(field)
        and not (field == "deletionTimestamp" and field in old)
    ]


def validate_update(kind: Kind, new: Json, old: Json) -> list[errors.Cause]:
    """Validate an update of metadata, in addition to ``validate``."""
    findings: list[errors.Cause] = []
    added = [
        finalizer
        for finalizer in new["metadata"].get("finalizers") or []
        if finalizer not in (old["metadata"].get("finalizers") or [])
    ]
    if added and old["metadata"].get("deletionTimestamp"):
        names = ", ".join(errors.format_value(finalizer) for finalizer in added)
        message = (
            "no new finalizers can be added if the object is being deleted,"
            f" found new finalizers []string{{{names}}}"
        )
        findings.append(errors.forbidden_field("metadata.finalizers", message))
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        if new["metadata"].get(field) != old["metadata"].get(field):
            value = new["metadata"].get(field, "")
            findings.append(errors.invalid_value(f"metadata.{field}", value, "field is immutable"))
    return findings
