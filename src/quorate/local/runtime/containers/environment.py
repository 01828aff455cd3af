"""The environment, command and working directory of a container, as a kubelet composes them."""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from quorate.api.quantity import NANOS, InvalidQuantity, Quantity, parse_quantity
from quorate.local.controllers.access import Secret
from quorate.local.controllers.services import HEADLESS, Service
from quorate.local.runtime.network.types import API_SERVICE
from quorate.local.runtime.pod_types import (
    ConfigMap,
    Container,
    EnvVarSource,
    FileKeySelector,
    KeySelector,
    ObjectSelector,
    Pod,
    ResourceFieldSelector,
)

T = TypeVar("T", ConfigMap, Secret)

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFERENCE: Final = re.compile(r"\$(\$|\(([^)]*)\))")
_ASSIGNMENT: Final = re.compile(
    r"[ \t]*(?![#\s])(?P<name>[^=\n]*[^=\s])="
    r"(?:'(?P<value>[^']*)'[ \t]*(?:#[^\n]*)?|[ \t][^\n]*)(?:\n|\Z)"
)
_SUBSCRIPT: Final = re.compile(r"(metadata\.(?:labels|annotations))\['(.*)'\]")


FileName = tuple[str, str]  # the volume of a file, and the path in the volume


class ConfigError(Exception):
    """The container cannot be configured; the kubelet retries (``CreateContainerConfigError``)."""


@dataclass(frozen=True, slots=True)
class ReferencedObjects:
    """The ConfigMaps and Secrets that the environment of a container may refer to, by name; None: missing."""

    config_maps: Mapping[str, ConfigMap | None]
    secrets: Mapping[str, Secret | None]
    files: Mapping[FileName, str | None] = field(default_factory=dict)
    """The text of each file with variables; None: a file that cannot be read."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What fields of the downward API say that is not in the pod's manifest."""

    host_ip: str
    pod_ip: str
    allocatable: Mapping[str, Quantity]  # of the node: the limits of a container without limits


def references(container: Container) -> tuple[set[str], set[str]]:
    """Return the names of the ConfigMaps and of the Secrets that the environment refers to."""
    sources = [variable.value_from for variable in container.env if variable.value_from is not None]
    config_maps: set[str] = {s.config_map_key_ref.name for s in sources if s.config_map_key_ref}
    secrets: set[str] = {s.secret_key_ref.name for s in sources if s.secret_key_ref}
    config_maps |= {source.config_map_ref.name for source in container.env_from if source.config_map_ref}
    secrets |= {source.secret_ref.name for source in container.env_from if source.secret_ref}
    return config_maps, secrets


def referenced_files(container: Container) -> set[FileName]:
    """Return the files in volumes that the environment refers to."""
    sources = (variable.value_from for variable in container.env)
    selectors = (source.file_key_ref for source in sources if source is not None)
    return {(selector.volume_name, selector.path) for selector in selectors if selector is not None}


def environment_of(
    pod: Pod, container: Container, objects: ReferencedObjects, services: Iterable[Service], facts: PodFacts
) -> dict[str, str]:
    """Return the variables of a container.  Raises ``ConfigError``.

    A later source wins: service variables, ``envFrom``, ``env``.
    """
    result = service_variables(pod, services)
    for source in container.env_from:
        if source.config_map_ref is not None:
            config_map = _object("configmap", source.config_map_ref, objects.config_maps)
            values: Mapping[str, str] = config_map.data if config_map else {}
        elif source.secret_ref is not None:
            secret = _object("secret", source.secret_ref, objects.secrets)
            values = _decoded(secret) if secret else {}
        else:
            continue
        result |= {source.prefix + name: value for name, value in values.items() if "=" not in name}
    for variable in container.env:
        if variable.value_from is None:
            result[variable.name] = expand(variable.value, result)
        elif (value := _referenced(pod, container, variable.value_from, objects, facts)) is not None:
            result[variable.name] = value
    return result


def _referenced(
    pod: Pod, container: Container, source: EnvVarSource, objects: ReferencedObjects, facts: PodFacts
) -> str | None:
    """Return the value that a variable refers to, or None if an optional source does not exist."""
    if source.field_ref is not None:
        return pod_field(pod, source.field_ref.field_path, facts)
    if source.resource_field_ref is not None:
        return resource_field(pod, container, source.resource_field_ref, facts)
    if source.config_map_key_ref is not None:
        selector = source.config_map_key_ref
        config_map = _object("configmap", selector, objects.config_maps)
        return _key("ConfigMap", pod, selector, config_map.data if config_map else None)
    if source.secret_key_ref is not None:
        selector = source.secret_key_ref
        secret = _object("secret", selector, objects.secrets)
        return _key("Secret", pod, selector, _decoded(secret) if secret else None)
    if source.file_key_ref is not None:
        return _file_key(source.file_key_ref, objects.files)
    return ""


def _file_key(selector: FileKeySelector, files: Mapping[FileName, str | None]) -> str | None:
    """Return the value of a key of a file, or None if an optional key has none."""
    text = files.get((selector.volume_name, selector.path))
    try:
        value = None if text is None else file_variable(text, selector.key)
    except ValueError:
        value = None
    if value is None:
        raise ConfigError("couldn't parse env file")
    if value or selector.optional:
        return value or None
    file = f'"{selector.path}" of volume "{selector.volume_name}"'
    raise ConfigError(f'environment variable key "{selector.key}" not found in file {file}')


