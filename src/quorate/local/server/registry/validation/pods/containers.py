"""One container: its image, ports, variables, mounts, probes and resources."""

from quorate.local.server.errors import (
    duplicate,
    forbidden_field,
    invalid_value,
    missing_reference,
    not_supported,
    required,
)
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import (
    Causes,
    Json,
    not_negative,
    one_of,
    positive,
    present,
    spelled,
    well_named,
    within,
)
from quorate.local.server.registry.validation.resource_amounts import requirements

PORTS = (1, 65535)
PROTOCOLS = ("SCTP", "TCP", "UDP")
VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
CHOICES = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}


def container(given: Json, path: str, volumes: set[str]) -> Causes:
    """Everything but the name, whose uniqueness only the pod can judge.  ``volumes``: those of the pod."""
    yield from present(given, path, "image")
    image = given.get("image", "")
    if image != image.strip():
        yield invalid_value(f"{path}.image", image, "must not have leading or trailing whitespace")
    for field, supported in CHOICES.items():
        yield from one_of(given, path, field, supported)
    yield from _ports(given.get("ports", []), f"{path}.ports")
    for index, variable in enumerate(given.get("env", ())):
        yield from _variable(variable, f"{path}.env[{index}]")
    for index, source in enumerate(given.get("envFrom", ())):
        yield from _variables_from(source, f"{path}.envFrom[{index}]")
    yield from _mounts(given.get("volumeMounts", []), f"{path}.volumeMounts", volumes)
    for field in PROBES:
        if field in given:
            yield from _probe(given[field], f"{path}.{field}", once=field != "readinessProbe")
    for hook in ("postStart", "preStop"):
        if hook in given.get("lifecycle", {}):
            yield from _handler(given["lifecycle"][hook], f"{path}.lifecycle.{hook}")
    yield from requirements(given.get("resources", {}), f"{path}.resources")
    yield from not_negative(
        given.get("securityContext", {}), f"{path}.securityContext", "runAsUser", "runAsGroup"
    )


def _ports(given: list[Json], path: str) -> Causes:
    known = set()
    for index, port in enumerate(given):
        here = f"{path}[{index}]"
        yield from well_named(port, here, "name", formats.port_name)
        if port.get("name") in known:
            yield duplicate(f"{here}.name", port["name"])
        known.add(port.get("name", index))
        yield from present(port, here, "containerPort")
        for field in ("containerPort", "hostPort"):
            if port.get(field):
                yield from within(port, here, field, *PORTS)
        yield from one_of(port, here, "protocol", PROTOCOLS)


def _variable(variable: Json, path: str) -> Causes:
    yield from present(variable, path, "name")
    yield from well_named(variable, path, "name", formats.environment_name)
    if "valueFrom" in variable:
        here = f"{path}.valueFrom"
        sources = [source for source in VALUE_SOURCES if source in variable["valueFrom"]]
        if not sources:
            yield invalid_value(here, "", f"must specify one of: {', '.join(VALUE_SOURCES)}")
        elif variable.get("value"):
            yield invalid_value(here, "", "may not be specified when `value` is not empty")
        elif len(sources) > 1:
            yield invalid_value(here, "", "may not have more than one field specified at a time")
        for source in sources:
            yield from _value_source(source, variable["valueFrom"][source], f"{here}.{source}")


def _value_source(kind: str, source: Json, path: str) -> Causes:
    match kind:
        case "fieldRef":
            yield from present(source, path, "fieldPath")
        case "resourceFieldRef":
            yield from present(source, path, "resource")
        case "configMapKeyRef" | "secretKeyRef":
            yield from present(source, path, "name", "key")
            yield from well_named(source, path, "key", formats.data_key)


def _variables_from(source: Json, path: str) -> Causes:
    yield from well_named(source, path, "prefix", formats.environment_name)
    named = [field for field in ("configMapRef", "secretRef") if field in source]
    if not named:
        yield invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`")
    if len(named) > 1:
        yield invalid_value(path, "", "may not have more than one field specified at a time")
    for field in named:
        yield from present(source[field], f"{path}.{field}", "name")


def _mounts(given: list[Json], path: str, volumes: set[str]) -> Causes:
    taken = set()
    for index, mount in enumerate(given):
        here, place = f"{path}[{index}]", mount.get("mountPath", "")
        yield from present(mount, here, "name", "mountPath")
        if mount.get("name") and mount["name"] not in volumes:
            yield missing_reference(f"{here}.name", mount["name"])
        if place in taken:
            yield invalid_value(f"{here}.mountPath", place, "must be unique")
        taken.add(place)
        if mount.get("subPath") and mount.get("subPathExpr"):
            why = "subPathExpr and subPath are mutually exclusive"
            yield invalid_value(f"{here}.subPathExpr", mount["subPathExpr"], why)
        for field in ("subPath", "subPathExpr"):
            yield from relative(mount, here, field)
        yield from one_of(mount, here, "mountPropagation", ("Bidirectional", "HostToContainer", "None"))


def relative(obj: Json, path: str, field: str) -> Causes:
    """A path that stays below the place it is used in."""
    value = obj.get(field, "")
    if value.startswith("/"):
        yield invalid_value(f"{path}.{field}", value, "must be a relative path")
    if ".." in value.split("/"):
        yield invalid_value(f"{path}.{field}", value, "must not contain '..'")


def _probe(probe: Json, path: str, once: bool) -> Causes:
    """``once``: a single success is all this probe may ask for."""
    yield from _handler(probe, path)
    yield from not_negative(
        probe,
        path,
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    )
    yield from positive(probe, path, "terminationGracePeriodSeconds")
    if once and probe.get("successThreshold", 1) != 1:
        yield invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _handler(given: Json, path: str) -> Causes:
    named = [handler for handler in HANDLERS if handler in given]
    if not named:
        yield required(path, "must specify a handler type")
    for surplus in named[1:]:
        yield forbidden_field(f"{path}.{surplus}", "may not specify more than 1 handler type")
    for handler in named[:1]:
        yield from _handled_by(handler, given[handler], f"{path}.{handler}")


def _handled_by(kind: str, handler: Json, path: str) -> Causes:
    match kind:
        case "exec":
            yield from present(handler, path, "command")
        case "httpGet":
            yield from port(handler.get("port", 0), f"{path}.port")
            if handler.get("scheme", "HTTP") not in ("HTTP", "HTTPS"):
                yield not_supported(f"{path}.scheme", handler["scheme"], ("HTTP", "HTTPS"))
        case "tcpSocket" | "grpc":
            yield from port(handler.get("port", 0), f"{path}.port")
        case "sleep":
            yield from positive({"seconds": 0} | handler, path, "seconds")


def port(port: int | str, path: str) -> Causes:
    """A port's number, or its name."""
    if isinstance(port, str):
        yield from spelled(port, path, formats.port_name)
    elif not PORTS[0] <= port <= PORTS[1]:
        yield invalid_value(path, port, f"must be between {PORTS[0]} and {PORTS[1]}, inclusive")
