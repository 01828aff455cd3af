"""The webhook configurations to install, generated from the table of routes.

They select as few requests as possible, since each request waits for the response, and is refused if
failurePolicy is Fail and there is no response: requests about the queueing kinds and about managed jobs.  A
job without a queue may belong to the default queue of its namespace, which the API server cannot know: such
jobs are sent, too, with failurePolicy Ignore.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.names.kueue import QUEUE_NAME
from quorate.controllers.pods.constants import MANAGED, SUSPENDING_PARENT
from quorate.kube.resources import Json
from quorate.webhooks.admission_review import Operation
from quorate.webhooks.limits import IGNORE_TIMEOUT_S, TIMEOUT_S
from quorate.webhooks.routes import CONVERT_PATH, Route, Verb, WebhookEndpoint
from quorate.webhooks.volcano.volcano_routes import volcano_webhooks

INSTALLER: Final = "quorate"

# Labels and annotations of managed objects; pods get them from their template.
_MANAGED_KEYS: Final = (
    ("labels", QUEUE_NAME),
    ("annotations", QUEUE_NAME),
    ("labels", MANAGED),
    ("annotations", SUSPENDING_PARENT),
)


def webhook_configurations(
    configuration: Configuration, routes: Iterable[Route], endpoint: WebhookEndpoint, own_user: str = ""
) -> tuple[Json, Json]:
    """Return the mutating and the validating webhook configuration for ``routes``.

    ``own_user``: the user name of the controllers; their own writes are not sent to the webhooks.
    """
    listed = tuple(routes)
    mutating = [
        webhook for route in listed for webhook in _mutating(route, configuration, endpoint, own_user)
    ]
    validating = [_webhook(route, "validate", configuration, endpoint, own_user) for route in listed]
    if configuration.pod_group_webhooks is not None:
        added = volcano_webhooks(configuration.pod_group_webhooks, configuration.namespace, endpoint)
        mutating += added[0]
        validating += added[1]
    return (
        _configuration("MutatingWebhookConfiguration", "mutating", mutating),
        _configuration("ValidatingWebhookConfiguration", "validating", validating),
    )


def conversion(endpoint: WebhookEndpoint) -> Json:
    """Return ``spec.conversion`` of a CRD that the webhook server converts."""
    client_config = endpoint.client_config(CONVERT_PATH)
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]},
    }


def _configuration(kind: str, verb: str, webhooks: list[Json]) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"{INSTALLER}-{verb}-webhook-configuration"},
        "webhooks": webhooks,
    }


def _mutating(
    route: Route, configuration: Configuration, endpoint: WebhookEndpoint, own_user: str
) -> Iterator[Json]:
    if not route.mutates:
        return
    webhook = _webhook(route, "mutate", configuration, endpoint, own_user)
    yield webhook
    if route.is_job and not configuration.manage_jobs_without_queue_name:
        yield {
            **webhook,
            "name": f"d{route.name_stem}.kb.io",
            "failurePolicy": "Ignore",
            "timeoutSeconds": IGNORE_TIMEOUT_S,
            "rules": [_rule(route, ("CREATE",), ())],
            "matchConditions": [_names_no_queue(route)],
        }


def _webhook(
    route: Route, verb: Verb, configuration: Configuration, endpoint: WebhookEndpoint, own_user: str
) -> Json:
    operations = route.mutates if verb == "mutate" else route.validates
    webhook: Json = {
        "name": route.name(verb),
        "admissionReviewVersions": ["v1"],
        "clientConfig": endpoint.client_config(route.path(verb)),
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
        "rules": [_rule(route, operations, route.subresources if verb == "validate" else ())],
    }
    if not route.is_job:
        conditions = [_not_by(own_user)] if own_user else []
    else:
        selector: Any = codec.to_builtins(configuration.managed_jobs_namespace_selector)
        webhook["namespaceSelector"] = selector
        conditions = [] if configuration.manage_jobs_without_queue_name else [_is_managed()]
        if verb == "validate" and route.validated_if:
            conditions.append({"name": "worth-validating", "expression": route.validated_if})
    return {**webhook, "matchConditions": conditions} if conditions else webhook


def _rule(route: Route, operations: Iterable[Operation], subresources: Iterable[str]) -> Json:
    return {
        "apiGroups": [route.group],
        "apiVersions": [route.version],
        "operations": list(operations),
        "resources": [route.plural, *(f"{route.plural}/{name}" for name in subresources)],
    }


def _has_managed_key(variable: str) -> str:
    """Return the CEL expression for an object with one of the keys of managed objects."""
    has = (
        f"has({variable}.metadata.{field}) && '{key}' in {variable}.metadata.{field}"
        for field, key in _MANAGED_KEYS
    )
    return " || ".join(f"({condition})" for condition in has)


def _is_managed() -> Json:
    """Match objects that are or were managed, since leaving a queue is validated."""
    expression = f"({_has_managed_key('object')}) || (oldObject != null && ({_has_managed_key('oldObject')}))"
    return {"name": "ours", "expression": expression}


def _names_no_queue(route: Route) -> Json:
    expression = f"!({_has_managed_key('object')})"
    if route.kind in ("Pod", "PodGroup"):  # the webhook of its owner decides about it, if that is managed
        expression += (
            " && !(has(object.metadata.ownerReferences) && "
            "object.metadata.ownerReferences.exists(owner, has(owner.controller) && owner.controller))"
        )
    return {"name": "names-no-queue", "expression": expression}


def _not_by(user: str) -> Json:
    return {"name": "not-our-own-write", "expression": f"request.userInfo.username != '{user}'"}