def file_variable(text: str, name: str) -> str:
    """Return the value of a variable in a file; empty if no line has the variable.

    A line is empty, a comment or ``NAME='value'``.  A value may have several lines, and after it there may
    be a comment.  The value is empty if white space precedes it.  Raises ValueError for any other line that
    comes before the variable.
    """
    rest = text
    while rest:
        assignment = _ASSIGNMENT.match(rest)
        if assignment is None:
            line, _, rest = rest.partition("\n")
            if line.strip(" \t") and not line.lstrip(" \t").startswith("#"):
                raise ValueError(f"no variable in single quotes: {line}")
        elif assignment["name"] == name:
            return assignment["value"] or ""
        else:
            rest = rest[assignment.end() :]
    return ""


def _object(kind: str, selector: KeySelector | ObjectSelector, objects: Mapping[str, T | None]) -> T | None:
    referenced = objects.get(selector.name)
    if referenced is None and not selector.optional:
        raise ConfigError(f'{kind} "{selector.name}" not found')
    return referenced


def _key(kind: str, pod: Pod, selector: KeySelector, values: Mapping[str, str] | None) -> str | None:
    if values is not None and selector.key in values:
        return values[selector.key]
    if selector.optional:
        return None
    name = f"{pod.metadata.namespace}/{selector.name}"
    raise ConfigError(f"couldn't find key {selector.key} in {kind} {name}")


def _decoded(secret: Secret) -> dict[str, str]:
    return {name: base64.b64decode(value).decode(errors="replace") for name, value in secret.data.items()}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the variable; ``$$`` is one dollar sign, an unknown reference stays."""

    def replacement(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)


def pod_field(pod: Pod, path: str, facts: PodFacts) -> str:
    """Return a field of the pod for the downward API.  Raises ``ConfigError``."""
    metadata = pod.metadata
    if match := _SUBSCRIPT.fullmatch(path):
        values = metadata.labels if match[1].endswith("labels") else metadata.annotations
        return values.get(match[2], "")
    fields: Mapping[str, Callable[[], str]] = {
        "metadata.name": lambda: metadata.name,
        "metadata.namespace": lambda: metadata.namespace,
        "metadata.uid": lambda: metadata.uid,
        "metadata.labels": lambda: _lines(metadata.labels),
        "metadata.annotations": lambda: _lines(metadata.annotations),
        "spec.nodeName": lambda: pod.spec.node_name,
        "spec.serviceAccountName": lambda: pod.spec.service_account_name or "default",
        "status.hostIP": lambda: facts.host_ip,
        "status.hostIPs": lambda: facts.host_ip,
        "status.podIP": lambda: facts.pod_ip,
        "status.podIPs": lambda: facts.pod_ip,
    }
    if path not in fields:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return fields[path]()


def _lines(values: Mapping[str, str]) -> str:
    escape = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"})
    return "\n".join(f'{name}="{values[name].translate(escape)}"' for name in sorted(values))


def resource_field(pod: Pod, container: Container, selector: ResourceFieldSelector, facts: PodFacts) -> str:
    """Return an amount of a container in units of the divisor, rounded up.  Raises ``ConfigError``."""
    if selector.container_name:
        named = pod.container(selector.container_name)
        if named is None:
            raise ConfigError(f"container {selector.container_name} not found")
        container = named
    kind, _, resource = selector.resource.partition(".")
    match kind:
        case "limits":
            amounts: Mapping[str, Quantity] = {**facts.allocatable, **container_limits(pod, container)}
        case "requests":
            amounts = container.resources.requests
        case _:
            raise ConfigError(f"unsupported container resource: {selector.resource}")
    try:
        divisor = parse_quantity(selector.divisor).nanos or NANOS
    except InvalidQuantity as error:
        raise ConfigError(str(error)) from error
    amount = amounts.get(resource, Quantity(0))
    return str(-(-amount.nanos // divisor))


def container_limits(pod: Pod, container: Container) -> Mapping[str, Quantity]:
    """Return the limits of a container; a resource without one has the limit of the pod."""
    return {**pod.spec.resources.limits, **container.resources.limits}


def service_variables(pod: Pod, services: Iterable[Service]) -> dict[str, str]:
    """Return the variables of the services of the pod's namespace that have a cluster IP.

    The service ``kubernetes`` is there in every pod.
    """
    result: dict[str, str] = {}
    for service in services:
        key = service.metadata.key
        wanted = pod.spec.enable_service_links and key.namespace == pod.metadata.namespace
        address = service.spec.cluster_ip
        if address in ("", HEADLESS) or not service.spec.ports or not (wanted or key == API_SERVICE):
            continue
        result |= _of_service(key.name, address, service)
    return result


def _of_service(name: str, address: str, service: Service) -> dict[str, str]:
    prefix = _variable(name)
    first = service.spec.ports[0]
    result = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(first.port)}
    result |= {
        f"{prefix}_SERVICE_PORT_{_variable(port.name)}": str(port.port)
        for port in service.spec.ports
        if port.name
    }
    result[f"{prefix}_PORT"] = f"{first.protocol.lower()}://{address}:{first.port}"
    for port in service.spec.ports:
        one = f"{prefix}_PORT_{port.port}_{port.protocol.upper()}"
        result |= {
            one: f"{port.protocol.lower()}://{address}:{port.port}",
            f"{one}_PROTO": port.protocol.lower(),
            f"{one}_PORT": str(port.port),
            f"{one}_ADDR": address,
        }
    return result


def _variable(name: str) -> str:
    return name.upper().replace("-", "_").replace(".", "_")
