"""EndpointSlices and Endpoints of services."""

import asyncio
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.meta import Key
from quorate.kube.resources import untyped
from quorate.local.controllers.services import (
    MAX_ENDPOINTS,
    Service,
    desired_endpoints,
    desired_slices,
    endpoints_by_ports,
    selects,
)
from quorate.local.nodes import NodePool
from quorate.local.nodes.pod_types import Pod
from tests.local.controllers.running_cluster import PODS, LocalCluster, local_cluster

SERVICES = untyped("", "v1", "services", "Service", True)
SLICES = untyped("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
ENDPOINTS = untyped("", "v1", "endpoints", "Endpoints", True)


def a_service(**spec: Any) -> Service:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}], **spec}
    return codec.convert(Service, {"metadata": {"name": "web", "namespace": "team"}, "spec": spec})


def a_pod(name: str, address: str = "10.0.0.1", ready: bool = True, gone: bool = False, **spec: Any) -> Pod:
    metadata = {"name": name, "namespace": "team", "uid": name}
    if gone:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Running", "podIP": address, "conditions": conditions}
    ports = [{"ports": [{"name": "http", "containerPort": 8080}]}]
    return codec.convert(Pod, {"metadata": metadata, "spec": {"containers": ports, **spec}, "status": status})


@pytest.mark.parametrize(
    ("spec", "pod", "expected"),
    [
        pytest.param({}, a_pod("a"), (True, True, False), id="ready"),
        pytest.param({}, a_pod("a", ready=False), (False, False, False), id="not ready"),
        pytest.param({}, a_pod("a", gone=True), (False, True, True), id="terminating"),
        pytest.param(
            {"publishNotReadyAddresses": True}, a_pod("a", ready=False), (True, False, False), id="published"
        ),
    ],
)
def test_conditions_of_an_endpoint(spec: dict[str, Any], pod: Pod, expected: tuple[bool, ...]) -> None:
    [(ports, [endpoint])] = endpoints_by_ports(a_service(**spec), [pod]).items()
    conditions = endpoint.conditions
    assert (conditions.ready, conditions.serving, conditions.terminating) == expected
    assert [port.port for port in ports] == [8080]


def test_pods_without_address_or_finished_are_no_endpoints() -> None:
    finished = codec.convert(
        Pod, {"metadata": {"name": "f"}, "status": {"podIP": "10.0.0.2", "phase": "Failed"}}
    )
    assert endpoints_by_ports(a_service(), [a_pod("a", address=""), finished]) == {}


def test_only_a_pod_of_the_subdomain_has_a_name() -> None:
    pods = [
        a_pod("a", hostname="a", subdomain="web"),
        a_pod("b", hostname="b", subdomain="other"),
        a_pod("c", subdomain="web"),
    ]
    [endpoints] = endpoints_by_ports(a_service(), pods).values()
    assert [endpoint.hostname for endpoint in endpoints] == ["a", "", ""]


def test_a_slice_has_at_most_100_endpoints_and_endpoints_have_all() -> None:
    service, pods = a_service(), [a_pod(f"p{number:03}") for number in range(MAX_ENDPOINTS + 1)]
    grouped = endpoints_by_ports(service, pods)
    slices = desired_slices(service, grouped)
    assert {name: len(one["endpoints"]) for name, one in slices.items()} == {"web-0": 100, "web-1": 1}
    [subset] = desired_endpoints(service, grouped)["subsets"]
    assert len(subset["addresses"]) == 101


def test_not_ready_pods_are_listed_apart_and_terminating_pods_not_at_all() -> None:
    service = a_service()
    grouped = endpoints_by_ports(service, [a_pod("a", ready=False), a_pod("b", gone=True), a_pod("c")])
    [subset] = desired_endpoints(service, grouped)["subsets"]
    names = {
        field: [one["targetRef"]["name"] for one in subset[field]] for field in subset if field != "ports"
    }
    assert names == {"addresses": ["c"], "notReadyAddresses": ["a"]}


def test_a_service_selects_by_all_its_labels() -> None:
    service = a_service(selector={"app": "web", "tier": "front"})
    assert selects(service, {"app": "web", "tier": "front", "more": "x"})
    assert not selects(service, {"app": "web"})


@pytest.mark.slow
def test_endpoints_that_a_user_has_written_stay() -> None:
    written = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 9443}]}]

    async def story(local: LocalCluster) -> None:
        await local.client.create(ENDPOINTS, {"metadata": {"name": "web"}, "subsets": written}, "default")
        spec = {"selector": {"app": "web"}, "ports": [{"port": 443}]}
        await local.client.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, "default")
        await local.client.create(SERVICES, {"metadata": {"name": "later"}, "spec": spec}, "default")

        async def later() -> bool:
            return not await local.gone(ENDPOINTS, "later")

        await local.until("the later service has Endpoints", later)
        found = await local.client.get(ENDPOINTS, Key("default", "web"))
        assert found["subsets"][0]["addresses"] == [{"ip": "192.0.2.1"}]

    async def run() -> None:
        async with local_cluster() as local:
            await story(local)

    asyncio.run(run())


@pytest.mark.slow
def test_a_service_has_the_addresses_of_its_ready_pods_until_it_is_deleted() -> None:
    async def story(local: LocalCluster) -> None:
        spec = {"clusterIP": "None", "selector": {"batch.kubernetes.io/job-name": "j"}}
        await local.client.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, "default")
        await local.run_job("j", pods=2, script={"duration": "forever"})

        async def ready() -> list[str] | None:
            slices = (await local.client.list(SLICES, "default")).items
            ready = [
                address
                for one in slices
                for endpoint in one["endpoints"] or ()
                if endpoint["conditions"]["ready"]
                for address in endpoint["addresses"]
            ]
            return ready if len(ready) == 2 else None

        addresses = await local.until("both pods are endpoints", ready)
        assert sorted(addresses) == sorted(pod["status"]["podIP"] for pod in await local.pods("j"))

        async def subsets() -> list[str] | None:
            subsets = (await local.client.get(ENDPOINTS, Key("default", "web"))).get("subsets", ())
            listed = [one["ip"] for subset in subsets for one in subset.get("addresses", ())]
            return listed if len(listed) == 2 else None

        assert sorted(await local.until("Endpoints follow", subsets)) == sorted(addresses)
        await local.client.delete(PODS, Key("default", (await local.pods("j"))[0]["metadata"]["name"]))
        await local.client.delete(SERVICES, Key("default", "web"))

        async def gone() -> bool:
            return not (await local.client.list(SLICES, "default")).items

        await local.until("the slices are deleted with the service", gone)
        await local.until("the Endpoints are", lambda: local.gone(ENDPOINTS, "web"))

    async def run() -> None:
        async with local_cluster(NodePool(count=2)) as local:
            await story(local)

    asyncio.run(run())
