"""Logs, exec, attach, port-forward and proxy of pods that run as processes, through the API server."""

import asyncio
import base64
import json
import os
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from quorate.api.meta import Key
from quorate.kube.resources import untyped
from tests.local.runtime.world import (
    SERVICES,
    World,
    one_container,
    run_story,
    running_world,
    runs_processes,
    state_of,
)

pytestmark = [runs_processes, pytest.mark.slow, pytest.mark.usefixtures("one_cluster")]
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

WEBSOCKETS: Final[Mapping[str, str]] = {}
SPDY: Final = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
DEADLINE_S: Final = 30.0
SERVER: Final = "exec python3 -u -m http.server 8080 --directory /usr/share"


async def kubectl(
    world: World, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] = WEBSOCKETS
) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of kubectl."""
    process = await asyncio.create_subprocess_exec(
        "kubectl", *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"KUBECONFIG": str(world.directory / "kubeconfig"), **environment},
    )  # fmt: skip
    async with asyncio.timeout(DEADLINE_S):
        output, errors = await process.communicate(stdin)
    return process.returncode or 0, output.decode(), errors.decode()


@asynccontextmanager
async def session(world: World) -> AsyncIterator[aiohttp.ClientSession]:
    """Connect as the administrator, without a client library."""
    config = yaml.safe_load((world.directory / "kubeconfig").read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority))
    headers = {"Authorization": f"Bearer {user['token']}"}
    async with aiohttp.ClientSession(cluster["server"], connector=connector, headers=headers) as opened:
        yield opened


def exec_path(pod: str, *command: str, **options: str) -> str:
    query = "&".join([*(f"command={word}" for word in command), *(f"{k}={v}" for k, v in options.items())])
    return f"/api/v1/namespaces/default/pods/{pod}/exec?{query}"


async def messages(websocket: aiohttp.ClientWebSocketResponse) -> list[Any]:
    """Return what arrives until the server closes."""
    async with asyncio.timeout(DEADLINE_S):
        return [message.data async for message in websocket]


def of_channel(received: list[bytes], channel: int) -> bytes:
    return b"".join(message[1:] for message in received if message[0] == channel)


@needs_kubectl
def test_kubectl_reads_logs(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        text = "echo first; echo error >&2; test -e /d/again && { sleep 1; exit 0; }; touch /d/again; exit 3"
        spec = one_container(text, "OnFailure", volumeMounts=[{"name": "d", "mountPath": "/d"}])
        await world.run_pod("again", spec | {"volumes": [{"name": "d", "emptyDir": {}}]})
        await world.until("again", lambda pod: "running" in state_of(pod) and _restarts(pod) == 1)
        following = asyncio.create_task(kubectl(world, "logs", "-f", "again"))
        code, output, _ = await kubectl(world, "logs", "--previous", "again")
        assert (code, sorted(output.split())) == (0, ["error", "first"])
        await world.ended("again")
        assert len((await following)[1].splitlines()) == 2, "following ends with the container"
        assert len((await kubectl(world, "logs", "--tail=1", "again"))[1].splitlines()) == 1
        assert "T" in (await kubectl(world, "logs", "--timestamps", "--since=1h", "again"))[1].split()[0]
        code, _, errors = await kubectl(world, "logs", "again", "-c", "other")
        assert (code, "container other is not valid for pod again" in errors) == (1, True)
        await world.run_pod("once", one_container("exec sleep 60"))
        await world.running("once")
        await world.run_pod("unset", {"containers": [{"name": "main", "image": "i"}]})
        refused = "CreateContainerConfigError"
        await world.until("unset", lambda pod: state_of(pod).get("waiting", {}).get("reason") == refused)
        code, _, errors = await kubectl(world, "logs", "unset")
        assert code == 1
        assert f"is waiting to start: {refused}" in errors
        code, _, errors = await kubectl(world, "logs", "--previous", "once")
        assert 'previous terminated container "main" in pod "once" not found' in errors

    run_story(tmp_path, story)


def _restarts(pod: dict[str, Any]) -> int:
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


@needs_kubectl
@pytest.mark.parametrize("environment", [WEBSOCKETS, SPDY], ids=["websockets", "spdy"])
def test_kubectl_runs_commands_and_forwards_ports(tmp_path: Path, environment: Mapping[str, str]) -> None:
    async def story(world: World) -> None:
        async def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
            return await kubectl(world, *arguments, stdin=stdin, environment=environment)

        await world.run_pod("web", one_container(SERVER))
        await world.running("web")
        code, output, errors = await run("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
        assert (code, output, "err\n" in errors) == (3, "out\n", True)
        large = os.urandom(1 << 20).hex().encode()
        assert (await run("exec", "-i", "web", "--", "cat", stdin=large))[1].encode() == large
        assert (await run("exec", "web", "--", "echo", "x" * 20_000))[1].strip() == "x" * 20_000
        code, output, _ = await run("exec", "-i", "web", "--", "wc", "-c", stdin=b"1234")
        assert (code, output.strip()) == (0, "4"), "the end of the input is passed on"
        (tmp_path / "large").write_bytes(large)
        assert (await run("cp", str(tmp_path / "large"), "web:/tmp/large"))[0] == 0
        assert (await run("cp", "web:/tmp/large", str(tmp_path / "copy")))[0] == 0
        assert (tmp_path / "copy").read_bytes() == large
        code, _, errors = await run("exec", "missing", "--", "true")
        assert (code, "not found" in errors) == (1, True)
        await _forward(world, environment)

    run_story(tmp_path / "cluster", story)


async def _forward(world: World, environment: Mapping[str, str]) -> None:
    """Read many pages of the pod at the same time through kubectl port-forward."""
    forwarding = await asyncio.create_subprocess_exec(
        "kubectl", "port-forward", "pod/web", ":8080",
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"KUBECONFIG": str(world.directory / "kubeconfig"), **environment},
    )  # fmt: skip
    assert forwarding.stdout is not None
    try:
        line = (await forwarding.stdout.readline()).decode()
        port = line.split(" -> ")[0].rpartition(":")[2]
        async with aiohttp.ClientSession() as http:

            async def page() -> int:
                async with http.get(f"http://127.0.0.1:{port}/") as response:
                    assert "Directory listing" in await response.text()
                    return response.status

            async with asyncio.timeout(DEADLINE_S):
                assert await asyncio.gather(*(page() for _ in range(20))) == [200] * 20
    finally:
        forwarding.kill()
        await forwarding.wait()


def test_clients_choose_a_protocol_of_websockets(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("web", one_container(SERVER))
        await world.running("web")
        async with session(world) as http:
            failing = exec_path("web", "sh", "-c", "echo+out;exit+3", stdout="true", stderr="true")
            async with http.ws_connect(failing, protocols=["v5.channel.k8s.io"]) as websocket:
                received = await messages(websocket)
                assert received[0] == b"\x01", "an empty message says that the command runs"
                assert of_channel(received, 1) == b"out\n"
                status = json.loads(of_channel(received, 3))
                assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
            async with http.ws_connect(failing, protocols=["base64.channel.k8s.io"]) as websocket:
                texts = await messages(websocket)
                assert [base64.b64decode(text[1:]) for text in texts if text[0] == "1"] == [b"", b"out\n"]
                assert "exit status 3" in base64.b64decode(texts[-1][1:]).decode()
            reading = exec_path("web", "cat", stdin="true", stdout="true")
            async with http.ws_connect(reading, protocols=["v5.channel.k8s.io"]) as websocket:
                await websocket.send_bytes(b"\x00input")
                await websocket.send_bytes(b"\xff\x00")  # closes stdin
                assert of_channel(await messages(websocket), 1) == b"input"
            async with http.ws_connect(reading, protocols=["v4.base64.channel.k8s.io"]) as websocket:
                await websocket.send_str("0" + base64.b64encode(b"input").decode())
                texts = [(await websocket.receive()).data for _ in range(2)]
                assert texts == ["1", "1" + base64.b64encode(b"input").decode()]
            shell = exec_path("web", "sh", stdin="true", stdout="true")
            async with http.ws_connect(shell, protocols=["v4.channel.k8s.io"]) as websocket:
                await websocket.send_str("\0echo text; exit 7\n")  # as the Python client sends it
                received = await messages(websocket)
                assert of_channel(received, 1) == b"text\n"
                assert b"exit status 7" in of_channel(received, 3)
            terminal = exec_path("web", "sh", "-c", "read+x;stty+size;tty", stdin="1", stdout="1", tty="1")
            async with http.ws_connect(terminal, protocols=["v4.channel.k8s.io"]) as websocket:
                await websocket.send_bytes(b'\x04{"Width":101,"Height":31}')
                await websocket.send_bytes(b"\x00go\n")
                assert b"31 101\r\n/dev/pts/" in of_channel(await messages(websocket), 1)
            forward = "/api/v1/namespaces/default/pods/web/portforward?ports=8080&ports=9"
            async with http.ws_connect(forward, protocols=["v4.channel.k8s.io"]) as websocket:
                await websocket.send_bytes(b"\x00GET / HTTP/1.0\r\n\r\n")
                received = await messages(websocket)
                assert of_channel(received, 0).startswith((8080).to_bytes(2, "little") + b"HTTP/1.0 200")
                assert b"error forwarding port 9" in of_channel(received, 3)

    run_story(tmp_path, story)


def test_a_client_that_disconnects_or_violates_the_protocol_leaves_no_process(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("web", one_container("exec sleep 1000"))
        await world.running("web")
        sleeping = exec_path("web", "sleep", "777", stdin="true", stdout="true")
        async with session(world) as http:
            for sent in (b"", b"\x00" + b"x" * (2 << 20)):
                async with http.ws_connect(sleeping, protocols=["v4.channel.k8s.io"]) as websocket:
                    await websocket.receive()
                    await until_sleepers(1)
                    if sent:
                        await websocket.send_bytes(sent)
                await until_sleepers(0)
            async with http.get(sleeping) as response:
                assert (response.status, (await response.json())["message"]) == (
                    400,
                    "Upgrade request required",
                )
            half_open = socket.create_connection(("127.0.0.1", http._base_url.port or 0))  # type: ignore[union-attr]
            async with http.get("/api/v1/namespaces/default/pods/web/log") as response:
                assert response.status == 200, "a connection without a request holds up no other"
            half_open.close()

    run_story(tmp_path, story)


async def until_sleepers(count: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while sleepers() != count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def sleepers() -> int:
    """Return the number of processes that run the command of this test."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                count += Path(entry.path, "cmdline").read_bytes() == b"sleep\x00777\x00"
            except OSError:
                continue
    return count


