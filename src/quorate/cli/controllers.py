"""``quorate controllers``: run the queueing controllers for a cluster."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.configuration.process import ClientConnection
from quorate.api.kueue import GROUP, VERSION
from quorate.api.meta import Struct
from quorate.cli.configuration_reload import ConfigurationFile
from quorate.cli.errors import UsageError
from quorate.cli.files import read_configuration
from quorate.cli.process import (
    Context,
    Kubeconfig,
    LogFormat,
    Verbose,
    new_identity,
    raise_file_limit,
    wait_for_signal,
)
from quorate.controllers.process import run_replica
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.flowcontrol import TokenBucketRateLimiter
from quorate.kube.log import configure, logger
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from quorate.kube.rest.config import load_rest_config
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.kube.serving.front_proxy import FrontProxyVerifier
from quorate.observe.exposition import metrics_access
from quorate.observe.https_endpoints import HttpsEndpoints
from quorate.observe.queueing_metrics import metrics
from quorate.observe.replica import Replica, Role
from quorate.observe.serving import health_checks, serving
from quorate.observe.visibility import pending_workloads_access, visibility
from quorate.webhooks.process import run_webhooks, with_webhooks

NEEDED = (
    WORKLOADS,
    LOCAL_QUEUES,
    CLUSTER_QUEUES,
    RESOURCE_FLAVORS,
    COHORTS,
    ADMISSION_CHECKS,
    WORKLOAD_PRIORITY_CLASSES,
)


def controllers(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A Configuration of config.kueue.x-k8s.io. Default: all defaults."),
    ] = None,
    webhooks: Annotated[
        bool | None,
        typer.Option(
            "--webhooks/--no-webhooks",
            help="Serve webhooks, on 127.0.0.1:9443 if the Configuration has no address. "
            "Default: if it has the field webhook.",
            show_default=False,
        ),
    ] = None,
    log_format: LogFormat = "console",
    verbose: Verbose = False,
) -> None:
    """Run the queueing controllers for a cluster until Ctrl-C or SIGTERM.

    All state is in the cluster, so they can be stopped and restarted at any time.
    Changes of the Configuration file are applied at runtime where possible.
    With [b]leaderElection.leaderElect[/b] in the Configuration one replica is the leader, the rest stand by.

    [b]Example:[/b] quorate controllers --kubeconfig ~/.quorate/local/kubeconfig --config configuration.yaml
    """
    loaded = read_configuration(config)
    configure(log_format, logging.DEBUG if verbose else logging.INFO)
    for warning in loaded.warnings:
        logger(__name__).warning("configuration", file=config, finding=warning)
    configured = DynamicConfiguration(with_webhooks(loaded.configuration, webhooks))
    files = []
    if config is not None:
        file = ConfigurationFile(config, configured, WallClock(), lambda new: with_webhooks(new, webhooks))
        files.append(file)
    raise_file_limit()
    uvloop.run(_serve(kubeconfig, context, configured, files))


async def _serve(
    kubeconfig: Path | None,
    context: str,
    configured: DynamicConfiguration[Configuration],
    files: Iterable[ConfigurationFile],
) -> None:
    configuration = configured.current
    log = logger(__name__)
    rng = random.Random()
    health = configuration.health
    webhooks = {"webhooks": asyncio.Event()} if configuration.webhooks.address is not None else {}
    role: Role = "follower" if configuration.leader_election.elect else "standalone"
    replica = Replica(role, configuration.metrics.custom_labels)
    async with (
        Client(
            await load_rest_config(kubeconfig, context),
            rng,
            on_response=replica.recorder.request_answered,
            rate_limiter=_rate_limiter(configuration.client_connection),
        ) as client,
        serving(
            "health.healthProbeBindAddress", health.address, health_checks(health, replica.ready, webhooks)
        ),
        _serve_https(_endpoints(client, configuration), configuration, replica),
    ):
        await _require_served_kinds(client)
        async with asyncio.TaskGroup() as tasks:
            # Start webhooks first: reading objects stored in an older version may call them.
            webhook_servers = [
                tasks.create_task(run_webhooks(client, WallClock(), configuration, ready))
                for ready in webhooks.values()
            ]
            replica_run = run_replica(client, WallClock(), configured, rng, replica, new_identity)
            parts = [
                *webhook_servers,
                *(tasks.create_task(file.follow()) for file in files),
                tasks.create_task(replica_run),
                tasks.create_task(_announce(replica, client.config.server)),
            ]
            await wait_for_signal(lambda: log.info("starting", server=client.config.server))
            log.info("stopping")
            for part in parts:
                part.cancel()


def _endpoints(client: Client, configuration: Configuration) -> HttpsEndpoints:
    clock = WallClock()
    return HttpsEndpoints(
        DelegatedAuth(client, clock), partial(FrontProxyVerifier, client), clock, configuration.tls
    )


@asynccontextmanager
async def _serve_https(
    endpoints: HttpsEndpoints, configuration: Configuration, replica: Replica
) -> AsyncIterator[None]:
    metrics_address, visibility_address = configuration.metrics.address, configuration.visibility.address
    async with (
        endpoints.serving("metrics.bindAddress", metrics_address, metrics(replica), metrics_access),
        endpoints.serving(
            "visibilityServer",
            visibility_address,
            visibility(replica),
            pending_workloads_access,
            aggregated=True,
        ),
    ):
        yield


def _rate_limiter(settings: ClientConnection | None) -> TokenBucketRateLimiter | None:
    return None if settings is None else TokenBucketRateLimiter(settings.qps, settings.burst)


async def _announce(replica: Replica, server: str) -> None:
    await replica.ready.wait()
    logger(__name__).info("ready", server=server, role=replica.role)


class _Served(Struct):
    name: str


class _ServedList(Struct):
    resources: tuple[_Served, ...] = ()


async def _require_served_kinds(client: Client) -> None:
    """Raise ``UsageError`` if the cluster does not serve a kind, instead of waiting for it silently."""
    try:
        body = await client.request("GET", f"/apis/{GROUP}/{VERSION}")
    except NotFound:
        body = b"{}"
    served = {each.name for each in codec.decode(_ServedList, body).resources}
    missing = [resource.plural for resource in NEEDED if resource.plural not in served]
    if missing:
        raise UsageError(
            f"{client.config.server} does not serve {', '.join(missing)} of {GROUP}/{VERSION} "
            "(install the definitions: quorate crds --output crds, then kubectl apply --server-side -f crds)"
        )
