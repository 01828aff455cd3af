"""Rules that relate fields of nodes, events, ConfigMaps, Secrets and RBAC objects."""

import base64

from quorate.api.codec import Json
from quorate.local.objects.errors import Cause, duplicate, forbidden_field, invalid_value, required, too_long
from quorate.local.server.registry.validation.field_rules import Causes, Scope, check, check_update, relation

RESOURCE_FIELDS = ("apiGroups", "resources", "resourceNames")
MAX_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
MAX_DATA_BYTES = 1024 * 1024
"""Of all values of a ConfigMap or a Secret together."""
MAX_NOTE_BYTES = 1024
SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"
REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""By the type of a Secret."""


@relation
def unique_taint(taint: Json, path: str, scope: Scope) -> Causes:
    if scope.container.is_duplicate("taints", (taint.get("key"), taint.get("effect"))):
        yield duplicate(path, taint)


@relation
def priority_value(priority_class: Json, path: str, _: Scope) -> Causes:
    name, value = priority_class["metadata"].get("name", ""), priority_class.get("value", 0)
    if name.startswith("system-"):
        if SYSTEM_CLASSES.get(name) != value:
            message = (
                "priority class names with 'system-' prefix are reserved for system use only."
                f" error: {name} is not a known system priority class"
            )
            yield forbidden_field("metadata.name", message)
    elif value > MAX_USER_PRIORITY:
        message = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        yield forbidden_field("value", message)


@relation
def event_namespace(event: Json, path: str, _: Scope) -> Causes:
    """Check that an event is in the namespace of the object it is about, or in default.

    An event with an event time may be in any namespace if it names the namespace of the object.
    """
    about = event.get("involvedObject") or event.get("regarding") or {}
    own, namespace = event["metadata"].get("namespace", ""), about.get("namespace", "")
    if event.get("eventTime"):
        fits = namespace or own in ("default", "kube-system")
    else:
        fits = own == (namespace or "default")
    if not fits:
        yield invalid_value("involvedObject.namespace", namespace, "does not match event.namespace")


@relation
def timed_event(event: Json, path: str, _: Scope) -> Causes:
    if event.get("eventTime"):
        yield from check("TimedEvent", event)


@relation
def event_note(event: Json, path: str, _: Scope) -> Causes:
    if len(event.get("note", "").encode()) > MAX_NOTE_BYTES:
        yield invalid_value("message", "", f"can have at most {MAX_NOTE_BYTES} characters")


def validate_event_update(new: Json, old: Json) -> list[Cause]:
    """Check that only the series of an events.k8s.io event changes."""
    series = new.get("series")
    findings = list(check_update("EventV1.update", new, old))
    if series is not None and series != old.get("series"):
        return [*check("EventSeries", series, "series"), *findings]
    return findings


@relation
def config_map_contents(config_map: Json, path: str, _: Scope) -> Causes:
    text, binary = config_map.get("data", {}), config_map.get("binaryData", {})
    for key in sorted(text.keys() & binary.keys()):
        yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
    if sum(len(value.encode()) for value in text.values()) + _decoded_bytes(binary) > MAX_DATA_BYTES:
        yield too_long("", "", MAX_DATA_BYTES)


def _decoded_bytes(values: dict[str, str]) -> int:
    return sum(len(base64.b64decode(value)) for value in values.values())


@relation
def secret_contents(secret: Json, path: str, _: Scope) -> Causes:
    data = secret.get("data", {})
    if _decoded_bytes(data) > MAX_DATA_BYTES:
        yield too_long("data", "", MAX_DATA_BYTES)
    for key in REQUIRED_KEYS.get(secret.get("type", ""), ()):
        if key not in data:
            yield required(f"data[{key}]")
    match secret.get("type"):
        case "kubernetes.io/service-account-token":
            if not secret["metadata"].get("annotations", {}).get(SERVICE_ACCOUNT_NAME):
                yield required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")
        case "kubernetes.io/basic-auth" if not data.keys() & {"username", "password"}:
            yield required("data[username]")
            yield required("data[password]")


def validate_config_map_update(new: Json, old: Json) -> list[Cause]:
    return list(check_update("ConfigMap.immutable", new, old)) if old.get("immutable") else []


def validate_secret_update(new: Json, old: Json) -> list[Cause]:
    frozen = check_update("Secret.immutable", new, old) if old.get("immutable") else ()
    return [*check_update("Secret.update", new, old), *frozen]


@relation
def resources_or_urls(rule: Json, path: str, scope: Scope) -> Causes:
    """Check that a rule is about resources or, in a ClusterRole, about non-resource URLs."""
    urls = rule.get("nonResourceURLs")
    if not urls:
        for field, noun in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(field):
                yield required(f"{path}.{field}", f"resource rules must supply at least one {noun}")
        return
    if scope.container.type == "Role":
        message = "namespaced rules cannot apply to non-resource URLs"
        yield invalid_value(f"{path}.nonResourceURLs", urls, message)
    if any(rule.get(field) for field in RESOURCE_FIELDS):
        message = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid_value(f"{path}.nonResourceURLs", urls, message)


@relation
def namespace_of_account(subject: Json, path: str, scope: Scope) -> Causes:
    is_bound_everywhere = scope.container.type == "ClusterRoleBinding"
    if subject.get("kind") == "ServiceAccount" and is_bound_everywhere and not subject.get("namespace"):
        yield required(f"{path}.namespace")
