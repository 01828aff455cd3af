"""A local cluster with the queueing and gang definitions and, optionally, the controllers and the scheduler.

The local cluster is a plain Kubernetes; this module installs Quorate in it.  Its API server calls webhooks as
any other does.  What an administrator installs elsewhere (Service, endpoints and webhook configurations) is
installed here for the time that the controllers run, since a webhook without a server refuses writes.
"""

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.kueue import GROUP
from quorate.api.kueue.conversion import CONVERTED_KINDS, convert_version
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.controllers.unserved import why_not_queued
from quorate.inspect.cluster_reader import ClusterReader
from quorate.inspect.errors import UsageError
from quorate.install.crds import gang_definitions, queueing_definitions
from quorate.install.roles import gang_roles, user_roles
from quorate.install.visibility import AGGREGATED, api_service_spec
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Unreachable
from quorate.kube.log import logger
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import SERVICES, Json, Resource, untyped
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.local.cluster import Settings, run_cluster
from quorate.local.directory import LockedDirectory
from quorate.observe.explanations import Explainer
from quorate.observe.replica import Replica
from quorate.observe.serving import HttpsEndpoints
from quorate.observe.visibility import visibility, visibility_access
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.controllers import run_controller_process
from quorate.processes.local.apply import install_definitions, provide, withdraw_others
from quorate.processes.process_setup import new_uid
from quorate.processes.stored_scheduler_configuration import store_scheduler_in_force
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import run_scheduler
from quorate.scheduler.scheduler import Options
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.serving_certificate import MUTATING, SECRETS, VALIDATING
from quorate.webhooks.webhook_configurations import webhook_configurations

NAMESPACES: Final = untyped("", "v1", "namespaces", "Namespace", False)
ENDPOINTS: Final = untyped("", "v1", "endpoints", "Endpoints", True)
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_LOCAL: Final = "quorate-local"


def check_webhooks(configuration: Configuration) -> None:
    """Raise ``UsageError`` if the configuration asks for webhooks that a local cluster cannot have."""
    if configuration.webhooks.address is not None:
        _reachable_host(configuration.webhooks.address)
        if file := configuration.webhooks.client_ca_file:
            raise UsageError(
                f"webhook.clientCAFile: {file!r} requires a client certificate of the API server, and that "
                "of a local cluster presents none to webhooks (leave it out)"
            )
        if not configuration.certificates.enable:
            _read_authority(configuration)


async def prepare_namespaces(client: Client, configuration: Configuration) -> None:
    """Create the namespaces in which the controllers keep their Lease and their certificates."""
    election = configuration.leader_election
    namespaces = []
    if election.elect:
        namespaces.append(election.namespace or configuration.namespace)
    if configuration.webhooks.address is not None:
        namespaces.append(configuration.namespace)
    for name in dict.fromkeys(namespaces):
        await _apply(client, NAMESPACES, Key("", name), {})


@asynccontextmanager
async def installed_webhooks(client: Client, configuration: Configuration) -> AsyncIterator[None]:
    """Install the webhook configurations while the block lasts, if webhooks are served."""
    address = configuration.webhooks.address
    if address is None:
        yield
        return
    service = Key(configuration.namespace, configuration.certificates.service)
    target = {"addresses": [{"ip": _reachable_host(address)}], "ports": [{"port": address.port}]}
    ports = [{"port": 443, "targetPort": address.port}]
    await _apply(client, SERVICES, service, {"spec": {"ports": ports}})
    await _apply(client, ENDPOINTS, service, {"subsets": [target]})
    bundle = base64.b64encode(await _authority(client, configuration)).decode()
    endpoint = WebhookEndpoint(service.namespace, service.name, ca_bundle=bundle)
    manifests = webhook_configurations(configuration, served_routes(configuration), endpoint)
    for resource, manifest in zip((MUTATING, VALIDATING), manifests, strict=True):
        name = Key("", manifest["metadata"]["name"])
        await _apply(client, resource, name, {"webhooks": manifest["webhooks"]})
    try:
        yield
    finally:
        await remove_webhooks(client)


async def remove_webhooks(client: Client) -> None:
    """Delete the webhook configurations that a local cluster has installed itself."""
    for resource in (MUTATING, VALIDATING):
        listed = await client.list(resource, label_selector=f"{_MANAGED_BY}={_LOCAL}")
        for configuration in listed.items:
            await client.delete(resource, Key("", configuration["metadata"]["name"]))


