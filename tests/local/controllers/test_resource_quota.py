"""Usage of a namespace by limited name."""

import asyncio

import pytest

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import Pod, ResourceQuotaSpec
from quorate.api.meta import Key
from quorate.kube.errors import Forbidden
from quorate.kube.resources import CONFIG_MAPS, RESOURCE_QUOTAS
from quorate.kube.resources import PODS as ALL_PODS
from quorate.local.resource_quota import (
    counted_by,
    limited_usage,
    object_amounts,
    object_usage,
    pod_usage,
)
from quorate.local.server.registry.validation.quota import SCOPES
from tests.local.controllers.running_cluster import local_cluster


def a_pod(phase: str = "Running", **metadata: object) -> Pod:
    amounts = {"requests": {"cpu": "500m", "memory": "1Gi", "gpu": "1"}, "limits": {"cpu": "2"}}
    wire = {
        "metadata": {"name": "p", **metadata},
        "spec": {"containers": [{"name": "main", "resources": amounts}]},
        "status": {"phase": phase},
    }
    return codec.decode(Pod, codec.encode(wire))


PODS = [a_pod(), a_pod("Pending"), a_pod("Succeeded")]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("pods", "2", id="unfinished pods"),
        pytest.param("cpu", "1", id="plain names mean requests"),
        pytest.param("requests.memory", "2Gi", id="requests"),
        pytest.param("requests.gpu", "2", id="requests of an extended resource"),
        pytest.param("limits.cpu", "4", id="limits"),
        pytest.param("limits.memory", "0", id="no limit"),
        pytest.param("hugepages-2Mi", "0", id="a size of huge pages"),
        pytest.param("configmaps", "7", id="legacy object counts"),
        pytest.param("count/jobs.batch", "3", id="objects of any kind"),
        pytest.param("count/secrets", "0", id="no objects"),
        pytest.param("count/pods", "3", id="pods as objects, the finished ones too"),
    ],
)
def test_usage(name: str, want: str) -> None:
    objects = [object_usage("configmaps", 7), object_usage("jobs.batch", 3)]
    used = limited_usage([name], [*map(pod_usage, PODS), *objects])
    assert {limited: str(amount) for limited, amount in used.items()} == {name: want}


@pytest.mark.parametrize(("now", "want"), [(159.0, "1"), (160.0, "0")])
def test_a_pod_that_is_stuck_terminating_is_released(now: float, want: str) -> None:
    pod = a_pod(deletionTimestamp="1970-01-01T00:02:10Z", deletionGracePeriodSeconds=30)
    used = limited_usage(["pods", "count/pods"], [pod_usage(pod, now)])
    assert {limited: str(amount) for limited, amount in used.items()} == {"pods": want, "count/pods": "1"}


@pytest.mark.parametrize("name", ["services.other", "limits.gpu", "gpu"])
def test_names_that_no_object_uses_are_omitted(name: str) -> None:
    assert limited_usage([name], map(pod_usage, PODS)) == {}


IGNORED = "DuringSchedulingIgnoredDuringExecution"
MAIN = {"name": "main", "image": "i"}
PORTS = [{"port": 80, "nodePort": 30000}, {"port": 81}]
DEVICES = ".deviceclass.resource.k8s.io/devices"
CLASS = "gold.storageclass.storage.k8s.io/"


