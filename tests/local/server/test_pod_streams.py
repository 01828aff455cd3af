"""log, exec and proxy of pods without a process of this machine."""

import pytest

from quorate.local.server.handlers.pod_streams import proxied_path
from tests.local.api_client import ApiClient, run_with_server

PODS = "/api/v1/namespaces/default/pods"


async def create_pod(client: ApiClient, runtime: str = "", containers: int = 1) -> None:
    spec = {"containers": [{"name": f"c{number}", "image": "x"} for number in range(containers)]}
    if runtime:
        info = {"containerRuntimeVersion": runtime}
        await client.create("/api/v1/nodes", {"metadata": {"name": "node-1"}, "status": {"nodeInfo": info}})
        spec |= {"nodeName": "node-1"}  # type: ignore[dict-item]
    await client.create(PODS, {"metadata": {"name": "web"}, "spec": spec})


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "log"), ("POST", "exec?command=true"), ("POST", "portforward")]
)
def test_a_simulated_pod_says_how_pods_run_as_processes(method: str, path: str) -> None:
    async def scenario(client: ApiClient) -> None:
        await create_pod(client, "simulated://0")
        code, status = await client.send(method, f"{PODS}/web/{path}")
        what = path.partition("?")[0]
        assert (code, status["reason"]) == (400, "BadRequest")
        assert status["message"] == (
            f"pod web has no {what}: node node-1 simulates its pods and runs no process for them "
            "(quorate local up --runtime process runs pods as processes)"
        )

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("raw_path", "expected"),
    [
        ("/api/v1/namespaces/proxy/pods/proxy:80/proxy/proxy/x?a=/proxy/", "/proxy/x?a=/proxy/"),
        ("/api/v1/namespaces/team/services/web/proxy", "/"),
        ("/api/v1/namespaces/team/services/web/proxy/", "/"),
        ("/api/v1/nodes/proxy/proxy/healthz", "/healthz"),
        ("/api/v1/namespaces/team/pods/web/proxy/a%2Fb?", "/a%2Fb?"),
    ],
)
def test_the_proxied_path_follows_the_subresource(raw_path: str, expected: str) -> None:
    assert proxied_path(raw_path) == expected


def test_without_a_kubelet_the_answer_says_so() -> None:
    async def scenario(client: ApiClient) -> None:
        await create_pod(client, "bubblewrap://0")
        code, status = await client.send("GET", f"{PODS}/web/log")
        assert (code, status["message"]) == (
            503,
            "the cluster has no kubelet (quorate local up --runtime process)",
        )

    run_with_server(scenario)


def test_an_unbound_pod_has_an_empty_log_and_no_host() -> None:
    async def scenario(client: ApiClient) -> None:
        await create_pod(client)
        assert (await client.send("GET", f"{PODS}/web/log"))[0] == 204
        code, status = await client.send("POST", f"{PODS}/web/exec?command=true")
        assert (code, status["message"]) == (400, "pod web does not have a host assigned")
        assert (await client.send("GET", f"{PODS}/missing/log"))[0] == 404

    run_with_server(scenario)


def test_a_pod_with_two_containers_needs_the_name_of_one() -> None:
    async def scenario(client: ApiClient) -> None:
        await create_pod(client, "simulated://0", containers=2)
        _, status = await client.send("GET", f"{PODS}/web/log")
        assert status["message"] == "a container name must be specified for pod web, choose one of: [c0 c1]"
        _, status = await client.send("GET", f"{PODS}/web/log?container=c2")
        assert status["message"] == "container c2 is not valid for pod web"

    run_with_server(scenario)
