"""The gang scheduler process: leader election among replicas, and restarts with a new configuration.

A replica that is not the leader keeps no copies: a new leader begins to bind seconds after it has listed
everything (see bench/gang), and copies kept before would have to be listed again, because they might lack the
last writes of the previous leader.
"""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Final

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.volcano import GROUP, VERSION
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import served_resources
from quorate.kube.flowcontrol import until_answered
from quorate.kube.manager import leader_election
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration, run_with_current
from quorate.kube.manager.leader_election import JoinElection, LeaseTimings
from quorate.kube.manager.restart import run_restarting
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.scheduler import Options, Scheduler

# Not "volcano", the lease of Volcano's scheduler: both may run, each with pods of its own.
LEASE_NAME: Final = "quorate-scheduler"


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    lease: Key
    timings: LeaseTimings
    join: JoinElection


@dataclass(frozen=True, slots=True)
class ServedKinds:
    """What the cluster serves of Volcano's scheduling API, subresources included."""

    plurals: frozenset[str]

    @property
    def status_subresource(self) -> str:
        """The subresource of pod group statuses; "" for Volcano's definition, which has none."""
        return "status" if "podgroups/status" in self.plurals else ""


async def run_scheduler(
    client: Client,
    clock: Clock,
    options: Options,
    configuration: DynamicConfiguration[SchedulerConfiguration],
    status: SchedulerStatus,
    election: ElectionOptions | None,
) -> None:
    """Run until cancelled, with ``election`` only while elected."""

    async def run(status_subresource: str) -> None:
        await run_with_current(
            configuration,
            lambda settings: Scheduler(
                client, clock, options, settings, status, status_subresource=status_subresource
            ).run(),
        )

    async def lead() -> None:
        served = await until_answered(lambda: served_kinds(client), clock, client.rng)
        try:
            await run_restarting("scheduler", partial(run, served.status_subresource), clock)
        finally:
            status.model = None  # from now on another replica reports on its model

    async def follow() -> None:
        status.ready.set()
        await asyncio.Event().wait()

    if election is None:
        await lead()
        return
    candidate = election.join(election.lease, election.timings)
    await leader_election.run(client, candidate, follow=follow, lead=lead)


async def served_kinds(client: Client) -> ServedKinds:
    served = await served_resources(client, f"{GROUP}/{VERSION}")
    return ServedKinds(frozenset(resource.name for resource in served))
