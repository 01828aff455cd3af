"""A local cluster with the queueing and gang definitions and, optionally, the controllers and the scheduler.

The local cluster is a plain Kubernetes; this module installs Quorate in it.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.kueue import GROUP
from quorate.api.kueue import visibility as visibility_api
from quorate.api.kueue.conversion import convert_version
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.cli.deployment.crds import gang_definitions, queueing_definitions
from quorate.cli.process import new_uid
from quorate.cli.run.apply import install_definitions
from quorate.controllers.process import run_queueing
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import Json, Resource, untyped
from quorate.kube.rest.config import load_rest_config
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.kube.serving.front_proxy import FrontProxyVerifier
from quorate.local.cluster import Settings, run_cluster
from quorate.local.directory import LockedDirectory
from quorate.observe.https_endpoints import HttpsEndpoints
from quorate.observe.replica import Replica
from quorate.observe.visibility import pending_workloads_access, visibility
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import run_scheduler
from quorate.scheduler.scheduler import Options


@dataclass(frozen=True, slots=True)
class GangSchedulerSettings:
    """The settings of a gang scheduler that runs beside the cluster."""

    configuration: SchedulerConfiguration
    options: Options


@asynccontextmanager
async def run_queueing_cluster(
    directory: LockedDirectory,
    settings: Settings,
    configuration: Configuration | None,
    clock: Clock,
    rng: random.Random,
    gang_scheduler: GangSchedulerSettings | None = None,
) -> AsyncIterator[Client]:
    """Run a cluster with the definitions installed while the block lasts.

    With ``configuration`` the queueing controllers run, with ``gang_scheduler`` the gang scheduler; both are
    ready when the block begins.
    """
    async with (
        run_cluster(directory, settings, clock, rng, new_uid, {GROUP: convert_version}),
        Client(await load_rest_config(directory.kubeconfig), rng) as client,
    ):
        definitions = (*queueing_definitions(), *gang_definitions())
        await install_definitions(client, map(_without_conversion, definitions))
        async with AsyncExitStack() as stack:
            if configuration is not None:
                await stack.enter_async_context(_run_controllers(client, clock, rng, configuration))
            if gang_scheduler is not None:
                await stack.enter_async_context(_run_gang_scheduler(client, clock, gang_scheduler))
            yield client


@asynccontextmanager
async def _run_controllers(
    client: Client, clock: Clock, rng: random.Random, configuration: Configuration
) -> AsyncIterator[None]:
    """Run the queueing controllers; they are ready when the block begins."""
    replica = Replica("standalone", configuration.metrics.custom_labels)
    async with asyncio.TaskGroup() as tasks, serve_visibility(client, clock, replica):
        queueing = run_queueing(client, clock, DynamicConfiguration(configuration), rng, replica)
        controllers = tasks.create_task(queueing)
        await replica.ready.wait()
        yield
        controllers.cancel()


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
        await status.ready.wait()
        yield
        scheduler.cancel()


def _without_conversion(definition: Json) -> Json:
    """Return the definition without ``spec.conversion``.

    The local cluster converts versions itself.  An installation may set a conversion webhook: it must not
    conflict with the fields owned here, and must remain when the cluster restarts.
    """
    spec = {name: value for name, value in definition["spec"].items() if name != "conversion"}
    return definition | {"spec": spec}


SERVICE: Final = Key("kube-system", "quorate-visibility")
SERVICES: Final = untyped("", "v1", "services", "Service", True)
API_SERVICES: Final = untyped("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)
_ANY_PORT: Final = Address("127.0.0.1", 0)


@asynccontextmanager
async def serve_visibility(client: Client, clock: Clock, replica: Replica) -> AsyncIterator[None]:
    """Serve the visibility API to the cluster of ``client`` while the block lasts.

    Its APIServices are deleted at the end: an aggregated API without a server slows down every client.
    """
    endpoints = HttpsEndpoints(
        DelegatedAuth(client, clock), partial(FrontProxyVerifier, client), clock, TlsOptions()
    )
    app = visibility(replica)
    async with endpoints.protected(
        "visibilityServer", _ANY_PORT, app, pending_workloads_access, aggregated=True
    ) as at:
        await _register(client, at.port)
        yield
        for version in visibility_api.VERSIONS:
            await client.delete(API_SERVICES, Key("", f"{version}.{visibility_api.GROUP}"))


async def _register(client: Client, port: int) -> None:
    await _apply(client, SERVICES, SERVICE, {"type": "ExternalName", "externalName": _ANY_PORT.host})
    for version in visibility_api.VERSIONS:
        spec = {
            "group": visibility_api.GROUP,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": SERVICE.name, "namespace": SERVICE.namespace, "port": port},
        }
        await _apply(client, API_SERVICES, Key("", f"{version}.{visibility_api.GROUP}"), spec)


async def _apply(client: Client, resource: Resource[Json], key: Key, spec: Json) -> None:
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    await client.patch(resource, key, body, kind=PatchKind.APPLY, force=True)
