"""``quorate witness``: compare what pods use with quota and with the nodes."""

import asyncio
import logging
import random
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from quorate.api.configuration.process import Address, Health
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.kueue import GROUP, VERSION
from quorate.cli.configuration_reload import ConfigurationInForce
from quorate.cli.process_options import Context, Kubeconfig, LogFormat, Verbose, listen_address
from quorate.inspect.configuration_files import read_configuration_text
from quorate.inspect.errors import UsageError
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.events import EventRecorder
from quorate.kube.log import configure, logger
from quorate.kube.resources import WORKLOADS
from quorate.kube.rest.config import RestConfig, load_rest_config
from quorate.kube.rest.discovery import plural_of
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.kube.serving.front_proxy import FrontProxyVerifier
from quorate.observe.exposition import metrics_access, metrics_application
from quorate.observe.https_endpoints import HttpsEndpoints
from quorate.observe.serving import health_checks, serving
from quorate.processes.process_setup import raise_file_limit, tune_garbage_collection, wait_for_signal
from quorate.witness.metrics import COMPONENT, WitnessEvents, WitnessMetrics
from quorate.witness.process import Options, run_witness
from quorate.witness.report import Report


def witness(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The Configuration of the controllers, for its resource transformations. "
            "Default: all defaults.",
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="Report a difference that lasts longer: more than pods take to terminate.",
        ),
    ] = 60.0,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="The minimum time between two comparisons.")
    ] = 1.0,
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
    """Compare what pods use with quota and with the nodes, until Ctrl-C or SIGTERM.

    It changes nothing and shares no code with the controllers that give quota: it sums the requests of the
    pods that run, by their cluster queue, flavor and node, and compares the sums with the quota of cluster
    queues and cohorts, and with what nodes can allocate. A difference that lasts is a log message, an Event
    about the ClusterQueue, Cohort or Node that names the pods, and the metric
    [b]quorate_witness_excess[/b].

    Reasons: [b]OverLimit[/b], [b]OutsideQuota[/b] (the pods of a workload use more than it was admitted
    with), [b]OverAllocatable[/b] and [b]WithoutAdmission[/b] (the workload of running pods has no quota) are
    faults of a controller, or pods that a user started around the queue.
    [b]LimitLowered[/b]: an administrator lowered the quota of what runs. [b]BeforeStart[/b]: the pods were
    there before the witness.

    [b]Example:[/b] quorate witness --config configuration.yaml --metrics-address 127.0.0.1:8080
    """
    text, loaded = read_configuration_text(config)
    configure(log_format, logging.DEBUG if verbose else logging.INFO)
    in_force = ConfigurationInForce(config, text, loaded.configuration, lambda new: new)
    raise_file_limit()
    tune_garbage_collection()
    uvloop.run(
        _serve(kubeconfig, context, in_force, Options(grace, interval), health_address, metrics_address)
    )


async def _serve(
    kubeconfig: Path | None,
    context: str,
    in_force: ConfigurationInForce,
    options: Options,
    health_address: Address | None,
    metrics_address: Address | None,
) -> None:
    log = logger(__name__)
    clock = WallClock()
    rest_config: RestConfig = await load_rest_config(kubeconfig, context)
    observed = asyncio.Event()
    metrics = WitnessMetrics()
    async with (
        Client(rest_config, random.Random()) as client,
        serving("--health-address", health_address, health_checks(Health(), observed, {})),
        HttpsEndpoints(
            DelegatedAuth(client, clock), partial(FrontProxyVerifier, client), clock, TlsOptions()
        ).serving(
            "--metrics-address", metrics_address, metrics_application(metrics.registry), metrics_access
        ),
    ):
        await _require_workloads(client)
        recorder = EventRecorder(client, clock, COMPONENT)
        events = WitnessEvents(recorder, clock)

        def on_report(report: Report) -> None:
            metrics.reported(report)
            events.reported(report)
            if not observed.is_set():
                observed.set()
                log.info("ready", server=rest_config.server, differences=len(report.differences))

        async with asyncio.TaskGroup() as tasks:
            parts = [
                tasks.create_task(
                    run_witness(
                        client,
                        clock,
                        options,
                        lambda: in_force.configured.current.resources,
                        on_report,
                    )
                ),
                tasks.create_task(recorder.run()),
                tasks.create_task(in_force.follow(clock)),
            ]
            await wait_for_signal(lambda: log.info("starting", server=rest_config.server))
            log.info("stopping")
            for part in parts:
                part.cancel()


async def _require_workloads(client: Client) -> None:
    """Raise ``UsageError`` if the cluster does not serve workloads, instead of waiting for them silently."""
    if not await plural_of(client, WORKLOADS.api_version, WORKLOADS.kind):
        raise UsageError(
            f"{client.config.server} does not serve workloads of {GROUP}/{VERSION} "
            "(install the definitions: quorate crds --output crds, then "
            "kubectl apply --server-side -f crds)"
        )