async def _authority(client: Client, configuration: Configuration) -> bytes:
    """Return the certificate of the authority, in PEM, that signed the serving certificate."""
    if not configuration.certificates.enable:
        return _read_authority(configuration)
    key = Key(configuration.namespace, configuration.certificates.secret)
    return base64.b64decode((await client.get(SECRETS, key))["data"]["ca.crt"])


def _read_authority(configuration: Configuration) -> bytes:
    file = Path(configuration.webhooks.certificate_directory, "ca.crt")
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"internalCertManagement.enable: false: {file}: {(error.strerror or '').lower()}: a local "
            "cluster needs the certificate of the authority that signed tls.crt (put it there, or leave "
            "internalCertManagement out: then the certificates are made)"
        ) from error


def _reachable_host(address: Address) -> str:
    """Return the IP address at which the API server of this machine reaches a listening address."""
    if address.host in ("", "localhost"):
        return "127.0.0.1"
    try:
        ip = ip_address(address.host)
    except ValueError as error:
        raise UsageError(
            f"webhook.host: {address.host!r} is not an IP address: the local cluster calls webhooks at one "
            "(write 127.0.0.1, or leave it out for every interface)"
        ) from error
    if ip.is_unspecified:
        return "::1" if ip.version == 6 else "127.0.0.1"
    return str(ip)


async def _apply(client: Client, resource: Resource[Json], key: Key, content: Json) -> None:
    await client.apply(resource, key, {"metadata": {"labels": {_MANAGED_BY: _LOCAL}}, **content})


START_DEADLINE_S: Final = 180.0  # of a server on a busy machine
NODES_DEADLINE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class GangSchedulerSettings:
    """The settings of a gang scheduler that runs beside the cluster."""

    configuration: SchedulerConfiguration
    text: str  # that it was read from
    options: Options


@asynccontextmanager
async def run_queueing_cluster(
    directory: LockedDirectory,
    settings: Settings,
    in_force: ConfigurationInForce | None,
    clock: Clock,
    rng: random.Random,
    gang_scheduler: GangSchedulerSettings | None = None,
    *,
    is_installed: bool = False,
    has_roles: bool = True,
    nodes_within_s: float = NODES_DEADLINE_S,
) -> AsyncIterator[Client]:
    """Run a cluster with the definitions and the roles for users installed while the block lasts.

    ``is_installed`` says that a run of this version stored them in ``directory`` before. Without
    ``has_roles`` the roles are left to an installation: Helm adopts no object of another creator.

    With ``in_force`` the queueing controllers run with all that it asks for, with ``gang_scheduler`` the gang
    scheduler. When the block begins, both are ready, and all nodes of ``settings`` are registered. It waits
    for nodes at most ``nodes_within_s``. Raises ``UsageError`` for what cannot be had here.
    """
    if in_force is not None:
        check_webhooks(in_force.configured.current)
    started = asyncio.Event()
    ready_checks = {"quorate": started.is_set}
    async with (
        run_cluster(
            directory, settings, clock, rng, new_uid, {GROUP: convert_version}, ready_checks
        ) as cluster,
        Client(cluster.rest_config, rng) as client,
    ):
        await _patiently(partial(_prepare, client, is_installed, has_roles), clock)
        async with AsyncExitStack() as stack:
            if in_force is not None:
                await stack.enter_async_context(_run_controllers(client, clock, rng, in_force))
            if gang_scheduler is not None:
                await stack.enter_async_context(_run_gang_scheduler(client, clock, gang_scheduler))
            await _wait_for_nodes(cluster.nodes_registered, nodes_within_s)
            started.set()
            yield client


async def _wait_for_nodes(registered: Callable[[], Awaitable[None]], within_s: float) -> None:
    """Go on with a warning after ``within_s``: a stored webhook may deny nodes."""
    try:
        async with asyncio.timeout(within_s):
            await registered()
    except TimeoutError:
        logger(__name__).warning("not all nodes are registered yet", waited_s=within_s)


