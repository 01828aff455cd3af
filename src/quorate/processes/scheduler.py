"""The process of the gang scheduler: the scheduler, its probes and its metrics."""

import random
from dataclasses import dataclass
from pathlib import Path

from quorate.api.configuration.process import Address, Health
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.log import logger
from quorate.kube.manager.election_thread import in_own_thread
from quorate.kube.manager.leader_election import LeaseTimings, WritePermit
from quorate.kube.resources import POD_GROUPS, QUEUES
from quorate.kube.rest.config import load_rest_config
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.exposition import metrics_access
from quorate.observe.gang_metrics import GangMetrics
from quorate.observe.serving import HttpsEndpoints, health_checks, serving
from quorate.processes.configuration_reload import SchedulerConfigurationInForce
from quorate.processes.process_setup import election_client, new_identity, require_served, run_until_stopped
from quorate.processes.stored_scheduler_configuration import store_scheduler_in_force
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import ElectionOptions, run_scheduler
from quorate.scheduler.scheduler import Options


@dataclass(frozen=True, slots=True)
class ListenAddresses:
    """The addresses to serve on; None: not served."""

    health: Address | None
    metrics: Address | None


async def run_scheduler_process(
    kubeconfig: Path | None,
    context: str,
    in_force: SchedulerConfigurationInForce,
    options: Options,
    lease: Key | None,
    addresses: ListenAddresses,
) -> None:
    """Run the gang scheduler and serve its probes and metrics until SIGINT or SIGTERM.

    ``lease`` None: without leader election.  Raises ``UsageError`` if the cluster lacks a kind.
    """
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
        HttpsEndpoints(DelegatedAuth(client, clock), TlsOptions()).serving(
            "--metrics-address", addresses.metrics, gang_metrics.application(), metrics_access
        ),
    ):
        await require_served(client, (POD_GROUPS, QUEUES), "crds/gang")
        await run_until_stopped(
            client.config.server,
            run_scheduler(deciding_client, clock, options, in_force.configured, status, election),
            _announce(status, client.config.server, options.names),
            in_force.follow(clock),
            store_scheduler_in_force(deciding_client, clock, status, lambda: in_force.text),
        )


async def _announce(status: SchedulerStatus, server: str, names: tuple[str, ...]) -> None:
    await status.ready.wait()
    logger(__name__).info("ready", server=server, scheduler_names=", ".join(names))