@pytest.mark.parametrize(
    ("resource", "spec", "want"),
    [
        ("services", {"type": "ClusterIP", "ports": PORTS}, {}),
        ("services", {"type": "NodePort", "ports": PORTS}, {"services.nodeports": "2"}),
        (
            "services",
            {"type": "LoadBalancer", "ports": PORTS},
            {"services.nodeports": "2", "services.loadbalancers": "1"},
        ),
        (
            "services",
            {"type": "LoadBalancer", "ports": PORTS, "allocateLoadBalancerNodePorts": False},
            {"services.nodeports": "1", "services.loadbalancers": "1"},
        ),
        (
            "persistentvolumeclaims",
            {"storageClassName": "gold", "resources": {"requests": {"storage": "2Gi"}}},
            {
                "requests.storage": "2Gi",
                f"{CLASS}requests.storage": "2Gi",
                f"{CLASS}persistentvolumeclaims": "1",
            },
        ),
        (
            "persistentvolumeclaims",
            {"resources": {"requests": {"storage": "1500m"}}},
            {"requests.storage": "2"},
        ),
        (
            "persistentvolumeclaims",
            {"resources": {"requests": {"storage": "2Gi"}}},
            {"requests.storage": "2Gi"},
        ),
        (
            "resourceclaims.resource.k8s.io",
            {
                "devices": {
                    "requests": [
                        {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 2}},
                        {"name": "b", "exactly": {"deviceClassName": "nic", "allocationMode": "All"}},
                        {
                            "name": "c",
                            "firstAvailable": [
                                {"name": "one", "deviceClassName": "gpu", "count": 1},
                                {"name": "four", "deviceClassName": "gpu", "count": 4},
                                {"name": "other", "deviceClassName": "fpga", "count": 3},
                            ],
                        },
                    ]
                }
            },
            {f"gpu{DEVICES}": "6", f"nic{DEVICES}": "32", f"fpga{DEVICES}": "3"},
        ),
    ],
)
def test_services_and_claims_use_more_than_their_count(
    resource: str, spec: Json, want: dict[str, str]
) -> None:
    amounts = object_amounts(resource, {"spec": spec})
    names = ["services.nodeports", "services.loadbalancers", "requests.storage", *amounts]
    used = limited_usage(names, [amounts])
    assert {name: str(amount) for name, amount in used.items() if amount} == want


def test_the_class_of_an_annotation_and_an_allocated_size_are_charged() -> None:
    claim = {
        "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "silver"}},
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"allocatedResources": {"storage": "2Gi"}},
    }
    amounts = object_amounts("persistentvolumeclaims", claim)
    assert str(amounts["silver.storageclass.storage.k8s.io/requests.storage"]) == "2Gi"


OVERHEAD = {"overhead": {"cpu": "1"}}
OTHER_NAMESPACE = {"labelSelector": {}, "topologyKey": "zone", "namespaces": ["other"]}


@pytest.mark.parametrize(
    ("resource", "obj", "want"),
    [
        pytest.param("pods", {"spec": {}}, {"BestEffort", "NotTerminating"}, id="a pod"),
        pytest.param("pods", {"spec": OVERHEAD}, {"BestEffort", "NotTerminating"}, id="overhead"),
        pytest.param(
            "pods",
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}], "activeDeadlineSeconds": 9}},
            {"NotBestEffort", "Terminating"},
            id="a limit and a deadline",
        ),
        pytest.param(
            "pods",
            {
                "spec": {
                    "priorityClassName": "high",
                    "affinity": {"podAffinity": {f"required{IGNORED}": [OTHER_NAMESPACE]}},
                }
            },
            {"BestEffort", "NotTerminating", "PriorityClass", "CrossNamespacePodAffinity"},
            id="a class and other namespaces",
        ),
        pytest.param("persistentvolumeclaims", {"spec": {}}, set(), id="a claim"),
        pytest.param(
            "persistentvolumeclaims",
            {"spec": {"volumeAttributesClassName": "gold"}},
            {"VolumeAttributesClass"},
            id="the class of a claim",
        ),
        pytest.param(
            "persistentvolumeclaims",
            {"spec": {}, "status": {"currentVolumeAttributesClassName": "gold"}},
            {"VolumeAttributesClass"},
            id="the class that a claim still has",
        ),
        pytest.param("services", {"spec": {}}, set(), id="a service"),
    ],
)
def test_scopes_select_objects(resource: str, obj: Json, want: set[str]) -> None:
    quotas = {scope: codec.convert(ResourceQuotaSpec, {"scopes": [scope]}) for scope in SCOPES}
    counted = {
        scope for scope, quota in quotas.items() if counted_by(quota, resource, {"metadata": {}} | obj)
    }
    assert counted == want


