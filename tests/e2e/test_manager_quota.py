"""The quota of a manager follows the queues of its worker clusters, over HTTP."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import MultiKueueGates
from quorate.api.meta import Key, find_condition
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS
from tests.e2e.worker_clusters import (
    WorkerCluster,
    create_check,
    create_cluster,
    create_namespace,
    create_secret,
    kubeconfig,
    until_active,
    worker_cluster,
)
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

QUEUE = Key("", "research")


async def create_queues(worker: WorkerCluster, cpu: str) -> None:
    quotas = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quotas]}]}
    await worker.client.create(CLUSTER_QUEUES, {"metadata": {"name": "batch"}, "spec": spec})
    local = {"metadata": {"name": "queue"}, "spec": {"clusterQueue": "batch"}}
    await worker.client.create(LOCAL_QUEUES, local, NAMESPACE)


async def until_quota(world: World, cpu: str, status: str = "True") -> None:
    async def find() -> bool:
        queue = await world.client.get(CLUSTER_QUEUES, QUEUE)
        condition = find_condition(queue.status.conditions, "MultiKueueManagerQuotaAutomation")
        ((resource,),) = [flavor.resources for flavor in queue.spec.resource_groups[0].flavors]
        return condition is not None and condition.status == status and str(resource.nominal_quota) == cpu

    await world.until(f"the quota is {cpu}", find)


def test_the_quota_of_the_manager_follows_its_workers() -> None:
    async def scenario(world: World) -> None:
        await create_namespace(world)
        async with worker_cluster() as first, worker_cluster() as second:
            for name, worker, cpu in (("a", first, "10"), ("b", second, "4")):
                await create_queues(worker, cpu)
                await create_secret(world, name, kubeconfig(worker.url))
                await create_cluster(world, name)
                await until_active(world, MULTIKUEUE_CLUSTERS, name, "True", "Active")
            await create_check(world, "a", "b")
            rules = {"admissionChecks": [{"name": "remote"}]}
            await world.queues(cpu="1", admissionChecksStrategy=rules)
            await until_quota(world, "1", "False")
            automated = {"spec": {"quotaManagement": "Automated"}}
            await world.client.patch(MULTIKUEUE_CONFIGS, Key("", "remote"), automated)
            await until_quota(world, "14")
            quotas = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": "5"}]}
            spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quotas]}]}
            await first.client.patch(CLUSTER_QUEUES, Key("", "batch"), {"spec": spec})
            await until_quota(world, "9")
            await second.client.delete(LOCAL_QUEUES, Key(NAMESPACE, "queue"))
            await until_quota(world, "5")
            await world.client.patch(CLUSTER_QUEUES, QUEUE, {"spec": {"admissionChecksStrategy": None}})

            async def without_condition() -> bool:
                queue = await world.client.get(CLUSTER_QUEUES, QUEUE)
                return not find_condition(queue.status.conditions, "MultiKueueManagerQuotaAutomation")

            await world.until("the condition is removed", without_condition)

    gates = MultiKueueGates(manager_quota_automation=True)
    run_story(scenario, Configuration(multikueue_gates=gates))
