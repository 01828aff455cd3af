"""The process of the witness: its comparisons, their events, its probes and its metrics."""

import asyncio
import random
from pathlib import Path

from quorate.api.configuration.process import Address, Health
from quorate.api.configuration.webhooks import TlsOptions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.events import EventRecorder
from quorate.kube.log import logger
from quorate.kube.resources import WORKLOADS
from quorate.kube.rest.config import RestConfig, load_rest_config
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.exposition import metrics_access, metrics_application
from quorate.observe.serving import HttpsEndpoints, health_checks, serving
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.process_setup import require_served, run_until_stopped
from quorate.witness.metrics import COMPONENT, WitnessEvents, WitnessMetrics
from quorate.witness.process import Options, run_witness
from quorate.witness.report import Report


async def run_witness_process(
    kubeconfig: Path | None,
    context: str,
    in_force: ConfigurationInForce,
    options: Options,
    health_address: Address | None,
    metrics_address: Address | None,
) -> None:
    """Run the witness and serve its probes and metrics until SIGINT or SIGTERM.

    Raises ``UsageError`` if the cluster serves no workloads.
    """
    log = logger(__name__)
    clock = WallClock()
    rest_config: RestConfig = await load_rest_config(kubeconfig, context)
    observed = asyncio.Event()
    metrics = WitnessMetrics()
    async with (
        Client(rest_config, random.Random()) as client,
        serving("--health-address", health_address, health_checks(Health(), observed, {})),
        HttpsEndpoints(DelegatedAuth(client, clock), TlsOptions()).serving(
            "--metrics-address", metrics_address, metrics_application(metrics.registry), metrics_access
        ),
    ):
        await require_served(client, (WORKLOADS,))
        recorder = EventRecorder(client, clock, COMPONENT)
        events = WitnessEvents(recorder, clock)

        def on_report(report: Report) -> None:
            metrics.reported(report)
            events.reported(report)
            if not observed.is_set():
                observed.set()
                log.info("ready", server=rest_config.server, differences=len(report.differences))

        await run_until_stopped(
            rest_config.server,
            run_witness(client, clock, options, lambda: in_force.configured.current.resources, on_report),
            recorder.run(),
            in_force.follow(clock),
        )
