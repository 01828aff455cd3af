"""The configurations to install ask about as little as will do."""

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
US = "system:serviceaccount:kueue-system:kueue-controller-manager"


def hooks(configuration: Configuration, own_user: str = "") -> tuple[dict[str, Json], dict[str, Json]]:
    """Mutating and validating webhooks by name."""
    pair = webhook_configurations(configuration, served_routes(configuration), SERVICE, own_user)
    mutating, validating = ({hook["name"]: hook for hook in each["webhooks"]} for each in pair)
    return mutating, validating


def test_the_kinds_of_the_configuration_are_asked_about_and_no_others() -> None:
    text = (
        "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, "
        "integrations: {frameworks: [batch/job, kubeflow.org/mpijob]}}"
    )
    mutating, validating = hooks(load_configuration(text).configuration)
    assert sorted(mutating) == [
        "djob.kb.io", "dmpijob.kb.io", "mclusterqueue.kb.io", "mjob.kb.io", "mmpijob.kb.io",
        "mresourceflavor.kb.io", "mworkload.kb.io",
    ]  # fmt: skip
    assert sorted(validating) == [
        "vclusterqueue.kb.io", "vcohort.kb.io", "vjob.kb.io", "vmpijob.kb.io", "vresourceflavor.kb.io",
        "vworkload.kb.io",
    ]  # fmt: skip


def test_a_job_that_names_no_queue_is_never_refused_for_want_of_an_answer() -> None:
    mutating, validating = hooks(DEFAULTS)
    passing = mutating["djob.kb.io"]
    assert (passing["failurePolicy"], passing["timeoutSeconds"]) == ("Ignore", 2)
    for hook in (mutating["mjob.kb.io"], validating["vjob.kb.io"]):
        assert hook["failurePolicy"] == "Fail"
        (condition,) = hook["matchConditions"]
        assert "'kueue.x-k8s.io/queue-name' in object.metadata.labels" in condition["expression"]


def test_the_namespaces_are_those_whose_jobs_are_managed() -> None:
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
        for hook in [hook for each in hooks(configuration) for hook in each.values()]:
            is_job = hook["name"].endswith("job.kb.io")
            assert hook.get("namespaceSelector") == (selector if is_job else None)


def test_where_all_jobs_are_managed_all_are_ours() -> None:
    mutating, _ = hooks(MANAGE_ALL)
    assert "djob.kb.io" not in mutating
    assert "matchConditions" not in mutating["mjob.kb.io"]


@pytest.mark.parametrize(("user", "asked"), [("", True), (US, False)])
def test_what_the_controllers_write_themselves_need_not_come_back_to_them(user: str, asked: bool) -> None:
    _, validating = hooks(DEFAULTS, user)
    hook = validating["vworkload.kb.io"]
    assert hook["rules"][0]["resources"] == ["workloads", "workloads/status"]
    conditions = [each["expression"] for each in hook.get("matchConditions", ())]
    assert conditions == ([] if asked else [f"request.userInfo.username != '{US}'"])


def test_a_server_without_services_is_reached_by_its_url() -> None:
    endpoint = WebhookEndpoint(url="https://127.0.0.1:9443", ca_bundle="Zm9v")
    mutating, _ = webhook_configurations(DEFAULTS, served_routes(DEFAULTS), endpoint)
    assert {hook["clientConfig"]["caBundle"] for hook in mutating["webhooks"]} == {"Zm9v"}
    assert "https://127.0.0.1:9443/mutate-batch-v1-job" in [
        hook["clientConfig"]["url"] for hook in mutating["webhooks"]
    ]
