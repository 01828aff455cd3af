"""Matching of webhooks with admission attributes, and the version in which a webhook is called."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from quorate.api.codec import Json
from quorate.local.server.admission_rules.webhooks import OperationRule
from quorate.local.server.parameters import boolean
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation.selectors import selector_matches
from quorate.local.server.requests.context import RequestContext, ServerContext
from quorate.local.server.storage.store import Key

OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(frozen=True, slots=True)
class AdmissionAttributes:
    """One operation on one object, in the requested version."""

    operation: str  # CREATE, UPDATE, DELETE or CONNECT
    request_kind: Kind  # the kind of the requested path
    kind: Kind  # the kind of the objects; another one for some subresources, such as Scale
    subresource: str
    namespace: str
    name: str
    new: Json | None
    old: Json | None
    options: Json | None
    dry_run: bool

    @property
    def is_namespace(self) -> bool:
        return self.request_kind.resource == "namespaces"


def admission_attributes(
    context: RequestContext,
    operation: str,
    new: Json | None,
    old: Json | None,
    kind: Kind | None,
    options: Json | None,
) -> AdmissionAttributes:
    """Return the attributes of a request.

    ``kind``: of the objects, if not that of the request.  ``options``: if they are not in the query.
    """
    meta = (new or old or {}).get("metadata", {})
    name = meta.get("name") or context.name
    if context.info.verb == "deletecollection":
        name = ""  # the request names no object
    # As for authorization, the namespace of a Namespace is its own name.
    is_namespace = context.kind.resource == "namespaces"
    given_options = _options(context) if options is None else options
    return AdmissionAttributes(
        operation,
        context.kind,
        kind or context.kind,
        context.info.subresource,
        name if is_namespace else meta.get("namespace") or context.namespace,
        name,
        new,
        old,
        {"kind": OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"} | given_options
        if operation in OPTIONS
        else None,
        bool(given_options.get("dryRun")),
    )


def _options(context: RequestContext) -> Json:
    """Return the options in the query of a write."""
    named = {
        name: context.query[name] for name in ("fieldManager", "fieldValidation") if context.query.get(name)
    }
    force = {"force": boolean(context.query, "force")} if "force" in context.query else {}
    return named | force | ({"dryRun": ["All"]} if "dryRun" in context.query else {})


async def convert_attributes(attributes: AdmissionAttributes, request_kind: Kind) -> AdmissionAttributes:
    """Return the attributes in another version of the kind.  Raises StatusError(500)."""
    new, old = [
        obj and await convert_object(obj, attributes.request_kind, request_kind)
        for obj in (attributes.new, attributes.old)
    ]
    return replace(attributes, request_kind=request_kind, kind=request_kind, new=new, old=old)


def with_object(attributes: AdmissionAttributes, new: Json) -> AdmissionAttributes:
    """Return the attributes with another object."""
    return replace(attributes, new=new, name=new["metadata"].get("name") or attributes.name)


async def convert_object(obj: Json, source: Kind, target: Kind) -> Json:
    """Convert an object from one version of a kind to another.  Raises StatusError(500)."""
    converted = await source.to_storage(copy.deepcopy(obj))
    if target.convert is not None:
        (converted,) = await target.convert([converted], False)
    return converted | {"kind": target.kind, "apiVersion": target.api_version}


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
    present = (obj for obj in (attributes.new, attributes.old) if obj is not None and "metadata" in obj)
    return any(
        selector_matches(webhook.object_selector, obj["metadata"].get("labels") or {}) for obj in present
    )
