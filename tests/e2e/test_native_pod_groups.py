"""Plain pods and queued jobs with Kubernetes' own pod groups: one workload each, over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from quorate.api.kueue.topology import PodSetTopologyRequest
from quorate.api.meta import Key
from quorate.controllers.pods.queued_pod import is_gated
from quorate.install.crds import queueing_definitions
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, TOPOLOGIES, WORKLOADS
from quorate.local.nodes import NodePool
from tests.e2e import shared_clusters
from tests.e2e.stock_kubernetes import create_group
from tests.e2e.test_pods import FLEET, FOREVER, PODS_QUEUED, has, pod, pods_of, until_pod, until_workload
from tests.e2e.verbs import CommandLine
from tests.e2e.world import NAMESPACE, World, run_story, running_cluster

pytestmark = pytest.mark.slow

GROUP = "ring"
MEMBER: dict[str, Any] = {"schedulingGroup": {"podGroupName": GROUP}}


async def native_group(world: World, policy: dict[str, Any], **spec: Any) -> None:
    await create_group(world.client, GROUP, policy, **spec)


async def until_missing(world: World) -> None:
    await until_event_text(world, f"pod group {GROUP} of scheduling.k8s.io does not exist")


async def until_event_text(world: World, text: str) -> None:
    async def is_told() -> bool:
        return any(text in event.note for event in (await world.client.list(EVENTS, NAMESPACE)).items)

    await world.until(f"an event says: {text}", is_told)


async def gated(world: World) -> set[str]:
    return {name for name, member in (await pods_of(world)).items() if is_gated(member)}


async def set_quota(world: World, cpu: str) -> None:
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": spec})


def test_a_native_group_gets_quota_for_all_its_pods_or_none() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await native_group(world, {"gang": {"minCount": 3}})
        for name in ("a", "b", "c"):
            await pod(world, name, **MEMBER)
        workload = await until_workload(world, GROUP, "waits", has("QuotaReserved", "False"))
        assert [pod_set.count for pod_set in workload.spec.pod_sets] == [3]
        assert await gated(world) == {"a", "b", "c"}
        await set_quota(world, "3")
        await until_workload(world, GROUP, "is finished", has("Finished", reason="Succeeded"))

    run_story(story, PODS_QUEUED, FLEET)


def test_a_group_is_queued_once_it_exists_and_has_enough_pods() -> None:
    async def story(world: World) -> None:
        await world.queues("8")
        await pod(world, "a", **MEMBER)

        await until_missing(world)
        await native_group(world, {"gang": {"minCount": 2}})
        await pod(world, "b", runs=FOREVER, **MEMBER)
        await until_workload(world, GROUP, "is admitted", has("Admitted"))
        await until_pod(world, "b", "is ungated", lambda member: not is_gated(member))

    run_story(story, PODS_QUEUED, FLEET)


def test_a_pod_that_joins_later_stays_gated_and_is_not_deleted() -> None:
    async def story(world: World) -> None:
        await world.queues("8")
        await native_group(world, {"gang": {"minCount": 2}})
        for name in ("a", "b"):
            await pod(world, name, runs=FOREVER, **MEMBER)
        await until_workload(world, GROUP, "is admitted", has("Admitted"))
        await pod(world, "late", **MEMBER)
        await world.stop_queueing()
        await world.start_queueing(PODS_QUEUED)  # and the restart counts the same pods
        await pod(world, "alone")
        await until_pod(world, "alone", "has run", lambda member: member.has_ended)
        assert await gated(world) == {"late"}

    run_story(story, PODS_QUEUED, FLEET)


def test_pods_of_a_basic_group_are_queued_one_by_one() -> None:
    async def story(world: World) -> None:
        await world.queues("1")
        await native_group(world, {"basic": {}})
        for name in ("a", "b"):
            await pod(world, name, **MEMBER)
        for name in ("a", "b"):
            await until_pod(world, name, "has run", lambda member: member.has_ended)
        workloads = (await world.client.list(WORKLOADS, NAMESPACE)).items
        assert len(workloads) == 2

    run_story(story, PODS_QUEUED, FLEET)


def test_a_queued_job_and_its_group_are_counted_once() -> None:
    """The pods of the job name both a group and a queue: by themselves they would get a Workload, too."""

    async def story(world: World) -> None:
        await world.queues("3")
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        group = "ignored"  # the scheduler of the cluster says once that it ignores a group of this name
        await create_group(world.client, group, {"gang": {"minCount": 3}})
        member: dict[str, Any] = {"schedulingGroup": {"podGroupName": group}}
        await world.job("a", pods=3, runs=FOREVER, pod_labels=labels, **member)
        await world.until_admitted("a")
        await pod(world, "alone")  # it waits for quota, so that all pods before it have been looked at
        await until_workload_of(world, "alone")
        await until_event_text(world, f"places each pod of pod group {group} alone")
        pods = await pods_of(world)
        assert len([name for name in pods if name.startswith("a-")]) == 3
        assert await gated(world) == {"alone"}
        assert len((await world.client.list(WORKLOADS, NAMESPACE)).items) == 2

    run_story(story, PODS_QUEUED, FLEET)


async def until_workload_of(world: World, name: str) -> None:
    async def exists() -> bool:
        return await world.workload(name) is not None

    await world.until(f"{name} has a workload", exists)


def test_a_job_of_a_gang_is_not_admitted_with_fewer_pods() -> None:
    """1.36 refuses another parallelism of such a job; 1.37 would never place its last pod."""

    async def story(world: World) -> None:
        await world.queues("2")
        least = {"kueue.x-k8s.io/job-min-parallelism": "1"}
        await world.job("a", pods=3, annotations=least, **MEMBER)
        await until_missing(world)
        await native_group(world, {"gang": {"minCount": 2}})
        await world.until_condition("a", "QuotaReserved", status="False")
        await set_quota(world, "3")
        await world.until_finished("a")

    run_story(story, PODS_QUEUED, FLEET)


def test_the_topology_of_a_group_becomes_the_request_of_the_pod_set() -> None:
    host = "kubernetes.io/hostname"

    async def story(world: World) -> None:
        await world.create(TOPOLOGIES, "tree", spec={"levels": [{"nodeLabel": host}]})
        await world.flavor(topologyName="tree", nodeLabels={"kubernetes.io/os": "linux"})
        await world.cluster_queue("100")
        await world.local_queue()
        await native_group(
            world, {"gang": {"minCount": 3}}, schedulingConstraints={"topology": [{"key": host}]}
        )
        await world.job("a", pods=3, runs=FOREVER, **MEMBER)
        await world.until_admitted("a")
        workload = await world.workload("a")
        assert workload is not None
        (pod_set,) = workload.spec.pod_sets
        assert isinstance(pod_set.topology_request, PodSetTopologyRequest)
        assert pod_set.topology_request.required == host

        async def nodes() -> set[str] | None:
            names = {member.node_name for member in (await pods_of(world)).values()}
            return names if names and all(names) else None

        assert len(await world.until("all pods have nodes", nodes)) == 1

    run_story(story, PODS_QUEUED, NodePool(count=3, cpu="4"))


@pytest.mark.parametrize("output", [(), ("-o", "json")], ids=["table", "json"])
def test_native_groups_are_listed_in_a_cluster_without_volcano(
    output: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with running_cluster(definitions=queueing_definitions()) as world:
            await native_group(world, {"gang": {"minCount": 3}})
            command = CommandLine(world, tmp_path, monkeypatch)
            listed = await command.output_of("podgroup", "list", "-n", NAMESPACE, *output)
            assert (f"scheduling.k8s.io/{GROUP}" in listed) == (not output)
            assert f"scheduling.k8s.io/{GROUP}" in await command.output_of("status", "-n", NAMESPACE, *output)

    shared_clusters.run(story())
