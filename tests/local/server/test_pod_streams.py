"""log, exec and proxy of pods without a process of this machine."""

import asyncio
import gzip
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from quorate.local.server.handlers.pod_streams import proxied_path
from tests.local.api_client import DEADLINE_S, ApiClient, Json, connect, run_with_server
from tests.local.clusters import api_server
from tests.local.server.test_webhooks import a_webhook, register
from tests.local.webhook_server import webhook_server

PODS = "/api/v1/namespaces/default/pods"


async def create_pod(client: ApiClient, runtime: str = "", containers: int = 1) -> None:
    spec = {"containers": [{"name": f"c{number}", "image": "x"} for number in range(containers)]}
    if runtime:
        info = {"containerRuntimeVersion": runtime}
        await client.create("/api/v1/nodes", {"metadata": {"name": "node-1"}, "status": {"nodeInfo": info}})
        spec |= {"nodeName": "node-1"}  # type: ignore[dict-item]
    await client.create(PODS, {"metadata": {"name": "web"}, "spec": spec})


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "attach"), ("POST", "exec?command=true"), ("POST", "portforward")]
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


LINE = (
    "container c0 of pod web ran no program and has no output: "
    "node node-1 is simulated (quorate local up --runtime process runs pods as processes)\n"
)
STARTED = "2026-11-28T16:00:00Z"
RUNNING = {"running": {"startedAt": STARTED}}
ENDED = {"terminated": {"startedAt": STARTED, "finishedAt": STARTED, "exitCode": 0}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}


async def set_state(client: ApiClient, state: Json, **fields: Any) -> None:
    status = {"name": "c0", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    changed = {"status": {"phase": "Running", "containerStatuses": [status | fields]}}
    code, answer = await client.send("PATCH", f"{PODS}/web/status", changed)
    assert code == 200, answer


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", LINE, id="one line"),
        pytest.param("timestamps=true", f"{STARTED[:-1]}.000000000Z {LINE}", id="with its time"),
        pytest.param("tailLines=1", LINE, id="the last line"),
        pytest.param("tailLines=0", "", id="no line"),
        pytest.param("limitBytes=9", LINE[:9], id="its first bytes"),
        pytest.param("sinceTime=2026-11-28T16:00:01Z", "", id="nothing since later"),
        pytest.param("stream=Stderr", "", id="nothing in stderr"),
        pytest.param("container=c0", LINE, id="of a named container"),
    ],
)
@pytest.mark.parametrize("state", [RUNNING, ENDED], ids=["running", "ended"])
def test_the_log_of_a_simulated_pod_says_that_there_is_no_output(
    state: Json, query: str, expected: str
) -> None:
    async def scenario(client: ApiClient) -> None:
        await create_pod(client, "simulated://0")
        await set_state(client, state)
        assert await client.send("GET", f"{PODS}/web/log?{query}") == (200, expected)

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("state", "query", "message"),
    [
        (None, "", 'container "c0" in pod "web" is waiting to start: ContainerCreating'),
        (
            {"waiting": {"reason": "PodInitializing"}}, "",
            'container "c0" in pod "web" is waiting to start: PodInitializing',
        ),
        (RUNNING, "previous=true", 'previous terminated container "c0" in pod "web" not found'),
        (RUNNING, "container=c1", "container c1 is not valid for pod web"),
        (RUNNING, "tailLines=-1", "tailLines: must be greater than or equal to 0"),
    ],
)  # fmt: skip
def test_a_log_of_a_simulated_pod_that_there_is_not(state: Json | None, query: str, message: str) -> None:
    async def scenario(client: ApiClient) -> None:
        await create_pod(client, "simulated://0")
        if state is not None:
            await set_state(client, state)
        code, status = await client.send("GET", f"{PODS}/web/log?{query}")
        assert (code, status["message"]) == (400, message)

    run_with_server(scenario)


def test_a_simulated_container_that_restarts_has_a_previous_log() -> None:
    async def scenario(client: ApiClient) -> None:
        await create_pod(client, "simulated://0")
        await set_state(client, BACK_OFF, lastState=ENDED)
        assert await client.send("GET", f"{PODS}/web/log?previous=true&follow=true") == (200, LINE)
        assert await client.send("GET", f"{PODS}/web/log?follow=true") == (200, LINE)

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("protocols", "message"),
    [
        ((), LINE.encode()),
        (("binary.k8s.io",), LINE.encode()),
        (("base64.binary.k8s.io",), b64encode(LINE.encode()).decode()),
    ],
)
def test_a_log_is_also_messages_of_a_websocket(protocols: tuple[str, ...], message: str | bytes) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(DEADLINE_S), api_server() as server, connect(server) as client:
            await create_pod(client, "simulated://0")
            await set_state(client, ENDED)
            headers = {"Authorization": f"Bearer {server.token}"}
            async with (
                aiohttp.ClientSession(server.url, headers=headers) as session,
                session.ws_connect(f"{PODS}/web/log?follow=true", protocols=protocols) as websocket,
            ):
                assert [received.data async for received in websocket] == [message]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_deleted", [False, True], ids=["the container ends", "the pod is deleted"])
