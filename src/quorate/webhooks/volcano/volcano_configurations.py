"""The webhooks to install for Volcano's kinds, made from the table of hooks."""

from collections.abc import Iterable
from typing import Final, Protocol

from quorate.api.configuration import NAMESPACE_NAME_LABEL
from quorate.api.configuration.gang import PodGroupWebhooks
from quorate.kube.resources import Json
from quorate.webhooks.volcano.volcano_routes import KUBE_SYSTEM, WebhookRoute, webhook_routes

TIMEOUT_S: Final = 5


class Reaching(Protocol):
    def client_config(self, path: str) -> Json:
        """How the API server reaches ``path`` of ours."""
        ...


def pod_group_hooks(
    rules: PodGroupWebhooks, namespace: str, endpoint: Reaching
) -> tuple[Iterable[Json], Iterable[Json]]:
    """The mutating and the validating webhooks; ``namespace`` is where those live who answer."""
    made = [(hook, _webhook(hook, rules, namespace, endpoint)) for hook in webhook_routes(rules)]
    return (
        [webhook for hook, webhook in made if hook.mutates],
        [webhook for hook, webhook in made if not hook.mutates],
    )


def _webhook(hook: WebhookRoute, rules: PodGroupWebhooks, namespace: str, endpoint: Reaching) -> Json:
    webhook: Json = {
        "name": hook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": endpoint.client_config(hook.path),
        "failurePolicy": "Ignore" if hook.fails_open else rules.failure_policy,
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
        "rules": [
            {
                "apiGroups": [hook.group],
                "apiVersions": [hook.version],
                "operations": list(hook.operations),
                "resources": [hook.plural],
            }
        ],
    }
    if hook.is_about_pods:
        # Not about our own: with failurePolicy Fail nobody could answer any more once nobody does.
        exempt = {"key": NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": [KUBE_SYSTEM, namespace]}
        webhook["namespaceSelector"] = {"matchExpressions": [exempt]}
    if hook.condition:
        webhook["matchConditions"] = [{"name": "worth-asking", "expression": hook.condition}]
    return webhook
