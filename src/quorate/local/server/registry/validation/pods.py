"""Rules that relate fields of pods and pod templates.

Knowingly missing: Windows, and the contents of volume sources that no node here mounts.
"""

from quorate.api.codec import MAX_QUANTITIES, Json
from quorate.api.core import MAX_CONTAINERS, MAX_TERMS
from quorate.api.core.pod_resources import pod_limits, pod_requests
from quorate.api.quantity import parse_quantity
from quorate.local.objects import errors
from quorate.local.server.registry.defaults.pod_resources import is_huge_pages, pod_amounts
from quorate.local.server.registry.validation.field_rules import Causes, Scope, relation
from quorate.local.server.registry.validation.formats import FORMATS, check_format, label_value
from quorate.local.server.registry.validation.resource_amounts import may_overcommit

VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
RECURSIVE_MODES = ("Disabled", "Enabled", "IfPossible")
SEVERAL_SOURCES = "may not have more than one field specified at a time"


@relation
def ephemeral_target(container: Json, path: str, scope: Scope) -> Causes:
    target, pod = container.get("targetContainerName"), scope.container
    if target and target not in pod.names_in("containers") | pod.names_in("initContainers"):
        yield errors.missing_reference(f"{path}.targetContainerName", target)
    for index, mount in enumerate(container.get("volumeMounts", ())):
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                message = "cannot be set for an Ephemeral Container"
                yield errors.forbidden_field(f"{path}.volumeMounts[{index}].{field}", message)


@relation
def host_ports(spec: Json, path: str, scope: Scope) -> Causes:
    for index, container in enumerate(spec.get("containers", ())):
        for position, port in enumerate(container.get("ports", ())):
            here = f"{path}.containers[{index}].ports[{position}]"
            host_port = port.get("hostPort", 0)
            differs = host_port != port.get("containerPort") and (host_port or scope.container.type == "Pod")
            if spec.get("hostNetwork") and differs:  # a pod gets its ports by default, a template does not
                message = "must match `containerPort` when `hostNetwork` is true"
                yield errors.invalid_value(f"{here}.hostPort", host_port, message)
            socket = (port.get("hostPort"), port.get("hostIP", ""), port.get("protocol", "TCP"))
            if scope.is_duplicate("hostPorts", socket) and port.get("hostPort"):
                number, address, protocol = socket
                yield errors.duplicate(f"{here}.hostPort", f"{protocol}/{address}/{number}")


@relation
def readable_quantities(spec: Json, path: str, _: Scope) -> Causes:
    """Refuse pods that this cluster's controllers do not read: they would create another each time.

    Knowingly stricter than a kube-apiserver.
    """
    parts = [spec, *spec.get("containers", ()), *spec.get("initContainers", ())]
    amounts = [part.get("resources") or {} for part in parts]
    count = len(spec.get("overhead") or ()) + sum(
        len(resources.get(side) or ()) for resources in amounts for side in ("requests", "limits")
    )
    if count > MAX_QUANTITIES:
        yield errors.too_many(f"{path}.containers", count, MAX_QUANTITIES)


@relation
def readable_lists(spec: Json, path: str, _: Scope) -> Causes:
    """Refuse pods with more containers or terms than are read; see ``readable_quantities``."""
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) > MAX_CONTAINERS:
            yield errors.too_many(f"{path}.{name}", len(spec[name]), MAX_CONTAINERS)
    affinity = spec.get("affinity") or {}
    for field in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        for kind, value in (affinity.get(field) or {}).items():
            terms: list[Json] = (value.get("nodeSelectorTerms") if isinstance(value, dict) else value) or []
            if len(terms) > MAX_TERMS:
                yield errors.too_many(f"{path}.affinity.{field}.{kind}", len(terms), MAX_TERMS)
    constraints = spec.get("topologySpreadConstraints") or ()
    if len(constraints) > MAX_TERMS:
        yield errors.too_many(f"{path}.topologySpreadConstraints", len(constraints), MAX_TERMS)


@relation
def value_or_value_from(variable: Json, path: str, _: Scope) -> Causes:
    if "valueFrom" not in variable:
        return
    here = f"{path}.valueFrom"
    sources = [source for source in VALUE_SOURCES if source in variable["valueFrom"]]
    if not sources:
        *first, last = (f"`{source}`" for source in VALUE_SOURCES)
        yield errors.invalid_value(here, "", f"must specify one of: {', '.join(first)} or {last}")
    elif variable.get("value"):
        yield errors.invalid_value(here, "", "may not be specified when `value` is not empty")
    elif len(sources) > 1:
        yield errors.invalid_value(here, "", SEVERAL_SOURCES)


@relation
def one_environment_source(source: Json, path: str, _: Scope) -> Causes:
    where = path.rpartition("[")[0]
    present = [field for field in ("configMapRef", "secretRef") if field in source]
    if not present:
        yield errors.invalid_value(where, "", "must specify one of: `configMapRef` or `secretRef`")
    if len(present) > 1:
        yield errors.invalid_value(where, "", SEVERAL_SOURCES)


@relation
def file_in_empty_directory(selector: Json, path: str, scope: Scope) -> Causes:
    name = selector.get("volumeName", "")
    spec: Json = next((owner.obj for owner in scope.owners if "containers" in owner.obj), {})
    volume = next((volume for volume in spec.get("volumes", ()) if volume.get("name") == name), None)
    if volume is None:
        yield errors.missing_reference(f"{path}.volumeName", name)
    elif "emptyDir" not in volume:
        message = "referenced volume must be of type emptyDir"
        yield errors.invalid_value(f"{path}.volumeName", name, message)


