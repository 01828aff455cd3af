"""The process of the queueing controllers: the controllers and all servers that a Configuration asks for.

``quorate controllers`` runs it for any cluster, ``quorate local`` for its own.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.process import ClientConnection
from quorate.controllers.process import run_replica
from quorate.controllers.unserved import why_not_queued
from quorate.inspect.cluster_reader import ClusterReader
from quorate.install.controllers import CONFIGURATION_FILE, IN_FORCE_KEY, NEEDS_RESTART
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.flowcontrol import TokenBucketRateLimiter
from quorate.kube.log import logger
from quorate.kube.manager.election_thread import in_own_thread
from quorate.kube.manager.leader_election import WritePermit
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from quorate.kube.rest.config import RestConfig
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.explanations import Explainer
from quorate.observe.exposition import metrics_access
from quorate.observe.queueing_metrics import metrics
from quorate.observe.replica import Replica, Role
from quorate.observe.serving import HttpsEndpoints, health_checks, serving
from quorate.observe.visibility import visibility, visibility_access
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.estimation.cluster_models import ClusterModels
from quorate.processes.estimation.supervisor import run_estimation
from quorate.processes.process_setup import new_identity, require_served
from quorate.processes.stored_scheduler_configuration import keep_stored, plain

NEEDED: Final = (
    WORKLOADS,
    LOCAL_QUEUES,
    CLUSTER_QUEUES,
    RESOURCE_FLAVORS,
    COHORTS,
    ADMISSION_CHECKS,
    WORKLOAD_PRIORITY_CLASSES,
)


@dataclass(frozen=True, slots=True)
class ControllerProcess:
    replica: Replica
    webhooks: asyncio.Event | None  # set once webhooks are served; None: they are not configured

    async def started(self) -> None:
        """Return once the controllers and the webhooks run."""
        await self.replica.ready.wait()
        if self.webhooks is not None:
            await self.webhooks.wait()


@asynccontextmanager
async def run_controller_process(
    cluster: RestConfig,
    clock: Clock,
    rng: random.Random,
    in_force: ConfigurationInForce,
    connect: Callable[[], Awaitable[Client]],
) -> AsyncIterator[ControllerProcess]:
    """Run the controllers, and serve what the configuration asks for, while the block lasts.

    ``connect`` returns a client for leader election in a thread of its own.

    A part that fails ends the block with an ``ExceptionGroup``.  Raises ``CannotListen`` and ``UsageError``.
    """
    configuration = in_force.configured.current
    health = configuration.health
    webhooks = {"webhooks": asyncio.Event()} if configuration.webhooks.address is not None else {}
    role: Role = "follower" if configuration.leader_election.elect else "standalone"
    replica = Replica(role, configuration.metrics.custom_labels)
    permit = WritePermit(clock)
    async with (
        Client(cluster, rng) as client,
        Client(
            cluster,
            rng,
            on_response=replica.recorder.request_answered,
            rate_limiter=_rate_limiter(configuration.client_connection),
            permit=permit.refusal if configuration.leader_election.elect else None,
        ) as deciding_client,
        serving(
            "health.healthProbeBindAddress", health.address, health_checks(health, replica.ready, webhooks)
        ),
        _serve_https(
            client, HttpsEndpoints(DelegatedAuth(client, clock), configuration.tls), configuration, replica
        ),
    ):
        await require_served(client, NEEDED)
        async with asyncio.TaskGroup() as tasks:
            join = in_own_thread(connect, clock, new_identity, permit)
            # Start webhooks first: reading objects stored in an older version may call them.
            parts = [
                *(
                    tasks.create_task(_serve_webhooks(client, clock, configuration, ready))
                    for ready in webhooks.values()
                ),
                tasks.create_task(in_force.follow(clock)),
                tasks.create_task(
                    run_replica(deciding_client, clock, in_force.configured, rng, replica, join)
                ),
                tasks.create_task(_announce(replica, cluster.server)),
                tasks.create_task(store_in_force(deciding_client, clock, replica, in_force)),
            ]
            if configuration.estimates.cpu > 0:
                models = ClusterModels(clock)
                replica.estimates.ask_model = models.would_start
                parts.append(tasks.create_task(models.run()))
                estimation = run_estimation(replica, in_force, clock, configuration.estimates)
                parts.append(tasks.create_task(estimation))
            yield ControllerProcess(replica, webhooks.get("webhooks"))
            for part in parts:
                part.cancel()


async def _serve_webhooks(
    client: Client, clock: Clock, configuration: Configuration, serves: asyncio.Event
) -> None:
    from quorate.webhooks.process import run_webhooks  # with what it imports, 8 MB that other processes save

    await run_webhooks(client, clock, configuration, serves)


@asynccontextmanager
async def _serve_https(
    client: Client, endpoints: HttpsEndpoints, configuration: Configuration, replica: Replica
) -> AsyncIterator[None]:
    explainer = Explainer(
        replica, ClusterReader(client), endpoints.auth, why_not_queued, endpoints.auth.clock
    )
    metrics_address, visibility_address = configuration.metrics.address, configuration.visibility.address
    async with (
        endpoints.serving("metrics.bindAddress", metrics_address, metrics(replica), metrics_access),
        endpoints.serving(
            "visibilityServer.bindPort",
            visibility_address,
            visibility(replica, explainer),
            visibility_access,
            aggregated=True,
        ),
    ):
        yield


def _rate_limiter(settings: ClientConnection | None) -> TokenBucketRateLimiter | None:
    return None if settings is None else TokenBucketRateLimiter(settings.qps, settings.burst)


async def _announce(replica: Replica, server: str) -> None:
    await replica.ready.wait()
    logger(__name__).info("ready", server=server, role=replica.role)


async def store_in_force(
    client: Client, clock: Clock, replica: Replica, in_force: ConfigurationInForce
) -> None:
    """Store the Configuration in force for the commands that judge by it; see ``keep_stored``.

    The controllers that decide write it into a ConfigMap of ``kube-public``, a namespace that every cluster
    has, so that a command finds it wherever the controllers are installed or run.  It differs from the file
    of an installation: an invalid file is ignored, some fields take effect at a restart, and a process may
    have another file.  A Configuration contains names of Secrets and no secret; comments are left out.
    """

    def decides() -> bool:
        return replica.ready.is_set() and replica.role != "follower"

    await keep_stored(
        client, clock, IN_FORCE_KEY, decides, lambda: stored_content(in_force.text, in_force.needs_restart)
    )


def stored_content(text: str, needs_restart: tuple[str, ...]) -> dict[str, str]:
    """Return the data of the ConfigMap for a valid file, without its comments."""
    return {CONFIGURATION_FILE: plain(text), NEEDS_RESTART: ", ".join(needs_restart)}
