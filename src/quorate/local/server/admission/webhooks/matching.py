"""Whether a webhook is asked about an attempt, and in which version it is told."""

from typing import Any

from quorate.local.server.admission.webhooks.attributes import Attempt
from quorate.local.server.admission.webhooks.configurations import Webhook
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation.selectors import matches
from quorate.local.server.requests.context import Context
from quorate.local.server.storage.store import Key

Json = dict[str, Any]

EXEMPT = "admissionregistration.k8s.io"
"""Webhooks are not asked about webhooks: one that refuses everything could never be removed."""


def version_for(context: Context, webhook: Webhook, attempt: Attempt) -> Kind | None:
    """The version of the kind that the webhook wants to see the attempt in; None if it is not to be asked."""
    if attempt.path.group == EXEMPT:
        return None
    wanted = _named_version(context, webhook, attempt)
    selected = wanted and _selects_namespace(context, webhook, attempt) and _selects_object(webhook, attempt)
    return wanted if selected else None


def _named_version(context: Context, webhook: Webhook, attempt: Attempt) -> Kind | None:
    """The version asked for if a rule names it, else another version of the kind that a rule names."""
    if _covered(webhook, attempt, attempt.path):
        return attempt.path
    if webhook.exact or attempt.kind is not attempt.path:
        return None
    same = (kind for kind in context.registry if kind.resource == attempt.path.resource)
    return next((kind for kind in same if _covered(webhook, attempt, kind)), None)


def _covered(webhook: Webhook, attempt: Attempt, path: Kind) -> bool:
    namespaced = bool(attempt.namespace) and not attempt.about_namespace
    return any(
        rule.covers(attempt.operation, path.group, path.version, path.plural, attempt.subresource, namespaced)
        for rule in webhook.rules
    )


def _selects_namespace(context: Context, webhook: Webhook, attempt: Attempt) -> bool:
    if not webhook.namespaces or not attempt.namespace:
        return True
    if attempt.about_namespace and not attempt.subresource and attempt.new is not None:
        return matches(webhook.namespaces, attempt.new["metadata"].get("labels", {}))
    entry = context.store.get(Key("namespaces", "", attempt.namespace))
    return matches(webhook.namespaces, entry.labels if entry else {})


def _selects_object(webhook: Webhook, attempt: Attempt) -> bool:
    """Whether the object is selected as it is to be, or as it was."""
    if not webhook.objects:
        return True
    present = (obj for obj in (attempt.new, attempt.old) if obj is not None)
    return any(matches(webhook.objects, obj["metadata"].get("labels") or {}) for obj in present)
