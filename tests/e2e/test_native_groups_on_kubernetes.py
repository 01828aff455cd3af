"""Queued work with native pod groups on the programs of Kubernetes, which are killed in the middle."""

from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.core.pod import Pod
from quorate.api.kueue.topology import PodSetTopologyRequest
from quorate.api.meta import Key
from quorate.api.native_groups import GangPolicy
from quorate.controllers.native_groups import unit_key
from quorate.kube.resources import TOPOLOGIES, WORKLOADS
from quorate.local.nodes import NodePool
from tests.e2e.stock_kubernetes import (
    create_group,
    install_policy,
    native_groups,
    restart_all,
    run_stock_kubernetes,
    workload_kind,
)
from tests.e2e.test_native_pod_groups import gated, set_quota
from tests.e2e.test_pods import has, pod, pods_of, until_workload
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

QUEUED = Configuration(integrations=Integrations(frameworks=("batch/job", "pod")))
TWO_NODES = NodePool(2, cpu="4")
HOST = "kubernetes.io/hostname"
INDEXED = {"completionMode": "Indexed"}


@pytest.fixture(autouse=True)
def minor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the stories on Kubernetes, and return its minor version."""
    return run_stock_kubernetes(request.config, monkeypatch, with_controllers=True)


def gang_of(minor: int, **scheduling: Any) -> dict[str, Any]:
    """Return what makes the Job controller create a gang; before 1.37 every Indexed job gets one."""
    return (
        {**INDEXED, "scheduling": {"schedulingPolicy": {"gang": {}}, **scheduling}} if minor > 36 else INDEXED
    )


async def until_placed(story: World, count: int) -> list[Pod]:
    """Return the pods once there are ``count`` and all have nodes; no part of them may have one alone."""

    async def placed() -> list[Pod] | None:
        pods = list((await pods_of(story)).values())
        return pods if len(pods) == count and all(member.node_name for member in pods) else None

    return await story.until(f"{count} pods have nodes", placed)


async def workload_count(story: World) -> int:
    return len((await story.client.list(WORKLOADS, NAMESPACE)).items)


def test_a_job_with_a_group_of_its_controller_is_counted_once(minor: int) -> None:
    async def story(story: World) -> None:
        await story.queues("2")
        await story.start_queueing(QUEUED)
        await story.job("train", pods=3, runs="2s", suspend=True, spec=gang_of(minor))
        waiting = await story.until_condition("train", "QuotaReserved", status="False")
        assert [pod_set.count for pod_set in waiting.spec.pod_sets] == [3]
        (group,) = await story.until("the Job controller makes a group", lambda: native_groups(story.client))
        assert await pods_of(story) == {}
        await restart_all(story, QUEUED)
        await set_quota(story, "3")
        await story.until_admitted("train")
        pods = await until_placed(story, 3)
        named = [member.spec.scheduling_group for member in pods]
        assert [member.pod_group_name for member in named if member] == [group.metadata.name] * 3
        assert await workload_count(story) == 1
        await restart_all(story, QUEUED)
        await story.until_finished("train")

    run_story(story, fleet=TWO_NODES)


def test_the_topology_of_a_group_becomes_that_of_the_pod_set(minor: int) -> None:
    async def story(story: World) -> None:
        await story.create(TOPOLOGIES, "tree", spec={"levels": [{"nodeLabel": HOST}]})
        await story.flavor(topologyName="tree", nodeLabels={"kubernetes.io/os": "linux"})
        await story.cluster_queue("100")
        await story.local_queue()
        await story.start_queueing(QUEUED)
        same_host = {"topology": [{"key": HOST}]}
        no_group: dict[str, Any] = {}
        if minor > 36:
            made, member = gang_of(minor, schedulingConstraints=same_host), no_group
        else:
            await create_group(
                story.client, "ring", {"gang": {"minCount": 3}}, schedulingConstraints=same_host
            )
            made, member = INDEXED, {"schedulingGroup": {"podGroupName": "ring"}}
        await story.job("train", pods=3, runs="2s", suspend=True, spec=made, **member)
        admitted = await story.until_condition("train", "Admitted")
        await restart_all(story, QUEUED)
        (pod_set,) = admitted.spec.pod_sets
        assert isinstance(pod_set.topology_request, PodSetTopologyRequest)
        assert pod_set.topology_request.required == HOST
        assert len({member.node_name for member in await until_placed(story, 3)}) == 1
        await story.until_finished("train")

    run_story(story, fleet=TWO_NODES)


def test_all_pods_of_a_job_in_a_group_get_quota_together() -> None:
    """1.36 refuses another parallelism of such a job; 1.37 would never place its last pod."""

    async def story(story: World) -> None:
        await story.queues("2")
        await story.start_queueing(QUEUED)
        await create_group(story.client, "ring", {"gang": {"minCount": 2}})
        member: dict[str, Any] = {"schedulingGroup": {"podGroupName": "ring"}}
        shrinks = {"kueue.x-k8s.io/job-min-parallelism": "1"}
        await story.job("train", pods=3, runs="2s", suspend=True, annotations=shrinks, **member)
        await story.until_condition("train", "QuotaReserved", status="False")
        await restart_all(story, QUEUED)
        await set_quota(story, "3")
        await story.until_admitted("train")
        await until_placed(story, 3)
        await story.until_finished("train")

    run_story(story, fleet=TWO_NODES)


def test_the_gang_of_a_job_replaces_a_group_that_its_controller_makes_without_demands() -> None:
    async def story(story: World) -> None:
        await install_policy(story.client)
        await story.queues("100")
        await story.start_queueing(Configuration(native_gangs=True))
        await story.job("train", pods=3, runs="2s", suspend=True)
        pods = await until_placed(story, 3)
        groups = {group.metadata.name: group for group in await native_groups(story.client)}
        named = [member.spec.scheduling_group for member in pods]
        gangs = [groups[member.pod_group_name].spec.scheduling_policy.gang for member in named if member]
        assert gangs == [GangPolicy(min_count=3)] * 3
        await story.until_finished("train")

    run_story(story, fleet=TWO_NODES)


def test_a_native_workload_with_a_queue_gets_quota_for_all_its_groups() -> None:
    templates: list[dict[str, Any]] = [
        {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}},
        {"name": "driver", "schedulingPolicy": {"basic": {}}},
    ]

    async def story(story: World) -> None:
        await story.queues("2")
        await story.start_queueing(QUEUED)
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        body = {"metadata": {"name": "train", "labels": labels}, "spec": {"podGroupTemplates": templates}}
        await story.client.create(await workload_kind(story.client), body, NAMESPACE)
        for template in templates:
            await create_group(story.client, template["name"], template["schedulingPolicy"], template["name"])
        for name, group in (("a", "workers"), ("b", "workers"), ("c", "driver")):
            await pod(story, name, queue="", runs="2s", schedulingGroup={"podGroupName": group})
        unit = unit_key(Key(NAMESPACE, "train")).name
        await until_workload(story, unit, "waits", has("QuotaReserved", "False"))
        assert await gated(story) == {"a", "b", "c"}
        await restart_all(story, QUEUED)
        assert await gated(story) == {"a", "b", "c"}
        await set_quota(story, "3")
        await until_placed(story, 3)
        await restart_all(story, QUEUED)
        await until_workload(story, unit, "is finished", has("Finished", reason="Succeeded"))
        assert await workload_count(story) == 1

    run_story(story, fleet=TWO_NODES)
