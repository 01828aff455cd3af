"""Cluster IPs and node ports of Services, as kube-apiserver allocates and refuses them."""

from typing import Any

import pytest

from tests.local.api_client import ApiClient, Json, run_with_server

SERVICES = "/api/v1/namespaces/default/services"
MERGE = "application/merge-patch+json"


def a_service(name: str, *ports: int, **spec: Any) -> Json:
    numbered = [{"name": f"p{port}", "port": port} for port in ports or (80,)]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": numbered} | spec,
    }


def node_ports(service: Json) -> list[int]:
    return [port.get("nodePort", 0) for port in service["spec"]["ports"]]


def test_a_service_gets_what_its_new_type_needs_and_keeps_what_it_has() -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create(SERVICES, a_service("a"))

        async def patch(**spec: Any) -> Json:
            code, service = await client.send("PATCH", f"{SERVICES}/a", {"spec": spec}, Content_Type=MERGE)
            assert code == 200, service
            patched: Json = service
            return patched

        numbers = node_ports(await patch(type="NodePort"))
        assert 30_000 <= numbers[0] < 32_768
        assert node_ports(await patch(type="LoadBalancer")) == numbers
        two = a_service("a", 81, 80)
        code, replaced = await client.send(
            "PUT", f"{SERVICES}/a", two | {"spec": two["spec"] | {"type": "NodePort"}}
        )
        assert (code, node_ports(replaced)[1]) == (200, numbers[0])
        assert node_ports(replaced)[0] not in (0, *numbers)
        assert node_ports(await patch(type="ClusterIP")) == [0, 0]
        external = await patch(type="ExternalName", externalName="a.b", clusterIP=None, clusterIPs=None)
        assert "clusterIP" not in external["spec"]
        assert "clusterIP" in (await patch(type="ClusterIP", externalName=None))["spec"]

    run_with_server(scenario)


def test_the_protocols_of_a_port_share_a_node_port() -> None:
    async def scenario(client: ApiClient) -> None:
        ports = [
            {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
            {"name": "dns-udp", "port": 53, "protocol": "UDP"},
            {"name": "web", "port": 80},
        ]
        service = await client.create(SERVICES, a_service("a", type="NodePort", ports=ports))
        tcp, udp, web = node_ports(service)
        assert tcp == udp != web

    run_with_server(scenario)


OUT_OF_RANGE = "provided port is not in the valid range. The range of valid ports is 30000-32767"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 31_000}]},
            "spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated",
            id="a port of another service",
        ),
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
            f"spec.ports[0].nodePort: Invalid value: 80: {OUT_OF_RANGE}",
            id="a port out of range",
        ),
        pytest.param(
            {
                "type": "NodePort",
                "ports": [{"port": port, "nodePort": 31_001, "name": f"p{port}"} for port in (80, 81)],
            },
            "spec.ports[1].nodePort: Invalid value: 31001: provided port is already allocated",
            id="a port twice",
        ),
        pytest.param(
            {"clusterIP": "10.96.7.7"},
            'spec.clusterIPs: Invalid value: ["10.96.7.7"]:'
            " failed to allocate IP 10.96.7.7: provided IP is already allocated",
            id="an address of another service",
        ),
        pytest.param(
            {"clusterIP": "1.2.3.4"},
            'spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4:'
            " the provided network does not match the current range",
            id="an address out of range",
        ),
        pytest.param(
            {
                "type": "NodePort",
                "ports": [
                    {"port": 80, "nodePort": 31_001, "name": name, "protocol": name}
                    for name in ("TCP", "UDP")
                ],
            },
            "",
            id="a port for two protocols",
        ),
        pytest.param({"clusterIP": "None"}, "", id="headless"),
    ],
)
def test_a_named_address_or_port_must_be_free(spec: Json, message: str) -> None:
    async def scenario(client: ApiClient) -> None:
        ports = [{"port": 80, "nodePort": 31_000}]
        await client.create(SERVICES, a_service("a", type="NodePort", clusterIP="10.96.7.7", ports=ports))
        lower = {
            **spec,
            "ports": [port | {"name": port.get("name", "p").lower()} for port in spec.get("ports", [])],
        }
        code, answer = await client.send(
            "POST", SERVICES, a_service("b", **(lower if lower["ports"] else spec))
        )
        want = (422, f'Service "b" is invalid: {message}') if message else (201, None)
        assert (code, answer.get("message")) == want

    run_with_server(scenario)
