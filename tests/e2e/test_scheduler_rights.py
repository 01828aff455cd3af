"""The gang scheduler runs as its service account with exactly its installed roles."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import load_scheduler_configuration
from quorate.install import scheduler
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.manager.leader_election import LeaseTimings
from quorate.kube.resources import (
    CONFIG_MAPS,
    LEASES,
    NODES,
    POD_GROUPS,
    PRIORITY_CLASSES,
    PROVISIONING_REQUESTS,
    QUEUES,
    untyped,
)
from quorate.kube.serving.delegated_auth import DelegatedAuth, PathAccess, User
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import install_definitions
from quorate.processes.stored_scheduler_configuration import store_scheduler_in_force
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import LEASE_NAME, ElectionOptions, run_scheduler
from quorate.scheduler.scheduler import Options
from tests.e2e import shared_clusters
from tests.e2e.gangs import GangWorld, running_gang_cluster
from tests.e2e.minimal_definitions import definition
from tests.e2e.service_accounts import RecordingClient, as_account
from tests.e2e.test_provisioning import REQUEST_KIND
from tests.e2e.world import NAMESPACE
from tests.elections import in_this_loop

pytestmark = pytest.mark.slow

SYSTEM = scheduler.NAMESPACE
CONFIGURATION = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: predicates}, {name: nodeorder}]
"""
EXERCISED = {
    "POST queues", "PATCH queues/status", "PATCH podgroups", "POST pods/binding", "PATCH pods/status",
    "DELETE pods", "POST events", "POST leases", "PATCH leases", "POST tokenreviews",
    "POST subjectaccessreviews", "PATCH configmaps",
}  # fmt: skip


@asynccontextmanager
async def running_scheduler(
    world: GangWorld, client: RecordingClient, options: Options
) -> AsyncIterator[None]:
    """Run a scheduler for the duration of the block; its failure fails the test."""
    configured = DynamicConfiguration(load_scheduler_configuration(CONFIGURATION).configuration)
    join = in_this_loop(client, WallClock(), lambda: "me")
    elected = ElectionOptions(Key(SYSTEM, LEASE_NAME), LeaseTimings(), join)
    seen = SchedulerStatus()
    running = asyncio.create_task(run_scheduler(client, WallClock(), options, configured, seen, elected))
    storing = asyncio.create_task(store_scheduler_in_force(client, WallClock(), seen, lambda: CONFIGURATION))

    async def has_its_queues() -> bool:
        assert not running.done(), running.exception()
        return {queue.metadata.name for queue in (await world.client.list(QUEUES)).items} == {
            "root", "default"
        }  # fmt: skip

    try:
        await world.until("the built-in queues exist", has_its_queues)
        yield
    finally:
        running.cancel()
        storing.cancel()
        await asyncio.gather(running, storing, return_exceptions=True)
        assert seen.model is None, "a stopped scheduler exports no model"


def test_the_scheduler_roles_suffice_for_gangs_and_grant_nothing_else() -> None:
    async def story() -> None:
        async with (
            running_gang_cluster(NodePool(1, cpu="4")) as world,
            as_account(world.client, scheduler.ACCOUNT, SYSTEM, scheduler.roles(SYSTEM)) as client,
        ):
            async with running_scheduler(world, client, Options()):
                await live(world)
                await world.until("the configuration is stored", partial(has_stored, client))
            reviewer = DelegatedAuth(client, WallClock())
            assert await reviewer.authenticate("of no user") is None
            assert not await reviewer.is_allowed(User("stranger"), PathAccess("get", "/metrics"))
            assert client.forbidden == []
            assert not EXERCISED - client.succeeded.keys(), "the story does not use all rights"
            lease = await world.client.get(LEASES, Key(SYSTEM, LEASE_NAME))
            assert lease.spec.holder_identity == "", "the lease is released"
            for forbidden in (
                client.list(untyped("", "v1", "secrets", "Secret", True), NAMESPACE),
                client.patch(NODES, Key("", "node-1"), {"spec": {"unschedulable": True}}),
                client.delete(POD_GROUPS, Key(NAMESPACE, "low")),
                client.create(PROVISIONING_REQUESTS, {"metadata": {"name": "a"}}, NAMESPACE),
                client.apply(CONFIG_MAPS, Key("kube-public", "cluster-info"), {"data": {}}),
            ):
                with pytest.raises(Forbidden):
                    await forbidden

    shared_clusters.run(story())


async def has_stored(client: RecordingClient) -> bool:
    return "PATCH configmaps" in client.succeeded


async def live(world: GangWorld) -> None:
    """A gang fills the node; a gang of higher priority preempts its surplus over minMember."""
    await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    await world.group("low", 1)
    await world.until_phase("low", "Inqueue")
    await world.pods("low", 2, cpu="2")
    await world.until_bound(low=2)
    await world.until_phase("low", "Running")
    await world.group("urgent", 1, priorityClassName="high")
    await world.until_phase("urgent", "Inqueue")
    await world.pods("urgent", 1, cpu="2", priorityClassName="high")
    await world.until_bound(low=1, urgent=1)
    await world.until_queue_allocated("default", cpu="4", pods="2")


def test_provisioning_requests_need_a_separate_role() -> None:
    async def story() -> None:
        roles = [*scheduler.roles(SYSTEM), *scheduler.demand_roles(SYSTEM)]
        async with (
            running_gang_cluster(NodePool(1, cpu="4")) as world,
            as_account(world.client, scheduler.ACCOUNT, SYSTEM, roles) as client,
        ):
            await install_definitions(world.client, [definition(REQUEST_KIND)])
            async with running_scheduler(world, client, Options(provisioning_class="nodes")):
                await world.group("large", 2, {"cpu": "8"})
                await world.until("a provisioning request exists", requests(world, 1))
                smaller: dict[str, Any] = {"spec": {"minResources": {"cpu": "2"}}}
                await world.client.patch(POD_GROUPS, Key(NAMESPACE, "large"), smaller)
                await world.until_phase("large", "Inqueue")
                await world.until("the provisioning request is deleted", requests(world, 0))
            assert client.forbidden == []
            assert {"POST podtemplates", "DELETE provisioningrequests"} <= client.succeeded.keys()

    shared_clusters.run(story())


def requests(world: GangWorld, count: int) -> Any:
    async def find() -> bool:
        return len((await world.client.list(PROVISIONING_REQUESTS)).items) == count

    return find
