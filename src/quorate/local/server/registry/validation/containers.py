"""Rules that relate fields of containers, and of what surrounds them in a pod."""

import re

from quorate.api.codec import Json
from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.local.objects import errors
from quorate.local.server.registry.defaults.pod_resources import is_huge_pages
from quorate.local.server.registry.validation.field_rules import Causes, Scope, relation
from quorate.local.server.registry.validation.formats import FORMATS, check_format, label

FIELDS_OF_PODS = ("metadata.name", "metadata.namespace", "metadata.uid")
VARIABLE_FIELDS = (
    *FIELDS_OF_PODS,
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
OTHER_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
)
"""Fields of pods that selectors or files may name, but no environment variable."""
FILE_FIELDS = ("metadata.annotations", "metadata.labels", *FIELDS_OF_PODS)
SUBSCRIPT = re.compile(r"metadata\.(annotations|labels)\['[^']*'\]")
VARIABLE_RESOURCES = tuple(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)


@relation
def host_names(spec: Json, path: str, scope: Scope) -> Causes:
    """Check the host name of pods, which a StatefulSet replaces in its own."""
    if not any(owner.type == "StatefulSetSpec" for owner in scope.owners):
        for field in ("hostname", "subdomain"):
            if spec.get(field):
                yield from check_format(spec[field], f"{path}.{field}", label)


@relation
def privileges_may_escalate(context: Json, path: str, _: Scope) -> Causes:
    if context.get("allowPrivilegeEscalation") is not False:
        return
    if context.get("privileged"):
        message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield errors.invalid_value(path, context, message)
    for name in (context.get("capabilities") or {}).get("add", ()):
        if name == "CAP_SYS_ADMIN":
            message = f"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` {name}"
            yield errors.invalid_value(path, context, message)


