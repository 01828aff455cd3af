"""The cluster under attack: API server, definitions, queues, controllers, gang scheduler and webhooks."""

import asyncio
import base64
import contextlib
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from quorate.api.configuration import Configuration, load_configuration
from quorate.api.configuration.integrations import FRAMEWORKS
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.install.crds import gang_definitions, queueing_definitions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import AlreadyExists
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    QUEUES,
    RESOURCE_FLAVORS,
    Json,
    Resource,
    untyped,
)
from quorate.kube.rest.config import RestConfig, load_rest_config
from quorate.kube.serving.certificates import new_authority, new_server_certificate
from quorate.processes.local.apply import install_definitions
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import webhook_configurations
from tests.e2e.hostile import cluster_queue, definitions_without_schema
from tests.e2e.minimal_definitions import definition
from tests.e2e.real_server import assets, control_plane
from tests.e2e.test_controllers_command import kubeconfig
from tests.fuzz.findings import Findings
from tests.fuzz.kinds import KINDS, NAMESPACE, WEBHOOKS_LABEL, WITHOUT_DEFINITION
from tests.fuzz.probe import PROBE
from tests.fuzz.processes import ObservedProcess
from tests.observe.listening import free_port

QUORATE: Final = ("controllers", "scheduler")
LIMIT_OF_CLUSTER: Final = 10  # times the limit of Quorate's own processes, for the API server on this machine
START_TIMEOUT_S: Final = 120.0
HOST: Final = "127.0.0.1"


@dataclass
class Target:
    """What attacks are sent to."""

    client: Client
    webhooks: str  # URL
    authority: str  # PEM
    processes: list[ObservedProcess] = field(default_factory=list)


@dataclass(frozen=True)
class ClusterOptions:
    real: bool = False
    kubeconfig: Path | None = None  # of a cluster that runs already
    schemas: bool = True
    limit_ms: float = 50.0


@asynccontextmanager
async def cluster_under_attack(
    options: ClusterOptions, directory: Path, findings: Findings
) -> AsyncIterator[Target]:
    processes: list[ObservedProcess] = []

    def process(name: str, *arguments: str | Path) -> ObservedProcess:
        limit_ms = options.limit_ms * (1 if name in QUORATE else LIMIT_OF_CLUSTER)
        made = ObservedProcess(name, [str(each) for each in arguments], directory, findings, limit_ms)
        processes.append(made)
        return made

    async with _api_server(options, directory, process) as config:
        file = _written_kubeconfig(directory, config)
        async with Client(config, random.Random(1), deadline_s=60.0) as client:
            try:
                if options.real:
                    await process("components", "components", file).start()
                await _install(client, options.schemas)
                webhooks, authority = await _start_quorate(client, directory, file, process)
                yield Target(client, webhooks, authority, processes)
            finally:
                for each in reversed(processes):
                    await each.stop()


@asynccontextmanager
async def _api_server(options: ClusterOptions, directory: Path, process: Any) -> AsyncIterator[RestConfig]:
    if options.kubeconfig is not None:
        yield await load_rest_config(options.kubeconfig)
    elif options.real:
        async with control_plane(assets()) as config:
            yield config
    else:
        data = directory / "local"
        flags = ("--data-dir", data, "--port", "0", "--without-controllers", "--scheduling", "plain")
        local = process("local", "local", "up", *flags, "--nodes", "2")
        await local.start()
        async with asyncio.timeout(START_TIMEOUT_S):
            while True:
                if "KUBECONFIG" in local.output.read_text():
                    break
                await asyncio.sleep(0.1)
        yield await load_rest_config(data / "kubeconfig")


def _written_kubeconfig(directory: Path, config: RestConfig) -> Path:
    token = config.credentials.authorization().removeprefix("Bearer ")
    return kubeconfig(directory, config.server, token)