def test_the_proxy_reaches_ports_of_pods_and_services(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("web", one_container(SERVER), labels={"app": "web"})
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
        await world.client.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, "default")
        await world.running("web")
        async with session(world) as http:
            for resource, name in (("pods", "web:8080"), ("services", "web"), ("services", "web:80")):
                path = f"/api/v1/namespaces/default/{resource}/{name}/proxy/"
                async with asyncio.timeout(DEADLINE_S):
                    while True:
                        async with http.get(path) as response:
                            content = await response.text()
                            if response.status == 200 and "Directory listing" in content:
                                break
                        assert response.status == 503, content
                        await asyncio.sleep(0.05)
            async with http.get("/api/v1/namespaces/default/pods/web:9/proxy/") as response:
                assert response.status == 503
            async with http.get("/api/v1/nodes/this-machine/proxy/healthz") as response:
                assert await response.text() == "ok"

    run_story(tmp_path, story)


def test_the_usage_of_pods_is_measured(tmp_path: Path) -> None:
    metrics = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy"

    async def story(world: World) -> None:
        await world.run_pod(
            "busy", one_container("exec python3 -c 'text = b\"x\" * 50_000_000\nwhile True: pass'")
        )
        await world.running("busy")
        async with session(world) as http, asyncio.timeout(DEADLINE_S):
            while True:
                async with http.get(metrics) as response:
                    content = await response.json()
                usage = (
                    content["containers"][0]["usage"]
                    if response.status == 200
                    else {"cpu": "0n", "memory": "0Ki"}
                )
                nanos, memory = int(usage["cpu"].rstrip("n")), int(usage["memory"].rstrip("Ki"))
                if nanos > 100_000_000 and memory > 40_000:
                    return
                await asyncio.sleep(0.2)

    run_story(tmp_path, story)


