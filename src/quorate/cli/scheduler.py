"""``quorate scheduler``: run the gang scheduler for a cluster."""

import asyncio
import logging
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from quorate.api.configuration.process import Address, Health
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.meta import Key
from quorate.api.syntax import is_dns_label
from quorate.api.volcano import GROUP, VERSION
from quorate.cli.configuration_options import SchedulerConf, SchedulerNames
from quorate.cli.configuration_reload import SchedulerConfigurationInForce
from quorate.cli.process_options import Context, Kubeconfig, LogFormat, Verbose, listen_address
from quorate.cli.stored_scheduler_configuration import store_scheduler_in_force
from quorate.inspect.configuration_files import read_scheduler_configuration_text
from quorate.inspect.errors import UsageError
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.log import configure, logger
from quorate.kube.manager.election_thread import in_own_thread
from quorate.kube.manager.leader_election import LeaseTimings, WritePermit
from quorate.kube.rest.config import load_rest_config
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.kube.serving.front_proxy import FrontProxyVerifier
from quorate.observe.exposition import metrics_access
from quorate.observe.gang_metrics import GangMetrics
from quorate.observe.https_endpoints import HttpsEndpoints
from quorate.observe.serving import health_checks, serving
from quorate.processes.process_setup import (
    election_client,
    new_identity,
    raise_file_limit,
    tune_garbage_collection,
    wait_for_signal,
)
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import LEASE_NAME, ElectionOptions, run_scheduler, served_kinds
from quorate.scheduler.scheduler import SCHEDULER_NAMES, Options

NEEDED = ("podgroups", "queues")


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
        typer.Option(
            metavar="SECONDS", min=0.0, max=3600.0, help="The minimum time between two scheduling sessions."
        ),
    ] = 0.05,
    binds_at_once: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many pods are bound concurrently.")
    ] = 64,
    provisioning_class: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Create ProvisioningRequests of this class for pod groups that fit no nodes. "
            "Default: none are created.",
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
        bool, typer.Option("--leader-elect", help="Elect a leader among replicas, by a Lease.")
    ] = False,
    lease_namespace: Annotated[
        str, typer.Option(metavar="NAMESPACE", parser=_namespace, help="The namespace of that Lease.")
    ] = "quorate-system",
    health_address: Annotated[
        Address | None,
        typer.Option(
            metavar="ADDRESS",
            parser=listen_address,
            help="The address for the probes of the kubelet, such as :8081. Default: none.",
            show_default=False,
        ),
    ] = None,
    metrics_address: Annotated[
        Address | None,
        typer.Option(
            metavar="ADDRESS",
            parser=listen_address,
            help="The address for Prometheus, such as :8080. Other than on localhost: over TLS, for clients "
            "with permission to get /metrics. Default: none.",
            show_default=False,
        ),
    ] = None,
    log_format: LogFormat = "console",
    verbose: Verbose = False,
) -> None:
    """Run the gang scheduler for a cluster until Ctrl-C or SIGTERM.

    It schedules pods with its schedulerName. Pods of a PodGroup (scheduling.volcano.sh) get nodes together:
    at least minMember of them, or none. All state is in the cluster, so it can be stopped and restarted at
    any time.

    [b]Example:[/b] quorate scheduler --scheduler-conf volcano-scheduler.conf
    """
    text, loaded = read_scheduler_configuration_text(scheduler_conf)
    configure(log_format, logging.DEBUG if verbose else logging.INFO)
    for warning in loaded.warnings:
        logger(__name__).warning("configuration", file=scheduler_conf, finding=warning)
    in_force = SchedulerConfigurationInForce(scheduler_conf, text, loaded.configuration)
    options = Options(
        names=tuple(scheduler_name) if scheduler_name else SCHEDULER_NAMES,
        period_s=schedule_period,
        bind_workers=binds_at_once,
        provisioning_class=provisioning_class,
        legacy_apis=legacy_apis,
    )
    lease = Key(lease_namespace, LEASE_NAME) if leader_elect else None
    addresses = ListenAddresses(health_address, metrics_address)
    raise_file_limit()
    tune_garbage_collection()
    uvloop.run(_serve(kubeconfig, context, in_force, options, lease, addresses))


@dataclass(frozen=True, slots=True)
class ListenAddresses:
    """The addresses to serve on; None: not served."""

    health: Address | None
    metrics: Address | None


async def _serve(
    kubeconfig: Path | None,
    context: str,
    in_force: SchedulerConfigurationInForce,
    options: Options,
    lease: Key | None,
    addresses: ListenAddresses,
) -> None:
    log = logger(__name__)
    clock = WallClock()
    status = SchedulerStatus()
    rest_config = await load_rest_config(kubeconfig, context)
    permit = WritePermit(clock)
    join = in_own_thread(election_client(kubeconfig, context), clock, new_identity, permit)
    election = None if lease is None else ElectionOptions(lease, LeaseTimings(), join)
    probes = health_checks(Health(), status.ready, {})
    gang_metrics = GangMetrics(status, clock)
    async with (
        Client(rest_config, random.Random()) as client,
        Client(
            rest_config,
            random.Random(),
            on_response=gang_metrics.request_answered,
            permit=permit.refusal if lease is not None else None,
        ) as deciding_client,
        serving("--health-address", addresses.health, probes),
        HttpsEndpoints(
            DelegatedAuth(client, clock), partial(FrontProxyVerifier, client), clock, TlsOptions()
        ).serving("--metrics-address", addresses.metrics, gang_metrics.application(), metrics_access),
    ):
        await _require_served_kinds(client)
        async with asyncio.TaskGroup() as tasks:
            parts = [
                tasks.create_task(
                    run_scheduler(deciding_client, clock, options, in_force.configured, status, election)
                ),
                tasks.create_task(_announce(status, client.config.server, options.names)),
                tasks.create_task(in_force.follow(clock)),
                tasks.create_task(
                    store_scheduler_in_force(deciding_client, clock, status, lambda: in_force.text)
                ),
            ]
            await wait_for_signal(lambda: log.info("starting", server=client.config.server))
            log.info("stopping")
            for part in parts:
                part.cancel()


async def _announce(status: SchedulerStatus, server: str, names: tuple[str, ...]) -> None:
    await status.ready.wait()
    logger(__name__).info("ready", server=server, scheduler_names=", ".join(names))


async def _require_served_kinds(client: Client) -> None:
    """Raise ``UsageError`` if the cluster does not serve a kind, instead of waiting for it silently."""
    served = await served_kinds(client)
    missing = [plural for plural in NEEDED if plural not in served.plurals]
    if missing:
        raise UsageError(
            f"{client.config.server} does not serve {', '.join(missing)} of {GROUP}/{VERSION} "
            "(install the definitions: quorate crds --output crds, then "
            "kubectl apply --server-side -f crds/gang)"
        )
