"""``quorate scheduler``: the gang scheduler for any cluster."""

import asyncio
import logging
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from quorate.api.configuration.process import Address, Health, parse_address
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.syntax import is_dns_label
from quorate.api.volcano import GROUP, VERSION
from quorate.cli.configuration_reload import follow
from quorate.cli.errors import UsageError
from quorate.cli.files import (
    SchedulerConf,
    SchedulerNames,
    read_scheduler_configuration,
    scheduler_configuration_in,
)
from quorate.cli.process import (
    Context,
    Kubeconfig,
    LogFormat,
    Verbose,
    new_identity,
    tune_garbage_collection,
    wait_for_signal,
)
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.log import configure, logger
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.manager.leader_election import LeaseTimings
from quorate.kube.rest.config import load_rest_config
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.kube.serving.front_proxy import FrontProxyVerifier
from quorate.observe.exposition import metrics_access
from quorate.observe.gang_metrics import GangMetrics
from quorate.observe.https_endpoints import HttpsEndpoints
from quorate.observe.serving import health_checks, serving
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import LEASE_NAME, ElectionOptions, run_scheduler, served_kinds
from quorate.scheduler.scheduler import SCHEDULER_NAMES, Options

NEEDED = ("podgroups", "queues")


def _address(written: str) -> Address:
    address = parse_address(written)
    if address is None:
        raise typer.BadParameter(f"{written!r} is no address (write :8081 or 127.0.0.1:8081)")
    return address


def _namespace(written: str) -> str:
    if not is_dns_label(written):
        raise typer.BadParameter(
            f"{written!r} is no namespace (at most 63 lower case letters, digits and '-')"
        )
    return written


def scheduler(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    scheduler_conf: SchedulerConf = None,
    scheduler_name: SchedulerNames = None,
    schedule_period: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.0, max=3600.0, help="The least time between two sessions."),
    ] = 0.05,
    binds_at_once: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many pods are bound side by side.")
    ] = 64,
    provisioning_class: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Ask an autoscaler for nodes that pod groups lack, by ProvisioningRequests of this class. "
            "Default: do not ask.",
            show_default=False,
        ),
    ] = "",
    legacy_apis: Annotated[
        bool,
        typer.Option(
            "--legacy-apis",
            help="Also read pod groups and queues of scheduling.incubator.k8s.io and scheduling.sigs.dev.",
        ),
    ] = False,
    leader_elect: Annotated[
        bool, typer.Option("--leader-elect", help="Of several replicas let one decide, by a lease.")
    ] = False,
    lease_namespace: Annotated[
        str, typer.Option(metavar="NAMESPACE", parser=_namespace, help="Where that lease is.")
    ] = "quorate-system",
    health_address: Annotated[
        Address | None,
        typer.Option(
            metavar="ADDRESS",
            parser=_address,
            help="Where to answer a kubelet's probes, such as :8081. Default: nowhere.",
            show_default=False,
        ),
    ] = None,
    metrics_address: Annotated[
        Address | None,
        typer.Option(
            metavar="ADDRESS",
            parser=_address,
            help="Where to answer Prometheus, such as :8080; beyond this machine over TLS, only to who "
            "may read metrics. Default: nowhere.",
            show_default=False,
        ),
    ] = None,
    log_format: LogFormat = "console",
    verbose: Verbose = False,
) -> None:
    """Run the gang scheduler for a cluster until Ctrl-C or SIGTERM.

    Pods of a pod group (scheduling.volcano.sh) that name it as their scheduler get nodes together: as many
    as the group needs, or none. Other pods are left to the schedulers they name.
    It may be stopped at any moment and started anew: all it knows is in the cluster.

    [b]Example:[/b] quorate scheduler --scheduler-conf volcano-scheduler.conf
    """
    loaded = read_scheduler_configuration(scheduler_conf)
    configure(log_format, logging.DEBUG if verbose else logging.INFO)
    for warning in loaded.warnings:
        logger(__name__).warning("configuration", file=scheduler_conf, finding=warning)
    configured = DynamicConfiguration(loaded.configuration)
    options = Options(
        names=tuple(scheduler_name) if scheduler_name else SCHEDULER_NAMES,
        period_s=schedule_period,
        bind_workers=binds_at_once,
        provisioning_class=provisioning_class,
        legacy_apis=legacy_apis,
    )
    lease = Key(lease_namespace, LEASE_NAME) if leader_elect else None
    listening = ListenAddresses(health_address, metrics_address)
    tune_garbage_collection()
    uvloop.run(_serve(kubeconfig, context, scheduler_conf, configured, options, lease, listening))


@dataclass(frozen=True, slots=True)
class ListenAddresses:
    """Where the process answers; ``None``: nowhere."""

    health: Address | None
    metrics: Address | None


async def _serve(
    kubeconfig: Path | None,
    context: str,
    conf: Path | None,
    configured: DynamicConfiguration[SchedulerConfiguration],
    options: Options,
    lease: Key | None,
    listening: ListenAddresses,
) -> None:
    log = logger(__name__)
    clock = WallClock()
    status = SchedulerStatus()
    elected = None if lease is None else ElectionOptions(lease, LeaseTimings(), new_identity)
    probes = health_checks(Health(), status.ready, {})
    counted = GangMetrics(status, clock)
    async with (
        Client(await load_rest_config(kubeconfig, context), random.Random()) as client,
        serving("--health-address", listening.health, probes),
        HttpsEndpoints(
            DelegatedAuth(client, clock), partial(FrontProxyVerifier, client), clock, TlsOptions()
        ).serving("--metrics-address", listening.metrics, counted.application(), metrics_access),
    ):
        await _require_served_kinds(client)
        async with asyncio.TaskGroup() as tasks:
            parts = [
                tasks.create_task(run_scheduler(client, clock, options, configured, status, elected)),
                tasks.create_task(_announce(status, client.config.server, options.names)),
            ]
            if conf is not None:
                following = follow(conf, clock, lambda text: _take_over(conf, text, configured))
                parts.append(tasks.create_task(following))
            await wait_for_signal(lambda: log.info("starting", server=client.config.server))
            log.info("stopping")
            for part in parts:
                part.cancel()


def _take_over(path: Path, text: str, configured: DynamicConfiguration[SchedulerConfiguration]) -> None:
    """Raises ``InvalidFiles``."""
    loaded = scheduler_configuration_in(path, text)
    if loaded.configuration == configured.current:
        return
    for warning in loaded.warnings:
        logger(__name__).warning("configuration", file=path, finding=warning)
    configured.update(loaded.configuration)


async def _announce(status: SchedulerStatus, server: str, names: tuple[str, ...]) -> None:
    await status.ready.wait()
    logger(__name__).info("ready", server=server, scheduler_names=", ".join(names))


async def _require_served_kinds(client: Client) -> None:
    """Raise ``UsageError`` when the cluster lacks a kind, rather than wait for it without a word."""
    served = await served_kinds(client)
    missing = [plural for plural in NEEDED if plural not in served.plurals]
    if missing:
        raise UsageError(
            f"{client.config.server} does not serve {', '.join(missing)} of {GROUP}/{VERSION} "
            "(install the definitions: quorate crds --output crds, then "
            "kubectl apply --server-side -f crds/gang)"
        )
