"""Webhook configurations: whom to ask about what, and how."""

import base64
from collections.abc import Mapping
from urllib.parse import urlsplit

from cryptography import x509

from quorate.local.server.admission.webhooks.match_conditions import (
    InvalidExpression,
    compile_condition,
)
from quorate.local.server.errors import Cause, duplicate, invalid_value, not_supported, required, too_many
from quorate.local.server.registry.validation import formats, selectors
from quorate.local.server.registry.validation.field_rules import Causes, Json, one_of, spelled

REVIEW_VERSIONS = ("v1", "v1beta1")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
CHOICES: Mapping[str, tuple[str, ...]] = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
}
SIDE_EFFECTS = ("None", "NoneOnDryRun")
TIMEOUTS_S = range(1, 31)
MOST_CONDITIONS = 64
HIGHEST_PORT = 65_535


def validate(configuration: Json) -> list[Cause]:
    """Of both kinds of configuration."""
    seen = set[str]()
    found: list[Cause] = []
    for index, webhook in enumerate(configuration.get("webhooks", ())):
        path = f"webhooks[{index}]"
        found += _webhook(webhook, path)
        if webhook.get("name") in seen:
            found.append(duplicate(f"{path}.name", webhook["name"]))
        seen.add(webhook.get("name", ""))
    return found


def _webhook(webhook: Json, path: str) -> Causes:
    yield from _name(webhook.get("name", ""), f"{path}.name")
    yield from _review_versions(webhook.get("admissionReviewVersions", []), f"{path}.admissionReviewVersions")
    for index, rule in enumerate(webhook.get("rules", ())):
        yield from _rule(rule, f"{path}.rules[{index}]")
    for field, supported in CHOICES.items():
        yield from one_of(webhook, path, field, supported)
    if "sideEffects" not in webhook:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(SIDE_EFFECTS)}")
    yield from one_of(webhook, path, "sideEffects", SIDE_EFFECTS)
    if webhook["timeoutSeconds"] not in TIMEOUTS_S:
        why = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], why)
    for field in ("namespaceSelector", "objectSelector"):
        yield from selectors.label_selector(webhook[field], f"{path}.{field}")
    yield from client_config(webhook.get("clientConfig", {}), f"{path}.clientConfig")
    yield from _conditions(webhook.get("matchConditions", []), f"{path}.matchConditions")


def _name(name: str, path: str) -> Causes:
    if not name:
        yield required(path)
        return
    yield from spelled(name, path, formats.subdomain)
    if name.count(".") < 2:
        yield invalid_value(path, name, "should be a domain with at least three segments separated by dots")


def _review_versions(versions: list[str], path: str) -> Causes:
    known = ", ".join(REVIEW_VERSIONS)
    if not versions:
        yield required(path, f"must specify one of {known}")
    elif not set(versions) & set(REVIEW_VERSIONS):
        yield invalid_value(path, versions, f"must include at least one of {known}")


def _rule(rule: Json, path: str) -> Causes:
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        values = rule.get(field, [])
        if not values:
            yield required(f"{path}.{field}")
        if field != "resources" and "*" in values and len(values) > 1:
            why = "if '*' is present, must not specify other values"
            yield invalid_value(f"{path}.{field}", values, why)
    for index, operation in enumerate(rule.get("operations", ())):
        if operation not in OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, OPERATIONS)
    yield from one_of(rule, path, "scope", ("*", "Cluster", "Namespaced"))


def _conditions(conditions: list[Json], path: str) -> Causes:
    if len(conditions) > MOST_CONDITIONS:
        yield too_many(path, len(conditions), MOST_CONDITIONS)
    seen = set[str]()
    for index, condition in enumerate(conditions):
        here, name = f"{path}[{index}]", condition.get("name", "")
        if not name:
            yield required(f"{here}.name")
        yield from spelled(name, f"{here}.name", formats.qualified) if name else ()
        if name in seen:
            yield duplicate(f"{here}.name", name)
        seen.add(name)
        if not condition.get("expression", "").strip():
            yield required(f"{here}.expression")
            continue
        try:
            compile_condition(name, condition["expression"])
        except InvalidExpression as refusal:
            yield invalid_value(f"{here}.expression", refusal.text, refusal.message)


def client_config(config: Json, path: str) -> Causes:
    """Where a webhook is, for admission as for conversion: a URL or a service, and whom to trust."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    if url is not None:
        yield from _url(url, f"{path}.url")
    if service is not None:
        yield from _service(service, f"{path}.service")
    yield from authority(config, path)


def _url(text: str, path: str) -> Causes:
    form = "; desired format: https://host[/path]"
    url = urlsplit(text)
    if url.scheme != "https":
        yield invalid_value(path, url.scheme, f"'https' is the only allowed URL scheme{form}")
    if not url.netloc:
        yield invalid_value(path, url.netloc, f"host must be specified{form}")
    if url.username is not None:
        yield invalid_value(path, url.username, "user information is not permitted in the URL")
    if url.fragment:
        yield invalid_value(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid_value(path, url.query, "query parameters are not permitted in the URL")


def _service(service: Json, path: str) -> Causes:
    for field in ("name", "namespace"):
        if not service.get(field):
            yield required(f"{path}.{field}", f"service {field} is required")
    if not 1 <= service.get("port", 1) <= HIGHEST_PORT:
        yield invalid_value(f"{path}.port", service["port"], "port is not valid")
    given = service.get("path", "/")
    if not given.startswith("/"):
        yield invalid_value(f"{path}.path", given, "must start with a '/'")
    elif "//" in given:
        yield invalid_value(f"{path}.path", given, "segment must not be empty")


def authority(config: Json, path: str) -> Causes:
    """The bundle of certificates to trust, if there is one, can be read."""
    bundle = config.get("caBundle")
    if not bundle:
        return
    try:
        x509.load_pem_x509_certificates(base64.b64decode(bundle))
    except ValueError:
        yield invalid_value(f"{path}.caBundle", bundle, "unable to load root certificates")
