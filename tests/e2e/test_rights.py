"""The controllers run as their service account with exactly the roles of ``deploy/``."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import DEFAULT_NAMESPACE, Configuration, load_configuration
from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import Webhooks
from quorate.api.meta import Key
from quorate.controllers.informers import CacheSyncTimeout
from quorate.controllers.process import run_replica
from quorate.install.controller_rules import CONTROLLER_RULES
from quorate.install.manifests import webhooks
from quorate.install.roles import ACCOUNT, account_roles, controller_roles
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LEASES,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    untyped,
)
from quorate.observe.replica import Replica
from quorate.webhooks.process import run_webhooks
from quorate.webhooks.serving_certificate import MUTATING, VALIDATING
from tests.e2e import shared_clusters, test_kinds, test_node_failures, test_retention
from tests.e2e.kinds import JOB_SET, RAY_CLUSTER, TRAIN_JOB, Example
from tests.e2e.service_accounts import RecordingClient, as_account
from tests.e2e.test_provisioning import checked_queue, requested, set_condition
from tests.e2e.topologies import create_topology
from tests.e2e.worker_clusters import (
    create_check,
    create_cluster,
    create_secret,
    kubeconfig,
    until_active,
    worker_cluster,
)
from tests.e2e.world import NAMESPACE, WITHIN_S, World, running_cluster
from tests.elections import in_this_loop

pytestmark = pytest.mark.slow

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection: {leaderElect: true}
waitForPodsReady: {timeout: 10m}
objectRetentionPolicies: {workloads: {afterFinished: 1s}}
integrations: {frameworks: [batch/job, pod]}
podGroupWebhooks: {}
"""


@asynccontextmanager
async def as_controller_account(world: World) -> AsyncIterator[RecordingClient]:
    """Return a client with the installed roles of the controllers."""
    roles = controller_roles(DEFAULT_NAMESPACE)
    async with as_account(world.client, ACCOUNT, DEFAULT_NAMESPACE, roles) as client:
        yield client


def test_the_controller_roles_suffice_for_jobs_and_grant_nothing_else() -> None:
    async def story() -> None:
        async with running_cluster() as world, as_controller_account(world) as client:
            configuration = load_configuration(CONFIGURATION).configuration
            async with running_controllers(client, configuration) as replica:
                await world.until("the replica leads", lambda: leads(replica))
                await run_lifecycle(world)
                await serve_webhooks(world, client, configuration)
            assert client.forbidden == []
            assert not EXERCISED - client.succeeded.keys(), "the story does not use all rights"
            lease = await world.client.get(LEASES, Key(DEFAULT_NAMESPACE, configuration.leader_election.name))
            assert lease.spec.holder_identity == "", "the lease is released"
            with pytest.raises(Forbidden):
                await client.list(untyped("", "v1", "secrets", "Secret", True), NAMESPACE)
            with pytest.raises(Forbidden):
                await client.delete(CLUSTER_QUEUES, Key("", "research"))

    shared_clusters.run(story())


@pytest.mark.parametrize(
    "example", [JOB_SET, RAY_CLUSTER, TRAIN_JOB], ids=lambda example: example.resource.kind
)
def test_the_controller_roles_suffice_for_other_job_kinds(example: Example) -> None:
    async def story() -> None:
        async with running_cluster() as world, as_controller_account(world) as client:
            await test_kinds.install(world, example)
            async with running_controllers(client, test_kinds.running(example.integrations)) as replica:
                await world.until("the controllers are ready", lambda: is_ready(replica))
                await test_kinds.run_lifecycle(world, example)
            assert client.forbidden == []
            assert f"PATCH {example.resource.plural}" in client.succeeded

    shared_clusters.run(story())


def test_the_controller_roles_suffice_to_connect_worker_clusters() -> None:
    async def story() -> None:
        async with running_cluster() as world, as_controller_account(world) as client, worker_cluster() as to:
            async with running_controllers(client, Configuration()) as replica:
                await world.until("the controllers are ready", lambda: is_ready(replica))
                await create_secret(world, "a", kubeconfig(to.url))
                await create_cluster(world, "a")
                await create_check(world, "a")
                await until_active(world, ADMISSION_CHECKS, "remote", "True", "Active")
            assert client.forbidden == []

    shared_clusters.run(story())