async def _prepare(client: Client, is_installed: bool, has_roles: bool) -> None:
    if not is_installed:
        converted = queueing_definitions({kind: {} for kind in CONVERTED_KINDS})
        definitions = (*converted, *gang_definitions())
        await install_definitions(client, map(_without_conversion, definitions))
        roles = (*user_roles(), *gang_roles()) if has_roles else ()
        await provide(client, CLUSTER_ROLES, roles)
        await withdraw_others(client, CLUSTER_ROLES, roles)
    # Of a run that was killed: nothing serves them.
    await remove_webhooks(client)
    await _remove_visibility(client)


async def _patiently(work: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Repeat idempotent work while the server does not answer: on a busy machine it starts slowly.

    Raises ``Unreachable`` after ``START_DEADLINE_S``.
    """
    deadline = clock.steady.now() + START_DEADLINE_S
    while True:
        try:
            return await work()
        except Unreachable:
            if clock.steady.now() >= deadline:
                raise


@asynccontextmanager
async def _run_controllers(
    client: Client, clock: Clock, rng: random.Random, in_force: ConfigurationInForce
) -> AsyncIterator[None]:
    """Run the queueing controllers and their servers; they are ready when the block begins."""
    configuration = in_force.configured.current
    await prepare_namespaces(client, configuration)

    async def connect() -> Client:
        return Client(client.config, random.Random())

    async with (
        run_controller_process(client.config, clock, rng, in_force, connect) as process,
        serve_visibility(client, clock, process.replica),
    ):
        await process.started()
        async with installed_webhooks(client, configuration):
            yield


@asynccontextmanager
async def _run_gang_scheduler(
    client: Client, clock: Clock, gang_scheduler: GangSchedulerSettings
) -> AsyncIterator[None]:
    """Run the gang scheduler; it is ready when the block begins."""
    status = SchedulerStatus()
    async with asyncio.TaskGroup() as tasks:
        configured = DynamicConfiguration(gang_scheduler.configuration)
        scheduler = tasks.create_task(
            run_scheduler(client, clock, gang_scheduler.options, configured, status, None)
        )
        storing = tasks.create_task(
            store_scheduler_in_force(client, clock, status, lambda: gang_scheduler.text)
        )
        await status.ready.wait()
        yield
        storing.cancel()
        scheduler.cancel()


def _without_conversion(definition: Json) -> Json:
    """Return the definition without ``spec.conversion``.

    The local cluster converts versions itself.  An installation may set a conversion webhook: it must not
    conflict with the fields owned here, and must remain when the cluster restarts.
    """
    spec = {name: value for name, value in definition["spec"].items() if name != "conversion"}
    return definition | {"spec": spec}


CLUSTER_ROLES: Final = untyped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
SERVICE: Final = Key("kube-system", "quorate-visibility")
API_SERVICES: Final = untyped("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)
_ANY_PORT: Final = Address("127.0.0.1", 0)


@asynccontextmanager
async def serve_visibility(client: Client, clock: Clock, replica: Replica) -> AsyncIterator[None]:
    """Serve the visibility API to the cluster of ``client`` while the block lasts.

    Its APIServices are deleted at the end: an aggregated API without a server slows down every client.
    """
    endpoints = HttpsEndpoints(DelegatedAuth(client, clock), TlsOptions())
    app = visibility(
        replica, Explainer(replica, ClusterReader(client), endpoints.auth, why_not_queued, clock)
    )
    async with endpoints.protected(
        "visibilityServer.bindPort", _ANY_PORT, app, visibility_access, aggregated=True
    ) as at:
        await _register(client, at.port)
        try:
            yield
        finally:
            await _remove_visibility(client)


async def _remove_visibility(client: Client) -> None:
    """Delete the APIServices of a local cluster itself; APIServices of an installation stay."""
    names = {f"{version}.{group}" for group, version in AGGREGATED}
    for service in (await client.list(API_SERVICES)).items:
        if (
            service["metadata"]["name"] in names
            and service["spec"].get("service", {}).get("name") == SERVICE.name
        ):
            await client.delete(API_SERVICES, Key("", service["metadata"]["name"]))


async def _register(client: Client, port: int) -> None:
    await client.apply(SERVICES, SERVICE, {"spec": {"type": "ExternalName", "externalName": _ANY_PORT.host}})
    service = {"name": SERVICE.name, "namespace": SERVICE.namespace, "port": port}
    for group, version in AGGREGATED:
        spec = api_service_spec(group, version, service)
        await client.apply(API_SERVICES, Key("", f"{version}.{group}"), {"spec": spec})
