"""Volcano's webhook configurations select few requests and fail open by default."""

from typing import Any

from quorate.api.configuration import Configuration, load_configuration
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import webhook_configurations

Json = dict[str, Any]


def webhook_routes(text: str) -> dict[str, Json]:
    """Return mutating and validating webhooks by name, without those of Kueue's kinds."""
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    configuration: Configuration = load_configuration(head + text).configuration
    endpoint = WebhookEndpoint(namespace="kueue-system", service="kueue-webhook-service")
    pair = webhook_configurations(configuration, served_routes(configuration), endpoint)
    return {
        webhook["name"]: webhook
        for each in pair
        for webhook in each["webhooks"]
        if webhook["name"].endswith("volcano.sh")
    }


# Copied from Volcano's manifests, except for the last two, which are ours.
PATHS = """
mutatepodgroup.volcano.sh /podgroups/mutate
validatepodgroup.volcano.sh /podgroups/validate
mutatequeue.volcano.sh /queues/mutate
validatequeue.volcano.sh /queues/validate
mutatejob.volcano.sh /jobs/mutate
validatejob.volcano.sh /jobs/validate
validatehypernode.volcano.sh /hypernodes/validate
podgroupminresources.volcano.sh /podgroups/min-resources
podminresources.volcano.sh /pods/min-resources
"""


def test_no_webhooks_unless_configured() -> None:
    assert webhook_routes("webhook: {}") == {}


def test_names_and_paths() -> None:
    webhooks = webhook_routes("podGroupWebhooks: {}")
    found = {f"{name} {webhook['clientConfig']['service']['path']}" for name, webhook in webhooks.items()}
    assert found == set(PATHS.strip().splitlines())


def test_webhooks_fail_open_by_default() -> None:
    for webhook in webhook_routes("podGroupWebhooks: {}").values():
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == (
            "Ignore",
            5,
            "None",
        )
    for webhook in webhook_routes("podGroupWebhooks: {failurePolicy: Fail}").values():
        assert webhook["failurePolicy"] == "Fail"


def test_pods_of_kube_system_and_of_the_webhook_server_are_exempt() -> None:
    selector = webhook_routes("podGroupWebhooks: {failurePolicy: Fail}")["podminresources.volcano.sh"][
        "namespaceSelector"
    ]
    (expression,) = selector["matchExpressions"]
    assert expression["values"] == ["kube-system", "kueue-system"]


def test_pods_are_selected_only_for_a_rule_that_needs_it() -> None:
    assert "podminresources.volcano.sh" not in webhook_routes("podGroupWebhooks: {minResources: 'off'}")
    assert "podgroupminresources.volcano.sh" not in webhook_routes("podGroupWebhooks: {minResources: 'off'}")
    rejecting = webhook_routes("podGroupWebhooks: {minResources: 'off', rejectPodsOfPendingGroups: true}")
    assert "podminresources.volcano.sh" in rejecting


def test_the_gating_webhook_fails_open() -> None:
    webhooks = webhook_routes("podGroupWebhooks: {gatePodsOfPendingGroups: true, failurePolicy: Fail}")
    webhook = webhooks["mutatepod.volcano.sh"]
    assert webhook["clientConfig"]["service"]["path"] == "/pods/mutate"
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["rules"][0]["operations"] == ["CREATE"]  # a gate can only be added at creation
    assert webhook["namespaceSelector"] == webhooks["podminresources.volcano.sh"]["namespaceSelector"]
    (condition,) = webhook["matchConditions"]
    assert "'scheduling.k8s.io/group-name' in object.metadata.annotations" in condition["expression"]


def test_deletions_of_queues_are_selected() -> None:
    (rule,) = webhook_routes("podGroupWebhooks: {}")["validatequeue.volcano.sh"]["rules"]
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