def test_the_controller_roles_suffice_to_delete_deactivated_jobs() -> None:
    async def story() -> None:
        async with running_cluster(test_retention.NODES) as world, as_controller_account(world) as client:
            async with running_controllers(client, test_retention.SHORT_RETENTION) as replica:
                await world.until("the controllers are ready", lambda: is_ready(replica))
                await test_retention.stuck_job_is_deleted(world)
            assert client.forbidden == []
            assert client.succeeded["DELETE jobs"] == 1

    shared_clusters.run(story())


def test_the_controller_roles_suffice_for_provisioning_requests() -> None:
    async def story() -> None:
        async with running_cluster() as world, as_controller_account(world) as client:
            async with running_controllers(client, Configuration()) as replica:
                await world.until("the controllers are ready", lambda: is_ready(replica))
                await checked_queue(world)
                await world.job("train")
                await set_condition(world, await requested(world, 1), "Provisioned")
                await world.until_admitted("train")
                await world.client.delete(JOBS, Key(NAMESPACE, "train"), propagation="Background")
                await until_deleted(world, WORKLOADS)
            assert client.forbidden == []
            assert {"POST provisioningrequests", "POST podtemplates"} <= client.succeeded.keys()

    shared_clusters.run(story())


def test_the_controller_roles_suffice_for_places_and_failed_nodes() -> None:
    async def story() -> None:
        async with running_cluster() as world, as_controller_account(world) as client:
            async with running_controllers(client, test_node_failures.PATIENT) as replica:
                await world.until("the controllers are ready", lambda: is_ready(replica))
                await create_topology(world, cpu="100")
                await test_node_failures.waiting_pods_end(world)
            assert client.forbidden == []
            assert {"PATCH topologies", "PATCH pods", "PATCH pods/status"} <= client.succeeded.keys()

    shared_clusters.run(story())


@pytest.mark.parametrize("elects", ["true", "false"])
def test_a_replica_that_may_not_read_reservations_does_not_become_ready(elects: str) -> None:
    """With the roles of an older installation, a rolling upgrade keeps the replica that decides."""

    async def story() -> None:
        rules = [rule for rule in CONTROLLER_RULES if "reservations" not in rule.resources]
        roles = account_roles(ACCOUNT, ACCOUNT, rules, DEFAULT_NAMESPACE)
        replica = Replica("standalone")
        text = CONFIGURATION.replace("Elect: true", f"Elect: {elects}")
        text += "controller: {cacheSyncTimeout: 1s}\n"
        async with (
            running_cluster() as world,
            as_account(world.client, ACCOUNT, DEFAULT_NAMESPACE, roles) as client,
        ):
            configured = DynamicConfiguration(load_configuration(text).configuration)
            join = in_this_loop(client, WallClock(), lambda: "me")
            late = pytest.RaisesExc(CacheSyncTimeout, match="were not enough to list reservations")
            with pytest.RaisesGroup(late, flatten_subgroups=True):
                async with asyncio.timeout(WITHIN_S):
                    await run_replica(client, WallClock(), configured, random.Random(1), replica, join)
            assert not replica.ready.is_set()

    shared_clusters.run(story())


@asynccontextmanager
async def running_controllers(client: Client, configuration: Configuration) -> AsyncIterator[Replica]:
    """Run the controllers for the duration of the block; their failure fails the test."""
    replica = Replica("standalone")
    controllers = asyncio.create_task(
        run_replica(
            client,
            WallClock(),
            DynamicConfiguration(configuration),
            random.Random(1),
            replica,
            in_this_loop(client, WallClock(), lambda: "me"),
        )
    )
    try:
        yield replica
    finally:
        controllers.cancel()
        await asyncio.gather(controllers, return_exceptions=True)


async def is_ready(replica: Replica) -> bool:
    return replica.ready.is_set()


async def leads(replica: Replica) -> bool:
    return replica.role == "leader" and replica.ready.is_set()