@relation
def one_claim_source(claim: Json, path: str, _: Scope) -> Causes:
    names = {field: claim.get(field) for field in ("resourceClaimName", "resourceClaimTemplateName")}
    value = {"Name": claim.get("name", "")} | {field[0].upper() + field[1:]: names[field] for field in names}
    if not any(name is not None for name in names.values()):
        yield errors.invalid_value(
            path, value, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
    elif all(name is not None for name in names.values()):
        message = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield errors.invalid_value(path, value, message)


@relation
def claims_of_the_pod(resources: Json, path: str, scope: Scope) -> Causes:
    """Check that the claims of a container are claims of its pod."""
    if "claims" not in resources:
        return
    spec = next(owner for owner in scope.owners if owner.type == "PodSpec")
    names = [claim.get("name", "") for claim in spec.obj.get("resourceClaims", ())]
    where = f": {', '.join(names)}" if names else " which is empty"
    for index, claim in enumerate(resources["claims"]):
        here, name = f"{path}.claims[{index}]", claim.get("name", "")
        if not name:
            yield errors.required(here)
            continue
        if scope.is_duplicate("claims", (name, claim.get("request", ""))):
            yield errors.duplicate(here, name)
        if name not in names:
            yield errors.missing_reference(
                here, name, f"must be one of the names in pod.spec.resourceClaims{where}"
            )
        if claim.get("request"):
            yield from check_format(claim["request"], f"{here}.request", label)


@relation
def seccomp_file(profile: Json, path: str, _: Scope) -> Causes:
    where, file = f"{path}.localhostProfile", profile.get("localhostProfile")
    if profile.get("type") != "Localhost":
        if file is not None:
            value = {"Type": profile.get("type", ""), "LocalhostProfile": file}
            yield errors.invalid_value(where, value, "can only be set when seccomp type is Localhost")
    elif file is None:
        yield errors.required(where, "must be set when seccomp type is Localhost")
    else:
        yield from check_format(file, where, FORMATS["relativePath"])


@relation
def needs_of_user_namespace(container: Json, path: str, scope: Scope) -> Causes:
    mount = (container.get("securityContext") or {}).get("procMount")
    if scope.container.obj.get("hostUsers") is False:
        if container.get("volumeDevices"):
            yield errors.forbidden_field(f"{path}.volumeDevices", "when `hostUsers` is false")
    elif mount == "Unmasked":
        message = "`hostUsers` must be false to use `Unmasked`"
        yield errors.invalid_value(f"{path}.securityContext.procMount", mount, message)


@relation
def resize_of_pods_that_end(policy: Json, path: str, scope: Scope) -> Causes:
    container = scope.container
    if (
        policy.get("restartPolicy") != "NotRequired"
        and container.container.obj.get("restartPolicy") == "Never"
    ):
        message = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
        yield errors.invalid_value(path, policy.get("restartPolicy", ""), message)
    if container.is_duplicate("resizePolicy", policy.get("resourceName", "")):
        position = container.obj["resizePolicy"].index(policy)
        yield errors.duplicate(f"{path}[{position}]", policy.get("resourceName", ""))


@relation
def device_of_a_volume(device: Json, path: str, scope: Scope) -> Causes:
    container, name = scope.container, device.get("name", "")
    if not name:
        return
    if container.is_duplicate("volumeDevices", name):
        yield errors.invalid_value(f"{path}.name", name, "must be unique")
    volumes = [volume for volume in container.container.obj.get("volumes", ()) if volume.get("name") == name]
    if not volumes:
        yield errors.missing_reference(f"{path}.name", name)
    elif not {"persistentVolumeClaim", "ephemeral"} & volumes[0].keys():
        message = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        yield errors.invalid_value(f"{path}.name", name, message)


@relation
def known_field_path(selector: Json, path: str, _: Scope) -> Causes:
    """Check the field of a pod that an environment variable has."""
    where, field = f"{path}.fieldPath", selector.get("fieldPath", "")
    if not field or field in VARIABLE_FIELDS or SUBSCRIPT.fullmatch(field):
        return
    if field in OTHER_FIELDS:
        yield errors.not_supported(where, field, VARIABLE_FIELDS)
    else:
        yield errors.invalid_value(
            where, field, f"error converting fieldPath: field label not supported: {field}"
        )


@relation
def known_file_path(selector: Json, path: str, _: Scope) -> Causes:
    """Check the field of a pod that a file has."""
    where, field = f"{path}.fieldPath", selector.get("fieldPath", "")
    if field in FILE_FIELDS or SUBSCRIPT.fullmatch(field):
        return
    if field in VARIABLE_FIELDS or field in OTHER_FIELDS:
        yield errors.not_supported(where, field, FILE_FIELDS)
    elif field:
        yield errors.invalid_value(
            where, field, f"error converting fieldPath: field label not supported: {field}"
        )


@relation
def one_downward_source(file: Json, path: str, _: Scope) -> Causes:
    if not {"fieldRef", "resourceFieldRef"} & file.keys():
        yield errors.required(path, "one of fieldRef and resourceFieldRef is required")
    elif {"fieldRef", "resourceFieldRef"} <= file.keys():
        message = "fieldRef and resourceFieldRef can not be specified simultaneously"
        yield errors.invalid_value(path, "resource", message)


@relation
def distinct_projected_paths(volume: Json, path: str, scope: Scope) -> Causes:
    for source in volume.get("sources", ()):
        for kind, projection in source.items():
            if projection is not None and kind != "serviceAccountToken":  # which may be anywhere
                for file in (projection, *projection.get("items", ())):
                    if file.get("path") and scope.is_duplicate("paths", file["path"]):
                        named = kind in ("configMap", "secret")
                        value = projection.get("name", "") if named else file["path"]
                        yield errors.invalid_value(path, value, "conflicting duplicate paths")


@relation
def known_resource(selector: Json, path: str, _: Scope) -> Causes:
    name = selector.get("resource", "")
    kind, _, resource = name.partition(".")
    if name and name not in VARIABLE_RESOURCES and not (kind and is_huge_pages(resource)):
        yield errors.not_supported(f"{path}.resource", name, VARIABLE_RESOURCES)


@relation
def sleep_within_grace_period(action: Json, path: str, scope: Scope) -> Causes:
    pod = next(owner for owner in scope.owners if owner.type == "PodSpec")
    seconds, grace = action.get("seconds", 0), pod.obj.get("terminationGracePeriodSeconds", 30)
    if not 0 <= seconds <= grace:
        message = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        yield errors.invalid_value(path, seconds, message)


@relation
def whole_huge_pages(resources: Json, path: str, _: Scope) -> Causes:
    for side in ("limits", "requests"):
        for name, text in resources.get(side, {}).items():
            page, nanos = _page_nanos(name), parse_quantity(text).nanos
            if page and (nanos < 0 or nanos % page):
                message = f"{text} is not positive integer multiple of {name}"
                yield errors.invalid_value(f"{path}.{side}[{name}]", text, message)


def _page_nanos(name: str) -> int:
    """Return the size of a page of a resource in nanobytes; 0 if it is no huge pages."""
    try:
        return parse_quantity(name.removeprefix("hugepages-")).nanos if is_huge_pages(name) else 0
    except InvalidQuantity:
        return 0
