"""Matching of webhooks with admission attributes, and the version in which a webhook is called."""

from collections.abc import Sequence
from typing import Protocol

from quorate.api.codec import Json
from quorate.local.server.admission.webhooks.attributes import AdmissionAttributes
from quorate.local.server.admission.webhooks.configurations import OperationRule
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation.selectors import selector_matches
from quorate.local.server.requests.context import ServerContext
from quorate.local.server.storage.store import Key

EXEMPT_GROUP = "admissionregistration.k8s.io"
"""No webhook is called for webhook configurations: a webhook could refuse its own removal."""


class ResourceMatch(Protocol):
    """What a webhook or an admission policy matches."""

    @property
    def rules(self) -> Sequence[OperationRule]: ...
    @property
    def exact_versions(self) -> bool: ...
    @property
    def namespace_selector(self) -> Json: ...
    @property
    def object_selector(self) -> Json: ...


def matching_version(
    server: ServerContext, webhook: ResourceMatch, attributes: AdmissionAttributes
) -> Kind | None:
    """Return the version of the kind to call the webhook with; None if it does not match."""
    if attributes.request_kind.group == EXEMPT_GROUP:
        return None
    version = _version_in_rules(server, webhook, attributes)
    return version if version and matches_selectors(server, webhook, attributes) else None


def matches_selectors(server: ServerContext, webhook: ResourceMatch, attributes: AdmissionAttributes) -> bool:
    """Return True if the selectors of namespaces and of objects match."""
    return _matches_namespace(server, webhook, attributes) and _matches_object(webhook, attributes)


def _version_in_rules(
    server: ServerContext, webhook: ResourceMatch, attributes: AdmissionAttributes
) -> Kind | None:
    """Return the requested version if a rule matches it, else another version that a rule matches."""
    if is_covered(webhook.rules, attributes, attributes.request_kind):
        return attributes.request_kind
    if webhook.exact_versions or attributes.kind is not attributes.request_kind:
        return None
    same = (kind for kind in server.registry if kind.resource == attributes.request_kind.resource)
    return next((kind for kind in same if is_covered(webhook.rules, attributes, kind)), None)


def is_covered(rules: Sequence[OperationRule], attributes: AdmissionAttributes, kind: Kind) -> bool:
    """Return True if one of the rules matches the operation on objects of a kind."""
    namespaced = bool(attributes.namespace) and not attributes.is_namespace
    return any(
        rule.matches(
            attributes.operation, kind.group, kind.version, kind.plural, attributes.subresource, namespaced
        )
        for rule in rules
    )


def _matches_namespace(
    server: ServerContext, webhook: ResourceMatch, attributes: AdmissionAttributes
) -> bool:
    if not webhook.namespace_selector or not attributes.namespace:
        return True
    if attributes.is_namespace and not attributes.subresource and attributes.new is not None:
        return selector_matches(webhook.namespace_selector, attributes.new["metadata"].get("labels", {}))
    entry = server.store.get(Key("namespaces", "", attributes.namespace))
    return selector_matches(webhook.namespace_selector, entry.labels if entry else {})


def _matches_object(webhook: ResourceMatch, attributes: AdmissionAttributes) -> bool:
    """Return True if the selector matches the new or the old object."""
    if not webhook.object_selector:
        return True
    present = (obj for obj in (attributes.new, attributes.old) if obj is not None)
    return any(
        selector_matches(webhook.object_selector, obj["metadata"].get("labels") or {}) for obj in present
    )