def test_following_the_log_of_a_simulated_pod_ends_with_it(is_deleted: bool) -> None:
    async def scenario(client: ApiClient) -> None:
        await create_pod(client, "simulated://0")
        await set_state(client, RUNNING)
        async with asyncio.timeout(DEADLINE_S), client.stream(f"{PODS}/web/log?follow=true") as log:
            assert (await log.readline()).decode() == LINE
            await set_state(client, RUNNING, ready=True)
            rest = asyncio.ensure_future(log.read())
            assert not (await asyncio.wait([rest], timeout=0.2))[0], "the container still runs"
            if is_deleted:
                await client.send("DELETE", f"{PODS}/web?gracePeriodSeconds=0")
            else:
                await set_state(client, ENDED)
            assert await rest == b""

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


def test_a_body_without_a_length_is_forwarded_decoded_and_whole(tmp_path: Path) -> None:
    content = b"content " * 100
    received = b""

    async def kubelet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        received = await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(len(content))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async def chunks() -> AsyncIterator[bytes]:
        yield gzip.compress(content)

    async def run() -> None:
        path = tmp_path / "kubelet.sock"
        async with (
            await asyncio.start_unix_server(kubelet, path),
            api_server(kubelet_socket=path) as server,
            connect(server) as client,
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {server.token}"}) as http,
        ):
            await create_pod(client, "bubblewrap://0")
            url = f"{server.url}/api/v1/nodes/node-1/proxy/run"
            async with http.post(url, data=chunks(), headers={"Content-Encoding": "gzip"}) as response:
                assert response.status == 204

    asyncio.run(run())
    head, _, body = received.partition(b"\r\n\r\n")
    assert body == content
    assert f"Content-Length: {len(content)}".encode() in head
    assert b"gzip\r\n" not in head
    assert b"Bearer" not in head


@pytest.mark.parametrize(
    ("request_", "kind", "options"),
    [
        (
            "POST pods/web/attach?stdin=true&container=c0",
            "PodAttachOptions",
            {"stdin": True, "container": "c0"},
        ),
        (
            "GET pods/web/exec?command=a&command=b&tty=true&stdin=false",
            "PodExecOptions",
            {"command": ["a", "b"], "tty": True},
        ),
        ("POST pods/web/portforward?ports=80", "PodPortForwardOptions", {"ports": [80]}),
        ("GET pods/web/proxy/x?y=z", "PodProxyOptions", {"path": "/x"}),
    ],
)
def test_webhooks_admit_connections(request_: str, kind: str, options: Json) -> None:
    def denied(_: Json) -> Json:
        return {"allowed": False, "status": {"message": "not here"}}

    async def scenario(client: ApiClient) -> None:
        await create_pod(client, "simulated://0")
        method, path = request_.split(" ")
        async with webhook_server(denied) as hook_server:
            subresource = path.split("/")[2].partition("?")[0]
            rule = {"resources": [f"pods/{subresource}"], "operations": ["CONNECT"]}
            rules = [rule | {"apiGroups": [""], "apiVersions": ["v1"]}]
            await register(client, "validating", a_webhook(hook_server.url()) | {"rules": rules})
            code, status = await client.send(method, f"/api/v1/namespaces/default/{path}")
        message = 'admission webhook "one.example.com" denied the request: not here'
        assert (code, status["message"]) == (400, message)
        (review,) = hook_server.received
        named = {"group": "", "version": "v1", "kind": kind}
        assert (review["kind"], review["operation"], review["subResource"]) == (named, "CONNECT", subresource)
        assert review["object"] == {"kind": kind, "apiVersion": "v1"} | options
        assert (review["name"], review["options"], review["oldObject"]) == ("web", None, None)

    run_with_server(scenario)


def test_a_simulated_node_says_that_it_has_no_kubelet() -> None:
    async def scenario(client: ApiClient) -> None:
        await create_pod(client, "simulated://0")
        code, status = await client.send("GET", "/api/v1/nodes/node-1/proxy/healthz")
        assert (code, status["message"].partition(":")[0]) == (400, "node node-1 has no kubelet")

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