async def _install(client: Client, schemas: bool) -> None:
    kueue = queueing_definitions() if schemas else definitions_without_schema()
    for version in (version for each in kueue if not schemas for version in each["spec"]["versions"]):
        version.pop("selectableFields", None)  # a kube-apiserver wants them in the schema
    others: dict[tuple[str, str], Json] = {}
    known = {(resource.group, resource.plural) for resource in _defined()}
    for kind in KINDS:
        resource = kind.resource
        if (resource.group, resource.plural) in known:
            others[resource.group, resource.plural] = definition(resource)
    await install_definitions(client, [*kueue, *gang_definitions(), *others.values()])
    for name in (NAMESPACE, PROBE):
        await _create(client, NAMESPACES, {"metadata": {"name": name}})
    await _create(client, RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
    for name, queue in ((NAMESPACE, "queue"), (PROBE, PROBE)):
        await _create(client, CLUSTER_QUEUES, cluster_queue(name, "1000"))
        await _create(
            client, LOCAL_QUEUES, {"metadata": {"name": queue}, "spec": {"clusterQueue": name}}, name
        )
        await _create(client, QUEUES, {"metadata": {"name": name}, "spec": {"weight": 1}})


def _defined() -> Iterable[Resource[Any]]:
    """Return the kinds that get a definition without schema."""
    yield from WITHOUT_DEFINITION
    for kind in FRAMEWORK_KINDS.values():
        yield kind.resource
        yield from kind.referenced_kinds


async def _create(client: Client, resource: Resource[Any], body: Json, namespace: str = "") -> None:
    raw = untyped(resource.group, resource.version, resource.plural, resource.kind, resource.namespaced)
    with contextlib.suppress(AlreadyExists):
        await client.create(raw, body, namespace)


async def _start_quorate(client: Client, directory: Path, file: Path, process: Any) -> tuple[str, str]:
    port = free_port()
    url = f"https://{HOST}:{port}"
    now = WallClock().now()
    authority = new_authority("fuzz", now)
    pair = new_server_certificate(authority, "fuzz", [HOST], now)
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)
    config = directory / "configuration.yaml"
    config.write_text(_configuration(port, directory), encoding="utf-8")
    common = ("--kubeconfig", file, "--log-format", "json")
    await process("controllers", "controllers", *common, "--config", config).start()
    provisioning = ("--provisioning-class", "check-capacity.autoscaling.x-k8s.io")
    await process("scheduler", "scheduler", *common, *provisioning).start()
    await process("witness", "witness", *common, "--config", config, "--grace", "10").start()
    await _until_listening(port)
    configuration = load_configuration(config.read_text()).configuration
    await _register_webhooks(client, configuration, url, authority.certificate)
    return url, authority.certificate.decode()


def _configuration(port: int, directory: Path) -> str:
    return f"""
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
auditInterval: 10s
integrations: {{frameworks: [{", ".join(FRAMEWORKS)}]}}
featureGates: {{SparkApplicationIntegration: true, FailureRecoveryPolicy: true, PriorityBoost: true}}
waitForPodsReady: {{timeout: 1m}}
podGroupWebhooks: {{failurePolicy: Fail, gatePodsOfPendingGroups: true, minResources: strict}}
webhook: {{host: {HOST}, port: {port}, certDir: {directory}}}
internalCertManagement: {{enable: false}}
"""


async def _until_listening(port: int) -> None:
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            try:
                _, writer = await asyncio.open_connection(HOST, port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


async def _register_webhooks(
    client: Client, configuration: Configuration, url: str, authority: bytes
) -> None:
    """Register the webhooks for objects with a label, so that the rest is stored unchecked."""
    endpoint = WebhookEndpoint(url=url, ca_bundle=base64.b64encode(authority).decode())
    for body in webhook_configurations(configuration, served_routes(configuration), endpoint):
        for webhook in body["webhooks"]:
            webhook["objectSelector"] = {"matchLabels": {WEBHOOKS_LABEL: "true"}}
        kind = body["kind"]
        resource = untyped("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, False)
        await _create(client, resource, body)