def test_a_role_needs_create_for_websockets(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("web", one_container("exec sleep 1000"))
        await world.running("web")
        rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]
        group = "rbac.authorization.k8s.io"
        roles = untyped(group, "v1", "roles", "Role", True)
        bindings = untyped(group, "v1", "rolebindings", "RoleBinding", True)
        await world.client.create(roles, {"metadata": {"name": "r"}, "rules": rules}, "default")
        subject = {"kind": "User", "name": "ann", "apiGroup": group}
        reference = {"kind": "Role", "name": "r", "apiGroup": group}
        body = {"metadata": {"name": "r"}, "subjects": [subject], "roleRef": reference}
        await world.client.create(bindings, body, "default")
        path = exec_path("web", "true", stdout="true")
        async with session(world) as http:
            as_ann = {"Impersonate-User": "ann"}
            async with http.get(path, headers=as_ann) as response:
                message = (await response.json())["message"]
                assert (response.status, 'cannot create resource "pods/exec"' in message) == (403, True)
            rules[0]["verbs"] = ["get", "create"]
            await world.client.patch(roles, Key("default", "r"), {"rules": rules})
            async with http.ws_connect(path, protocols=["v4.channel.k8s.io"], headers=as_ann) as websocket:
                status = json.loads(of_channel(await messages(websocket), 3))
                assert status["status"] == "Success"

    run_story(tmp_path, story)


def test_streams_end_when_the_cluster_stops(tmp_path: Path) -> None:
    async def follow(world: World, started: asyncio.Event) -> None:
        path = "/api/v1/namespaces/default/pods/web/log?follow=true"
        async with session(world) as http, http.get(path) as response:
            async for _ in response.content.iter_any():
                started.set()

    async def run() -> None:
        started = asyncio.Event()
        async with running_world(tmp_path) as world:
            await world.run_pod("web", one_container("echo started; exec sleep 1000"))
            await world.running("web")
            following = asyncio.create_task(follow(world, started))
            async with asyncio.timeout(DEADLINE_S):
                await started.wait()
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.wait([following])
        following.exception()  # it ends, with an error or without

    asyncio.run(run())
