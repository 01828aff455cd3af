"""Pods that run as processes reach the API server and each other, by name."""

import asyncio
import base64
import errno
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.api.meta import Key
from quorate.kube.clock import WallClock
from quorate.kube.errors import ApiError
from quorate.local.certificates import new_authority, new_server_certificate
from tests.local.runtime.network.inside import namespaces_unavailable
from tests.local.runtime.world import (
    CONFIG_MAPS,
    DEADLINE_S,
    JOBS,
    PODS,
    SERVICES,
    WEBHOOKS,
    World,
    container,
    one_container,
    run_story,
    runs_processes,
)
from tests.observe.listening import free_port

pytestmark = [runs_processes, pytest.mark.slow, pytest.mark.usefixtures("one_cluster")]
needs_namespaces = pytest.mark.skipif(bool(namespaces_unavailable()), reason=namespaces_unavailable() or "-")

READ_VERSION = """
import os, ssl, urllib.request
directory = "/var/run/secrets/kubernetes.io/serviceaccount"
trusted = ssl.create_default_context(cafile=f"{directory}/ca.crt")
token = open(f"{directory}/token").read()
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
for server in [f"{host}:{port}", *NAMES]:
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"https://{server}/version", headers=headers)
    print(server, '"major"' in urllib.request.urlopen(request, context=trusted, timeout=10).read().decode())
"""

WORKER = """
import http.server, os, socket, threading, time, urllib.request
server = http.server.ThreadingHTTPServer(("", 8080), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
if os.environ["JOB_COMPLETION_INDEX"] != "0":
    time.sleep(60)
peers = {f"train-{index}.workers" for index in range(3)}
while peers:
    for peer in sorted(peers):
        try:
            urllib.request.urlopen(f"http://{peer}:8080/", timeout=5).read()
            peers.discard(peer)
        except OSError:
            time.sleep(0.1)
print("all workers answer", socket.getfqdn())
"""


def test_a_pod_reaches_the_api_server_with_its_token(tmp_path: Path) -> None:
    names = [] if namespaces_unavailable() else ["kubernetes.default.svc", "kubernetes.default"]

    async def story(world: World) -> None:
        for name, host_network, reached in (("inside", False, names), ("on-host", True, [])):
            main = container("python3", "-c", READ_VERSION.replace("NAMES", repr(reached)))
            spec = {"restartPolicy": "Never", "hostNetwork": host_network, "containers": [main]}
            await world.run_pod(name, spec)
            await world.ended(name)
            lines = (await world.log(name)).splitlines()
            assert [line.split()[-1] for line in lines] == ["True"] * (1 + len(reached)), lines

    run_story(tmp_path, story)


@needs_namespaces
def test_workers_of_a_job_reach_each_other_by_name(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        selector = {"batch.kubernetes.io/job-name": "train"}
        spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
        await world.client.create(SERVICES, {"metadata": {"name": "workers"}, "spec": spec}, "default")
        template = {
            "spec": {
                "restartPolicy": "Never",
                "subdomain": "workers",
                "containers": [container("python3", "-c", WORKER)],
            }
        }
        job = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template}
        await world.client.create(JOBS, {"metadata": {"name": "train"}, "spec": job}, "default")
        name = await world.pod_of("train", 0)
        await world.ended(name)
        assert (await world.log(name)).splitlines()[-1] == (
            "all workers answer train-0.workers.default.svc.cluster.local"
        )

    run_story(tmp_path, story)