@relation
def mounts_a_volume(mount: Json, path: str, scope: Scope) -> Causes:
    container = scope.container
    if mount.get("name", "") not in container.container.names_in("volumes"):
        yield errors.missing_reference(f"{path}.name", mount.get("name", ""))
    mount_path = mount.get("mountPath", "")
    if container.is_duplicate("mountPaths", mount_path):
        yield errors.invalid_value(f"{path}.mountPath", mount_path, "must be unique")
    mounts = path.rpartition("[")[0]
    for field in ("subPath", "subPathExpr"):
        yield from check_format(mount.get(field, ""), f"{mounts}.{field}", FORMATS["relativePath"])
    security = container.obj.get("securityContext") or {}
    if mount.get("mountPropagation") == "Bidirectional" and not security.get("privileged"):
        message = "Bidirectional mount propagation is available only to privileged containers"
        yield errors.forbidden_field(f"{mounts}.mountPropagation", message)
    yield from _recursively_read_only(mount, f"{mounts}.recursiveReadOnly")
    if mount.get("subPath") and mount.get("subPathExpr"):
        message = "subPathExpr and subPath are mutually exclusive"
        yield errors.invalid_value(f"{path}.subPathExpr", mount["subPathExpr"], message)


def _recursively_read_only(mount: Json, path: str) -> Causes:
    value = mount.get("recursiveReadOnly", "Disabled")
    if value not in RECURSIVE_MODES:
        yield errors.not_supported(path, value, RECURSIVE_MODES)
    elif value != "Disabled":
        if not mount.get("readOnly"):
            yield errors.forbidden_field(path, "may only be specified when readOnly is true")
        if mount.get("mountPropagation", "None") != "None":
            message = "may only be specified when mountPropagation is None or not specified"
            yield errors.forbidden_field(path, message)


@relation
def empty_dir_size(source: Json, path: str, _: Scope) -> Causes:
    if "sizeLimit" in source and parse_quantity(source["sizeLimit"]).nanos < 0:
        yield errors.forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


@relation
def requests_within_limits(resources: Json, path: str, _: Scope) -> Causes:
    """Check that a request is within its limit, and equal to it where a node cannot overcommit."""
    limits = resources.get("limits", {})
    for name, request in resources.get("requests", {}).items():
        if name not in limits:
            if not may_overcommit(name):
                yield errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        amount, limit = parse_quantity(request), parse_quantity(limits[name])
        if not may_overcommit(name) and amount != limit:
            yield errors.invalid_value(
                f"{path}.requests", request, f"must be equal to {name} limit of {limit}"
            )
        elif amount > limit:
            message = f"must be less than or equal to {name} limit of {limit}"
            yield errors.invalid_value(f"{path}.requests", request, message)


@relation
def huge_pages_with_compute(resources: Json, path: str, _: Scope) -> Causes:
    names = {*resources.get("limits", {}), *resources.get("requests", {})}
    if any(map(is_huge_pages, names)) and not names & {"cpu", "memory"}:
        yield errors.forbidden_field(path, "HugePages require cpu or memory")


@relation
def pod_level_amounts(spec: Json, path: str, _: Scope) -> Causes:
    """Check that pod-level amounts hold what the containers request together, and each of their limits."""
    resources = spec.get("resources")
    if not resources:
        return
    here, amounts = f"{path}.resources", pod_amounts(spec, pod_level=False)
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name, amount in sorted(pod_requests(amounts).items()):
        if name in requests and amount > parse_quantity(requests[name]):
            message = f"must be greater than or equal to aggregate container requests of {amount}"
            yield errors.invalid_value(f"{here}.requests[{name}]", requests[name], message)
    for name, amount in sorted(pod_limits(amounts).items()):
        if is_huge_pages(name) and name in limits and amount > parse_quantity(limits[name]):
            message = f"must be greater than or equal to aggregate container limits of {amount}"
            yield errors.invalid_value(f"{here}.limits[{name}]", limits[name], message)
    for index, container in enumerate(amounts.containers):
        for name, limit in sorted(container.resources.limits.items()):
            if name in limits and limit > parse_quantity(limits[name]):
                message = f"must be less than or equal to pod limits of {limits[name]}"
                yield errors.invalid_value(f"{here}.containers[{index}][{name}].limits", str(limit), message)


@relation
def toleration_operator(toleration: Json, path: str, _: Scope) -> Causes:
    operator, value = toleration.get("operator", ""), toleration.get("value", "")
    if not toleration.get("key") and operator != "Exists":
        message = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield errors.invalid_value(f"{path}.operator", operator, message)
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        message = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield errors.invalid_value(f"{path}.effect", toleration.get("effect", ""), message)
    match operator:
        case "" | "Equal":
            yield from check_format(value, f"{path}.operator", label_value)
        case "Exists":
            if value:
                message = "value must be empty when `operator` is 'Exists'"
                yield errors.invalid_value(f"{path}.operator", value, message)
        case _:
            if operator in ("Lt", "Gt"):  # of a feature gate that is off
                yield errors.not_supported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
            else:
                yield errors.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))


@relation
def unique_spread_constraint(constraint: Json, path: str, scope: Scope) -> Causes:
    identity = (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable", ""))
    if scope.container.is_duplicate("spreadConstraints", identity):
        yield errors.duplicate(
            f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{', '.join(map(str, identity))}}}"
        )


@relation
def min_domains(constraint: Json, path: str, _: Scope) -> Causes:
    action = constraint.get("whenUnsatisfiable", "")
    if "minDomains" in constraint and action != "DoNotSchedule":
        message = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield errors.invalid_value(f"{path}.minDomains", constraint["minDomains"], message)
