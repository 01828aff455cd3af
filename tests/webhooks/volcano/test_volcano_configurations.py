"""The webhooks for Volcano's kinds ask about little, and nobody waits for them who need not."""

from typing import Any

from quorate.api.configuration import Configuration, load_configuration
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import webhook_configurations

Json = dict[str, Any]


def webhook_routes(text: str) -> dict[str, Json]:
    """Both kinds of webhooks by name, those of Kueue's kinds left out."""
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    configuration: Configuration = load_configuration(head + text).configuration
    endpoint = WebhookEndpoint(namespace="kueue-system", service="kueue-webhook-service")
    pair = webhook_configurations(configuration, served_routes(configuration), endpoint)
    return {
        hook["name"]: hook
        for each in pair
        for hook in each["webhooks"]
        if hook["name"].endswith("volcano.sh")
    }


# Written from Volcano's manifests, but for the last two, which are ours.
PATHS = """
mutatepodgroup.volcano.sh /podgroups/mutate
validatepodgroup.volcano.sh /podgroups/validate
mutatequeue.volcano.sh /queues/mutate
validatequeue.volcano.sh /queues/validate
mutatejob.volcano.sh /jobs/mutate
validatejob.volcano.sh /jobs/validate
podgroupminresources.volcano.sh /podgroups/min-resources
podminresources.volcano.sh /pods/min-resources
"""


def test_none_unless_they_are_asked_for() -> None:
    assert webhook_routes("webhook: {}") == {}


def test_names_and_paths() -> None:
    made = webhook_routes("podGroupWebhooks: {}")
    found = {f"{name} {hook['clientConfig']['service']['path']}" for name, hook in made.items()}
    assert found == set(PATHS.strip().splitlines())


def test_by_default_nobody_is_refused_for_want_of_an_answer() -> None:
    for hook in webhook_routes("podGroupWebhooks: {}").values():
        assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["sideEffects"]) == ("Ignore", 5, "None")
    for hook in webhook_routes("podGroupWebhooks: {failurePolicy: Fail}").values():
        assert hook["failurePolicy"] == "Fail"


def test_pods_of_the_system_and_of_ourselves_are_not_asked_about() -> None:
    selector = webhook_routes("podGroupWebhooks: {failurePolicy: Fail}")["podminresources.volcano.sh"][
        "namespaceSelector"
    ]
    (expression,) = selector["matchExpressions"]
    assert expression["values"] == ["kube-system", "kueue-system"]


def test_pods_are_asked_about_only_for_a_rule_that_needs_it() -> None:
    assert "podminresources.volcano.sh" not in webhook_routes("podGroupWebhooks: {minResources: 'off'}")
    assert "podgroupminresources.volcano.sh" not in webhook_routes("podGroupWebhooks: {minResources: 'off'}")
    late = webhook_routes("podGroupWebhooks: {minResources: 'off', rejectPodsOfPendingGroups: true}")
    assert "podminresources.volcano.sh" in late


def test_pods_that_come_too_early_are_asked_about_where_they_are_gated_and_never_refused_for_it() -> None:
    made = webhook_routes("podGroupWebhooks: {gatePodsOfPendingGroups: true, failurePolicy: Fail}")
    hook = made["mutatepod.volcano.sh"]
    assert hook["clientConfig"]["service"]["path"] == "/pods/mutate"
    assert hook["failurePolicy"] == "Ignore"
    assert hook["rules"][0]["operations"] == ["CREATE"]  # a pod that exists can get no gate
    assert hook["namespaceSelector"] == made["podminresources.volcano.sh"]["namespaceSelector"]
    (condition,) = hook["matchConditions"]
    assert "'scheduling.k8s.io/group-name' in object.metadata.annotations" in condition["expression"]


def test_queues_are_asked_about_when_they_are_deleted() -> None:
    (rule,) = webhook_routes("podGroupWebhooks: {}")["validatequeue.volcano.sh"]["rules"]
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
