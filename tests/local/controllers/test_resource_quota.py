"""Usage of a namespace by limited name."""

import asyncio

import pytest

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import Pod, ResourceQuotaSpec
from quorate.api.meta import Key
from quorate.kube.errors import Forbidden
from quorate.kube.resources import PODS as ALL_PODS
from quorate.kube.resources import RESOURCE_QUOTAS
from quorate.local.resource_quota import matches_scopes, object_amounts, quota_usage
from tests.local.controllers.running_cluster import local_cluster


def a_pod(phase: str = "Running") -> Pod:
    amounts = {"requests": {"cpu": "500m", "memory": "1Gi", "gpu": "1"}, "limits": {"cpu": "2"}}
    wire = {
        "metadata": {"name": "p"},
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
    ],
)
def test_usage(name: str, want: str) -> None:
    used = quota_usage([name], PODS, {"configmaps": 7, "jobs.batch": 3})
    assert {limited: str(amount) for limited, amount in used.items()} == {name: want}


def test_unknown_names_are_omitted() -> None:
    assert quota_usage(["services.other"], PODS, {}) == {}


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
    used = quota_usage(names, [], {resource: 1}, amounts)
    assert {name: str(amount) for name, amount in used.items() if amount} == want


def a_quota(**spec: object) -> ResourceQuotaSpec:
    return codec.convert(ResourceQuotaSpec, spec)


def selecting(scope: str, operator: str, *values: str) -> ResourceQuotaSpec:
    requirement = {"scopeName": scope, "operator": operator, "values": list(values)}
    return a_quota(scopeSelector={"matchExpressions": [requirement]})


def scoped_pod(cpu: str = "", **spec: object) -> Pod:
    container = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    return codec.convert(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}})


@pytest.mark.parametrize(
    ("spec", "pod", "want"),
    [
        pytest.param(a_quota(), scoped_pod(), True, id="no scopes"),
        pytest.param(a_quota(scopes=["BestEffort"]), scoped_pod(), True, id="best effort"),
        pytest.param(
            a_quota(scopes=["BestEffort"]),
            scoped_pod(cpu="1"),
            False,
            id="a pod with requests is not best effort",
        ),
        pytest.param(
            a_quota(scopes=["NotBestEffort"]), scoped_pod(cpu="1"), True, id="and is not best effort by scope"
        ),
        pytest.param(
            a_quota(scopes=["Terminating"]), scoped_pod(activeDeadlineSeconds=0), True, id="a deadline"
        ),
        pytest.param(a_quota(scopes=["NotTerminating"]), scoped_pod(), True, id="no deadline"),
        pytest.param(
            a_quota(scopes=["NotTerminating", "BestEffort"]),
            scoped_pod(cpu="1"),
            False,
            id="all scopes must match",
        ),
        pytest.param(
            selecting("PriorityClass", "In", "high"),
            scoped_pod(priorityClassName="high"),
            True,
            id="a priority class",
        ),
        pytest.param(selecting("PriorityClass", "In", "high"), scoped_pod(), False, id="another class"),
        pytest.param(selecting("PriorityClass", "Exists"), scoped_pod(), False, id="any class"),
        pytest.param(selecting("PriorityClass", "DoesNotExist"), scoped_pod(), True, id="no class"),
    ],
)
def test_scopes_select_pods(spec: ResourceQuotaSpec, pod: Pod, want: bool) -> None:
    assert matches_scopes(spec, pod) is want


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