@needs_namespaces
def test_pods_may_all_listen_on_one_port(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        spec = one_container("exec python3 -m http.server 80", readinessProbe={"tcpSocket": {"port": 80}})
        for name in ("one", "two"):
            await world.run_pod(name, spec)
        for name in ("one", "two"):
            await world.until(name, _is_ready)

    run_story(tmp_path, story)


def _is_ready(pod: dict[str, dict[str, list[dict[str, str]]]]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


HOOK = """
import http.server, json, os, ssl
for name in ("crt", "key"):
    open(f"/tmp/{name}", "w").write(os.environ[name])
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "from a pod"}}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())
server = http.server.ThreadingHTTPServer(("", PORT), Hook)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/crt", "/tmp/key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


async def refused(world: World) -> str:
    """Return why a ConfigMap cannot be created."""
    with pytest.raises(ApiError) as refusal:
        await world.client.create(CONFIG_MAPS, {"metadata": {"generateName": "one-"}}, "default")
    return str(refusal.value)


@needs_namespaces
@pytest.mark.parametrize("host_network", [False, True], ids=["its own network", "the network of the host"])
def test_a_pod_serves_a_webhook_of_the_api_server(tmp_path: Path, host_network: bool) -> None:
    now, port = WallClock().now(), free_port()
    authority = new_authority(now)
    pair = new_server_certificate(authority, now, "hooks.default.svc")
    environment = [
        {"name": "crt", "value": pair.certificate.decode()},
        {"name": "key", "value": pair.key.decode()},
    ]
    main = container(
        "python3", "-c", HOOK.replace("PORT", str(port)), env=environment,
        readinessProbe={"tcpSocket": {"port": port}, "periodSeconds": 1},
    )  # fmt: skip
    webhook = {
        "name": "hooks.example.com",
        "clientConfig": {
            "service": {"namespace": "default", "name": "hooks"},
            "caBundle": base64.b64encode(authority.certificate).decode(),
        },
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }

    async def story(world: World) -> None:
        service = {"selector": {"app": "hooks"}, "ports": [{"port": 443, "targetPort": port}]}
        await world.client.create(SERVICES, {"metadata": {"name": "hooks"}, "spec": service}, "default")
        spec = {"hostNetwork": host_network, "terminationGracePeriodSeconds": 0, "containers": [main]}
        await world.run_pod("hooks", spec, labels={"app": "hooks"})
        await world.until("hooks", _is_ready)
        await world.client.create(WEBHOOKS, {"metadata": {"name": "hooks"}, "webhooks": [webhook]})
        async with asyncio.timeout(DEADLINE_S):
            while "denied the request: from a pod" not in (refusal := await refused(world)):
                assert "no endpoints" in refusal
                await asyncio.sleep(0.05)

    run_story(tmp_path, story)


@needs_namespaces
def test_the_network_of_the_host_is_reached_through_services_and_the_proxy(tmp_path: Path) -> None:
    port = free_port()
    server = f"exec python3 -u -m http.server {port} --bind 127.0.0.1 --directory /usr/share"
    fetch = (
        "import urllib.request; print(urllib.request.urlopen('http://web.default.svc', timeout=10).status)"
    )

    async def story(world: World) -> None:
        service = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": port}]}
        await world.client.create(SERVICES, {"metadata": {"name": "web"}, "spec": service}, "default")
        probe = {"httpGet": {"port": port}, "periodSeconds": 1}
        web = one_container(server, readinessProbe=probe) | {"hostNetwork": True}
        await world.run_pod("web", web | {"terminationGracePeriodSeconds": 0}, labels={"app": "web"})
        await world.until("web", _is_ready)
        client = {"restartPolicy": "OnFailure", "containers": [container("python3", "-c", fetch)]}
        await world.run_pod("client", client)
        assert (await world.ended("client"))["status"]["phase"] == "Succeeded"
        answer = await world.client.request("GET", f"/api/v1/namespaces/default/pods/web:{port}/proxy/")
        assert b"Directory listing" in answer

    run_story(tmp_path, story)


def fetched(port: int) -> str:
    """Return what a server at a port of this machine answers, or an empty string if none does."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as response:
            return str(response.read().decode())
    except OSError:
        return ""


def is_closed(port: int) -> bool:
    """Return True if no server listens at a port of this machine."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


async def until(holds: Callable[[int], object], port: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await asyncio.to_thread(holds, port):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@needs_namespaces
def test_host_ports_and_node_ports_are_ports_of_this_machine(tmp_path: Path) -> None:
    host_port = free_port()
    ports = [{"containerPort": 8080, "hostPort": host_port}, {"containerPort": 9, "protocol": "UDP"}]
    server = "exec python3 -u -m http.server 8080 --directory /usr/share"

    async def story(world: World) -> None:
        spec = {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
        service = await world.client.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, "default")
        node_port = service["spec"]["ports"][0]["nodePort"]
        web = {**one_container(server), "terminationGracePeriodSeconds": 0}
        web["containers"][0]["ports"] = ports
        await world.run_pod("web", web, labels={"app": "web"})
        await world.running("web")
        for port in (host_port, node_port):
            await until(fetched, port)
        await world.client.delete(PODS, Key("default", "web"), grace_period_s=0)
        for port in (host_port, node_port):
            await until(is_closed, port)
        with socket.socket() as used:
            used.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            used.bind(("127.0.0.1", host_port))
            used.listen()
            await world.run_pod("late", web)
            await world.until_event(
                "late",
                "FailedCreatePodSandBox",
                f"Failed to create pod sandbox: cannot open hostPort {host_port}: address already in use",
            )
        await world.running("late")
        await until(fetched, host_port)

    run_story(tmp_path, story)
