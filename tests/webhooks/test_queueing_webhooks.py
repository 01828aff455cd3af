"""The webhooks of queueing objects: finalizers, defaults and all findings."""

import asyncio
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration, default_configuration
from quorate.api.configuration.feature_gates import Gates, WebhookGates
from quorate.webhooks.queueing_webhooks import queueing_webhooks
from tests.webhooks.admission_requests import a_request, patched, refusals

Json = dict[str, Any]
DEFAULTS = default_configuration()
WHOLE = msgspec.structs.replace(DEFAULTS, gates=Gates(partial_admission=False))
HELD = "kueue.x-k8s.io/resource-in-use"


def an_object(kind: str, spec: Any = None, **metadata: Any) -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": "x", **metadata},
        "spec": spec or {},
    }


def mutated(document: Json, configuration: Configuration = DEFAULTS) -> Json:
    webhook = queueing_webhooks(configuration)[document["kind"]]
    return patched(document, asyncio.run(webhook.mutate(a_request(document))))


def findings_of(new: Json, old: Json | None = None, gates: WebhookGates | None = None) -> list[str]:
    configuration = msgspec.structs.replace(DEFAULTS, webhook_gates=gates or DEFAULTS.webhook_gates)
    webhook = queueing_webhooks(configuration)[new["kind"]]
    return refusals(asyncio.run(webhook.validate(a_request(new, old))))


@pytest.mark.parametrize("kind", ["ClusterQueue", "ResourceFlavor"])
def test_objects_that_others_refer_to_get_a_finalizer(kind: str) -> None:
    assert mutated(an_object(kind))["metadata"] == {"name": "x", "finalizers": [HELD]}
    other = an_object(kind, finalizers=["a/b"])
    assert mutated(other)["metadata"]["finalizers"] == ["a/b", HELD]
    held = an_object(kind, finalizers=[HELD])
    assert mutated(held) == held


def test_without_partial_admission_min_count_is_removed() -> None:
    pod_sets = [{"name": "a", "count": 3, "minCount": 1}, {"name": "b", "count": 2}]
    workload = an_object("Workload", {"podSets": pod_sets, "queueName": "q"})
    assert mutated(workload) == workload
    assert mutated(workload, WHOLE)["spec"] == {
        "podSets": [{"name": "a", "count": 3}, {"name": "b", "count": 2}],
        "queueName": "q",
    }


@pytest.mark.parametrize("spec", ["x", {"podSets": 3}, {"podSets": [None]}, {"resourceGroups": {}}])
@pytest.mark.parametrize("kind", ["Workload", "ClusterQueue"])
def test_a_malformed_object_is_left_to_its_schema(kind: str, spec: Any) -> None:
    assert mutated(an_object(kind, spec), WHOLE)["spec"] == spec


def with_quota(**quota: Any) -> Json:
    flavor = {"name": "f", "resources": [{"name": "cpu", **quota}]}
    group = {"coveredResources": ["cpu"], "flavors": [flavor]}
    return an_object("ClusterQueue", {"resourceGroups": [group]})


QUOTA = "spec.resourceGroups[0].flavors[0].resources[0]"


def test_a_queue_is_refused_with_all_findings() -> None:
    assert findings_of(with_quota(nominalQuota=-1, lendingLimit=1)) == [
        f"{QUOTA}.nominalQuota: '-1' is negative, must be at least 0",
        f"{QUOTA}.lendingLimit: '1' needs spec.cohortName (set that or leave this out)",
        f"{QUOTA}.lendingLimit: '1' is more than nominalQuota, at most -1",
    ]


def test_an_exponent_beyond_64_bits_is_refused_and_a_huge_quantity_is_not() -> None:
    assert findings_of(with_quota(nominalQuota="1e9223372036854775808")) == [
        f"{QUOTA}.nominalQuota: '1e9223372036854775808' cannot be read: '1e9223372036854775808' is not a "
        "quantity (write 4, 500m or 16Gi)"
    ]
    assert findings_of(with_quota(nominalQuota="1E400")) == []


@pytest.mark.parametrize("amount", ["1E400", "1E310", "9" * 5000, "1e-400"])
def test_a_workload_with_a_quantity_of_any_size_is_decided(amount: str) -> None:
    resources = {"requests": {"cpu": amount}, "limits": {"memory": amount}}
    containers = [{"name": "main", "resources": resources}]
    template = {"spec": {"containers": containers, "overhead": {"cpu": amount}}}
    workload = an_object("Workload", {"podSets": [{"name": "main", "count": 1, "template": template}]})
    assert findings_of(mutated(workload)) == []
    assert findings_of(workload, workload) == []
    containers[0]["resources"] = {"requests": {"cpu": f"-{amount}"}}
    assert len(findings_of(workload)) == 1


def test_a_finding_that_the_old_queue_had_does_not_refuse_an_update() -> None:
    def queue(*flavors: str, stop: str = "None") -> Json:
        quotas = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": 1}]} for name in flavors]
        return an_object(
            "ClusterQueue",
            {
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
                "admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["gone"]}]},
                "stopPolicy": stop,
            },
        )

    path = "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]"
    lenient = WebhookGates(strict_on_flavors=False)
    assert findings_of(queue("f", stop="Hold"), queue("f")) == [
        f"{path}: 'gone' is not a flavor of this queue (known: f)"
    ]
    assert findings_of(queue("f", stop="Hold"), queue("f"), lenient) == []
    assert findings_of(queue("f", "g"), queue("f"), lenient) == [
        f"{path}: 'gone' is not a flavor of this queue (known: f, g)"
    ]


def test_a_workload_with_reserved_quota_cannot_change_its_pod_sets() -> None:
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "r", "message": ""}
    status = {"conditions": [reserved], "admission": {"clusterQueue": "q"}}
    old = an_object("Workload", {"podSets": [{"name": "main", "count": 1}]}) | {"status": status}
    new = an_object("Workload", {"podSets": [{"name": "main", "count": 2}]}) | {"status": status}
    assert findings_of(new, old) == [
        "spec.podSets[0].count: 2 cannot change while quota is reserved (it was 1)"
    ]


def test_a_negative_number_of_sub_groups_gets_a_warning() -> None:
    pod_sets = [{"name": "a"}, {"name": "b", "topologyRequest": {"subGroupCount": -1}}]
    webhook = queueing_webhooks(DEFAULTS)["Workload"]
    for old in (None, an_object("Workload", {"podSets": pod_sets})):
        request = a_request(an_object("Workload", {"podSets": pod_sets}), old)
        response = asyncio.run(webhook.validate(request))
        assert response.findings == ()
        assert response.warnings == (
            "spec.podSets[1].topologyRequest.subGroupCount: negative value -1 is deprecated and will be "
            "rejected in a future release",
        )
