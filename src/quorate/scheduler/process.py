"""The gang scheduler as one of several replicas, by the configuration in force.

A replica that stands by keeps nothing: binding begins seconds after a list of everything (see bench/gang),
and a copy kept meanwhile would have to be listed anew all the same, lest it lag behind what the last leader
wrote.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.api import codec
from quorate.api.meta import Key, Struct
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.volcano import GROUP, VERSION
from quorate.kube import leader_election
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.dynamic_configuration import DynamicConfiguration, run_with_current
from quorate.kube.errors import ApiError, NotFound, Unreachable, Unreadable
from quorate.kube.flowcontrol import Backoff
from quorate.kube.leader_election import LeaseTimings
from quorate.kube.log import logger
from quorate.scheduler.scheduler import Options, Scheduler, SchedulerStatus

# Volcano's own scheduler takes the lease "volcano": the two must not share it, as each has pods of its own.
LEASE_NAME: Final = "quorate-scheduler"
AGAIN: Final = Backoff(first_s=0.5, cap_s=10.0)


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    """By which lease replicas agree on the one that decides."""

    lease: Key
    terms: LeaseTimings
    new_identity: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Served:
    """What the cluster serves of Volcano's scheduling kinds."""

    plurals: frozenset[str]

    @property
    def status_subresource(self) -> str:
        """Where pod groups have their status: Volcano's definition has it in the object itself."""
        return "status" if "podgroups/status" in self.plurals else ""


async def run_scheduler(
    client: Client,
    clock: Clock,
    options: Options,
    configured: DynamicConfiguration[SchedulerConfiguration],
    seen: SchedulerStatus,
    elected: ElectionOptions | None,
) -> None:
    """Run until cancelled: decide always, or with ``elected`` while elected."""

    async def lead() -> None:
        served = await _until_answered(client, clock)
        try:
            await run_with_current(
                configured,
                lambda settings: Scheduler(
                    client, clock, options, settings, seen, status_subresource=served.status_subresource
                ).run(),
            )
        finally:
            seen.model = None  # another replica tells of it from now on

    async def stand_by() -> None:
        seen.ready.set()
        await asyncio.Event().wait()

    if elected is None:
        await lead()
        return
    await leader_election.run(
        client,
        clock,
        elected.lease,
        elected.terms,
        elected.new_identity,
        follow=stand_by,
        lead=lead,
    )


async def _until_answered(client: Client, clock: Clock) -> Served:
    """What is served, as soon as the cluster says so."""
    failures = 0
    while True:
        try:
            return await served_kinds(client)
        except (ApiError, Unreachable, Unreadable) as error:
            failures += 1
            again_in_s = AGAIN.jittered_s(failures, client.rng)
            logger(__name__).warning("waiting for the cluster", problem=str(error), again_in_s=again_in_s)
            await clock.steady.sleep_until(clock.steady.now() + again_in_s)


class _Resource(Struct):
    name: str


class _ResourceList(Struct):
    resources: tuple[_Resource, ...] = ()


async def served_kinds(client: Client) -> Served:
    try:
        body = await client.request("GET", f"/apis/{GROUP}/{VERSION}")
    except NotFound:
        return Served(frozenset())
    return Served(frozenset(each.name for each in codec.decode(_ResourceList, body).resources))
