"""The webhook configurations select as few requests as possible."""

from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration, default_configuration, load_configuration
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import webhook_configurations

Json = dict[str, Any]
DEFAULTS = default_configuration()
MANAGE_ALL = msgspec.structs.replace(DEFAULTS, manage_jobs_without_queue_name=True)
SERVICE = WebhookEndpoint(namespace="kueue-system", service="kueue-webhook-service")
OWN_USER = "system:serviceaccount:kueue-system:kueue-controller-manager"


def webhooks_of(configuration: Configuration, own_user: str = "") -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the mutating and the validating webhooks by name."""
    pair = webhook_configurations(configuration, served_routes(configuration), SERVICE, own_user)
    mutating, validating = ({webhook["name"]: webhook for webhook in each["webhooks"]} for each in pair)
    return mutating, validating


def test_only_kinds_of_the_configuration_are_selected() -> None:
    text = (
        "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, "
        "integrations: {frameworks: [batch/job, kubeflow.org/mpijob]}}"
    )
    mutating, validating = webhooks_of(load_configuration(text).configuration)
    assert sorted(mutating) == [
        "djob.kb.io", "dmpijob.kb.io", "mclusterqueue.kb.io", "mjob.kb.io", "mmpijob.kb.io",
        "mresourceflavor.kb.io", "mworkload.kb.io",
    ]  # fmt: skip
    assert sorted(validating) == [
        "vclusterqueue.kb.io", "vcohort.kb.io", "vjob.kb.io", "vmpijob.kb.io", "vresourceflavor.kb.io",
        "vworkload.kb.io",
    ]  # fmt: skip


def test_webhooks_for_jobs_without_a_queue_fail_open() -> None:
    mutating, validating = webhooks_of(DEFAULTS)
    ignoring = mutating["djob.kb.io"]
    assert (ignoring["failurePolicy"], ignoring["timeoutSeconds"]) == ("Ignore", 2)
    for webhook in (mutating["mjob.kb.io"], validating["vjob.kb.io"]):
        assert webhook["failurePolicy"] == "Fail"
        (condition,) = webhook["matchConditions"]
        assert "'kueue.x-k8s.io/queue-name' in object.metadata.labels" in condition["expression"]


def test_the_kinds_of_volcano_have_webhooks_of_their_own() -> None:
    mutating, validating = webhooks_of(DEFAULTS)
    assert {"mvolcanojob.kb.io", "dvolcanojob.kb.io", "mpodgroup.kb.io", "dpodgroup.kb.io"} <= mutating.keys()
    (rule,) = mutating["mvolcanojob.kb.io"]["rules"]
    assert (rule["apiGroups"], rule["resources"]) == (["batch.volcano.sh"], ["jobs"])
    _, status_is_left_out = validating["vpodgroup.kb.io"]["matchConditions"]
    assert "object.spec != oldObject.spec" in status_is_left_out["expression"]
    (no_owner,) = mutating["dpodgroup.kb.io"]["matchConditions"]
    assert "ownerReferences" in no_owner["expression"], "a group of a job is in the queue of the job"


def test_the_namespace_selector_is_that_of_managed_jobs() -> None:
    selector = {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", "kueue-system"],
            }
        ]
    }
    for configuration in (DEFAULTS, MANAGE_ALL):
        for webhook in [webhook for each in webhooks_of(configuration) for webhook in each.values()]:
            is_job = webhook["name"].endswith(("job.kb.io", "podgroup.kb.io"))
            assert webhook.get("namespaceSelector") == (selector if is_job else None)


def test_all_jobs_are_selected_where_all_are_managed() -> None:
    mutating, _ = webhooks_of(MANAGE_ALL)
    assert "djob.kb.io" not in mutating
    assert "matchConditions" not in mutating["mjob.kb.io"]


@pytest.mark.parametrize(("user", "selected"), [("", True), (OWN_USER, False)])
def test_own_writes_of_the_controllers_are_not_selected(user: str, selected: bool) -> None:
    _, validating = webhooks_of(DEFAULTS, user)
    webhook = validating["vworkload.kb.io"]
    assert webhook["rules"][0]["resources"] == ["workloads", "workloads/status"]
    conditions = [each["expression"] for each in webhook.get("matchConditions", ())]
    assert conditions == ([] if selected else [f"request.userInfo.username != '{OWN_USER}'"])


def test_a_server_without_a_service_has_a_url() -> None:
    endpoint = WebhookEndpoint(url="https://127.0.0.1:9443", ca_bundle="Zm9v")
    mutating, _ = webhook_configurations(DEFAULTS, served_routes(DEFAULTS), endpoint)
    assert {webhook["clientConfig"]["caBundle"] for webhook in mutating["webhooks"]} == {"Zm9v"}
    assert "https://127.0.0.1:9443/mutate-batch-v1-job" in [
        webhook["clientConfig"]["url"] for webhook in mutating["webhooks"]
    ]
