"""The webhook configurations to install, made from the table of routes.

They ask us about as little as will do, since whoever asks waits, and gets a refusal where failurePolicy is
Fail and nobody answers: our own kinds, and jobs that are ours.  A job that names no queue might be meant for
the default queue of its namespace, which only we can tell; it is asked about, but never refused for want of
an answer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.kueue import QUEUE_NAME
from quorate.kube.resources import Json
from quorate.webhooks.admission_review import Operation
from quorate.webhooks.routes import CONVERT_PATH, Route, Verb
from quorate.webhooks.volcano.volcano_configurations import pod_group_hooks

INSTALLER: Final = "quorate"
TIMEOUT_S: Final = 10
PASSING_TIMEOUT_S: Final = 2  # for those who are let through unanswered: they need not wait for long

# Pods get these through the template of what makes them.
_MARKS: Final = (
    ("labels", QUEUE_NAME),
    ("annotations", QUEUE_NAME),
    ("labels", "kueue.x-k8s.io/managed"),
    ("annotations", "kueue.x-k8s.io/pod-suspending-parent"),
)


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """How the API server reaches us: a Service, or a URL where there is nobody to route Services."""

    namespace: str = ""
    service: str = ""
    url: str = ""  # without a path
    authority: str = ""  # PEM in base64; empty where it is to be filled in later

    def client_config(self, path: str) -> Json:
        trust = {"caBundle": self.authority} if self.authority else {}
        if self.url:
            return {"url": f"{self.url}{path}", **trust}
        return {"service": {"namespace": self.namespace, "name": self.service, "path": path}, **trust}


def webhook_configurations(
    configuration: Configuration, routes: Iterable[Route], endpoint: WebhookEndpoint, own_user: str = ""
) -> tuple[Json, Json]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration for ``routes``.

    ``own_user`` is whom the controllers are to the API server: what they write themselves is not asked about.
    """
    listed = tuple(routes)
    mutating = [hook for route in listed for hook in _mutating(route, configuration, endpoint, own_user)]
    validating = [_hook(route, "validate", configuration, endpoint, own_user) for route in listed]
    if configuration.pod_group_webhooks is not None:
        added = pod_group_hooks(configuration.pod_group_webhooks, configuration.namespace, endpoint)
        mutating += added[0]
        validating += added[1]
    return (
        _configuration("MutatingWebhookConfiguration", "mutating", mutating),
        _configuration("ValidatingWebhookConfiguration", "validating", validating),
    )


def conversion(endpoint: WebhookEndpoint) -> Json:
    """The ``spec.conversion`` of a definition whose objects we convert."""
    client_config = endpoint.client_config(CONVERT_PATH)
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]},
    }


def _configuration(kind: str, verb: str, hooks: list[Json]) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"{INSTALLER}-{verb}-webhook-configuration"},
        "webhooks": hooks,
    }


def _mutating(
    route: Route, configuration: Configuration, endpoint: WebhookEndpoint, own_user: str
) -> Iterator[Json]:
    if not route.mutates:
        return
    hook = _hook(route, "mutate", configuration, endpoint, own_user)
    yield hook
    if route.is_job and not configuration.manage_jobs_without_queue_name:
        yield {
            **hook,
            "name": f"d{route.kind.lower()}.kb.io",
            "failurePolicy": "Ignore",
            "timeoutSeconds": PASSING_TIMEOUT_S,
            "rules": [_rule(route, ("CREATE",), ())],
            "matchConditions": [_names_no_queue(route)],
        }


def _hook(
    route: Route, verb: Verb, configuration: Configuration, endpoint: WebhookEndpoint, own_user: str
) -> Json:
    operations = route.mutates if verb == "mutate" else route.validates
    hook: Json = {
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
        hook["namespaceSelector"] = selector
        conditions = [] if configuration.manage_jobs_without_queue_name else [_is_ours()]
    return {**hook, "matchConditions": conditions} if conditions else hook


def _rule(route: Route, operations: Iterable[Operation], subresources: Iterable[str]) -> Json:
    return {
        "apiGroups": [route.group],
        "apiVersions": [route.version],
        "operations": list(operations),
        "resources": [route.plural, *(f"{route.plural}/{name}" for name in subresources)],
    }


def _marked(variable: str) -> str:
    """CEL: whether an object carries one of the marks of what is ours."""
    has = (
        f"has({variable}.metadata.{part}) && '{key}' in {variable}.metadata.{part}" for part, key in _MARKS
    )
    return " || ".join(f"({each})" for each in has)


def _is_ours() -> Json:
    """It is ours, or was: leaving a queue is a change to judge, too."""
    expression = f"({_marked('object')}) || (oldObject != null && ({_marked('oldObject')}))"
    return {"name": "ours", "expression": expression}


def _names_no_queue(route: Route) -> Json:
    expression = f"!({_marked('object')})"
    if route.kind == "Pod":  # what makes it has been asked about, or is nobody's business of ours
        expression += (
            " && !(has(object.metadata.ownerReferences) && "
            "object.metadata.ownerReferences.exists(owner, has(owner.controller) && owner.controller))"
        )
    return {"name": "names-no-queue", "expression": expression}


def _not_by(user: str) -> Json:
    return {"name": "not-our-own-write", "expression": f"request.userInfo.username != '{user}'"}