async def serve_webhooks(world: World, client: RecordingClient, configuration: Configuration) -> None:
    """Serve webhooks: create certificates, share them, inject the CA bundles and read quotas."""
    for manifest, resource in zip(webhooks(DEFAULT_NAMESPACE), (MUTATING, VALIDATING), strict=True):
        await world.client.create(resource, manifest)
    address = Webhooks(address=Address("127.0.0.1", 0))
    configuration = msgspec.structs.replace(configuration, webhooks=address)
    serves = asyncio.Event()
    serving = asyncio.create_task(run_webhooks(client, WallClock(), configuration, serves))

    async def trusted() -> bool:
        assert not serving.done(), serving.exception()
        for resource in (MUTATING, VALIDATING):
            for installed in (await world.client.list(resource)).items:
                if not all(hook["clientConfig"].get("caBundle") for hook in installed["webhooks"]):
                    return False
        return serves.is_set() and "GET resourcequotas" in client.succeeded

    try:
        await world.until("the webhooks are served and trusted", trusted)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


EXERCISED = {
    "POST workloads", "PATCH workloads", "PATCH workloads/status", "DELETE workloads",
    "PATCH clusterqueues", "PATCH clusterqueues/status", "PATCH localqueues/status", "PATCH resourceflavors",
    "PATCH jobs", "PATCH pods", "POST events", "POST leases", "PATCH leases",
    "GET queues", "GET resourcequotas",
    "POST secrets", "PATCH mutatingwebhookconfigurations", "PATCH validatingwebhookconfigurations",
}  # fmt: skip


async def run_lifecycle(world: World) -> None:
    """Create, run, preempt, stop, finish and delete jobs and a pod, and delete the queues."""
    await world.queues(cpu="2", preemption={"withinClusterQueue": "LowerPriority"})
    await world.create(WORKLOAD_PRIORITY_CLASSES, "high", value=1000)
    await world.job("low", pods=2)
    await world.until_admitted("low")
    await world.job("first", pods=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    await world.until_condition("low", "Evicted", reason="Preempted")
    await world.until_admitted("first")
    queue = Key("", "research")
    await world.client.patch(CLUSTER_QUEUES, queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
    await world.until_condition("first", "Evicted", reason="ClusterQueueStopped")
    await world.until_condition("first", "QuotaReserved", "False")
    await world.client.patch(CLUSTER_QUEUES, queue, {"spec": {"stopPolicy": "None"}})
    await world.until_admitted("first")
    await finish(world, "first")
    await world.until_admitted("low")

    gated = {
        "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
        "containers": [{"name": "main", "image": "busybox"}],
    }
    labels = {"kueue.x-k8s.io/queue-name": "queue", "kueue.x-k8s.io/managed": "true"}
    pod = {"metadata": {"name": "alone", "labels": labels}, "spec": gated}
    await world.client.create(PODS, pod, NAMESPACE)

    async def let_go() -> bool:
        return not (await world.client.get(PODS, Key(NAMESPACE, "alone"))).spec.scheduling_gates

    await world.until("the pod has no finalizer", let_go)
    await world.client.delete(PODS, Key(NAMESPACE, "alone"), grace_period_s=0)
    await world.client.delete(JOBS, Key(NAMESPACE, "low"), propagation="Background")
    await until_deleted(world, WORKLOADS)
    await world.client.delete(LOCAL_QUEUES, Key(NAMESPACE, "queue"))
    await world.client.delete(CLUSTER_QUEUES, queue)
    await until_deleted(world, CLUSTER_QUEUES)
    await world.client.delete(RESOURCE_FLAVORS, Key("", "default"))
    await until_deleted(world, RESOURCE_FLAVORS)


async def finish(world: World, name: str) -> None:
    """Set the statuses of the pods of a job, as there are no nodes, until its workload is deleted."""

    async def workload_deleted() -> bool:
        for pod in (await world.client.list(PODS, NAMESPACE)).items:
            owner = pod.metadata.controller
            if owner is not None and owner.name == name and pod.status.phase == "Pending":
                succeeded = {"status": {"phase": "Succeeded"}}
                await world.client.patch(PODS, pod.metadata.key, succeeded, subresource="status")
        return (await world.workload(name)) is None

    await world.until(f"the workload of {name} is deleted", workload_deleted)


async def until_deleted(world: World, resource: Any) -> None:
    async def is_deleted() -> bool:
        return not (await world.client.list(resource)).items

    await world.until(f"there are no {resource.plural}", is_deleted)