@pytest.mark.slow
def test_an_object_that_one_quota_refuses_is_charged_to_none() -> None:
    async def story() -> None:
        async with local_cluster() as cluster:
            for name, hard in (("a", {"configmaps": "9"}), ("b", {"configmaps": "0"})):
                quota = {"metadata": {"name": name}, "spec": {"hard": hard}}
                await cluster.client.create(RESOURCE_QUOTAS, quota, "default")

            async def used(name: str) -> str:
                status = (await cluster.client.get(RESOURCE_QUOTAS, Key("default", name))).status
                return str(status.used.get("configmaps"))

            async def are_enforced() -> bool:
                return [await used("a"), await used("b")] == ["0", "0"]

            await cluster.until("the quotas are enforced", are_enforced)
            with pytest.raises(Forbidden, match="exceeded quota: b"):
                await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "default")
            assert await used("a") == "0"

    asyncio.run(story())


@pytest.mark.slow
def test_limits_in_a_status_that_are_not_those_of_the_spec_are_restored() -> None:
    async def story() -> None:
        async with local_cluster() as cluster:
            key, hard = Key("default", "q"), {"pods": "2"}
            quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
            await cluster.client.create(RESOURCE_QUOTAS, quota, "default")
            for changed in ({}, {"status": {"hard": {"pods": "7"}}}):
                if changed:
                    await cluster.client.patch(RESOURCE_QUOTAS, key, changed, subresource="status")

                async def is_restored() -> bool:
                    status = (await cluster.client.get(RESOURCE_QUOTAS, key)).status
                    return {name: str(amount) for name, amount in status.hard.items()} == hard

                await cluster.until("the limits are those of the spec", is_restored)

    asyncio.run(story())


@pytest.mark.slow
def test_a_quota_for_affinity_across_namespaces_counts_and_limits_such_pods() -> None:
    selector: Json = {"labelSelector": {}, "topologyKey": "zone"}
    required, preferred = f"required{IGNORED}", f"preferred{IGNORED}"
    affinities: dict[str, Json] = {
        "own-namespace": {"podAffinity": {required: [selector]}},
        "named": {"podAffinity": {required: [selector | {"namespaces": ["other"]}]}},
        "selected": {
            "podAntiAffinity": {
                preferred: [{"weight": 1, "podAffinityTerm": selector | {"namespaceSelector": {}}}]
            }
        },
        "one-too-many": {"podAntiAffinity": {required: [selector | {"namespaces": ["other"]}]}},
    }

    async def story() -> None:
        async with local_cluster() as cluster:
            key = Key("default", "q")
            spec = {"hard": {"pods": "2"}, "scopes": ["CrossNamespacePodAffinity"]}
            await cluster.client.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": spec}, "default")

            async def used() -> str:
                return str((await cluster.client.get(RESOURCE_QUOTAS, key)).status.used.get("pods"))

            async def is_used(amount: str) -> bool:
                return await used() == amount

            await cluster.until("the quota is enforced", lambda: is_used("0"))
            for name, affinity in affinities.items():
                pod = {"spec": {"schedulerName": "none", "affinity": affinity, "containers": [MAIN]}}
                pod["metadata"] = {"name": name}
                if name == "one-too-many":
                    with pytest.raises(Forbidden, match="exceeded quota: q"):
                        await cluster.client.create(ALL_PODS, pod, "default")
                else:
                    await cluster.client.create(ALL_PODS, pod, "default")
            assert await used() == "2"
            await cluster.client.delete(ALL_PODS, Key("default", "named"))
            await cluster.until("the deleted pod is not counted", lambda: is_used("1"))

    asyncio.run(story())
