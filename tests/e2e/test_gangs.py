"""Gang scheduling: the states and the feature interactions of the design note "Delay Pod Creation".

Each story acts as the operator: it creates the pods of a group when the phase of the group permits it.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quorate.api.core.pod import Pod
from quorate.api.meta import Key, find_condition
from quorate.kube.cancellation import end_tasks
from quorate.kube.errors import Forbidden
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import (
    EVENTS,
    NODES,
    PLACEABLE_PODS,
    POD_GROUPS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
)
from quorate.local.nodes import NodePool
from tests.e2e.gangs import GangWorld, run_gang_story, settings
from tests.e2e.world import NAMESPACE

pytestmark = [pytest.mark.slow, pytest.mark.measured]

Story = Callable[[GangWorld], Awaitable[None]]

DESIGN = """
actions: "enqueue, allocate, backfill, preempt, reclaim"
configurations: [{name: enqueue, arguments: {requeue-backoff-base: 200ms}}]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: proportion}, {name: predicates}, {name: nodeorder}]
"""  # noqa: E501
WITHOUT_ENQUEUE = """
actions: "allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""


def test_pods_are_created_at_inqueue_and_run_when_all_have_a_node() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("a", 2, {"cpu": "2"})
        await world.until_phase("a", "Inqueue")
        assert not await world.members("a")
        await world.pods("a", 2, runs="1500ms")  # longer than the update of the phase takes
        await world.until_phase("a", "Running")
        await world.until_phase("a", "Completed")

    run_gang_story(story, NodePool(1, cpu="4"))


def test_two_groups_that_fit_only_one_at_a_time_never_run_together() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("one", 3, {"cpu": "3"})
        await world.until_phase("one", "Inqueue")
        await world.group("two", 3, {"cpu": "3"})
        await world.until_waits("two", "NotEnoughResources", "need 3, have 1 now")
        await world.pods("one", 3, runs="300ms")
        await world.until_phase("two", "Inqueue")
        await world.pods("two", 3, runs="100ms")
        await world.until_phase("one", "Completed")
        await world.until_phase("two", "Completed")

    run_gang_story(story, NodePool(2, cpu="2"), settings(DESIGN))


def test_a_gang_gets_no_node_until_all_its_pods_exist() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("a", 3)
        await world.pods("a", 3, cpu="2")
        await world.until_waits("a", "NotEnoughResources")
        assert not await world.bound()
        await world.node("node-3", cpu="2")
        await world.until_bound(a=3)

    run_gang_story(story, NodePool(2, cpu="2"), settings(WITHOUT_ENQUEUE))


def test_gated_pods_keep_the_condition_of_the_api_server() -> None:
    """Autoscalers act on Unschedulable; nodes do not help a pod with scheduling gates."""

    async def story(world: GangWorld) -> None:
        await world.group("a", 2)
        await world.pods("a", 1, schedulingGates=[{"name": "example.dev/hold"}])
        await world.pods("a", 1, first=1)
        await world.until_waits("a", "NotEnoughResources")
        free = Key(NAMESPACE, "a-1")

        async def is_written() -> bool:
            return reason_of(await world.client.get(PLACEABLE_PODS, free)) == "Unschedulable"

        await world.until("the pod without gates is unschedulable", is_written)
        assert reason_of(await world.client.get(PLACEABLE_PODS, Key(NAMESPACE, "a-0"))) == "SchedulingGated"

    def reason_of(pod: Pod) -> str:
        return next((each.reason for each in pod.status.conditions if each.type == "PodScheduled"), "")

    run_gang_story(story, NodePool(1, cpu="8"), settings(WITHOUT_ENQUEUE))


def test_a_group_of_higher_priority_is_admitted_on_a_full_cluster() -> None:
    async def story(world: GangWorld) -> None:
        await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
        await world.group("low", 2, {"cpu": "4"})
        await world.until_phase("low", "Inqueue")
        await world.pods("low", 2, cpu="2")
        await world.until_bound(low=2)
        await world.group("high", 2, {"cpu": "4"}, priorityClassName="high")
        await world.until_phase("high", "Inqueue")
        assert (await world.bound())["low"] == 2  # nothing is evicted before the pods exist
        await world.pods("high", 2, cpu="2", priorityClassName="high")
        await world.until_bound(high=2)
        assert not (await world.bound())["low"]

    run_gang_story(story, NodePool(2, cpu="2"), settings(DESIGN))


def test_an_inqueue_group_returns_to_pending_when_its_node_is_lost() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("a", 2, {"cpu": "4"})
        await world.until_phase("a", "Inqueue")
        await world.client.delete(NODES, Key("", "node-2"))
        group = await world.until_phase("a", "Pending")
        await world.until_waits("a", "NotEnoughResources", "have 2 now")
        assert group.metadata.annotations["scheduling.volcano.sh/requeue-attempts"] == "1"

    run_gang_story(story, NodePool(2, cpu="2"), settings(DESIGN))


def test_an_inqueue_group_reserves_resource_quota() -> None:
    async def story(world: GangWorld) -> None:
        quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "4"}}}
        await world.client.create(RESOURCE_QUOTAS, quota, NAMESPACE)
        await world.until("the quota is counted", quota_is_counted(world))
        await world.group("first", 3, {"cpu": "3"})
        await world.until_phase("first", "Inqueue")
        await world.group("second", 2, {"cpu": "2"})
        await world.until_waits("second", "NamespaceQuotaExceeded", "quota team")
        await world.group("third", 1, {"cpu": "1"})
        await world.until_phase("third", "Inqueue")

    run_gang_story(story, NodePool(2, cpu="8"), settings(DESIGN))


def test_a_group_that_loses_its_resource_quota_in_a_race_returns_to_pending() -> None:
    async def story(world: GangWorld) -> None:
        quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "4"}}}
        await world.client.create(RESOURCE_QUOTAS, quota, NAMESPACE)
        await world.until("the quota is counted", quota_is_counted(world))
        await world.group("a", 3, {"cpu": "3"})
        await world.until_phase("a", "Inqueue")
        await world.pods("stranger", 1, cpu="2", scheduler="default-scheduler")
        with pytest.raises(Forbidden, match="exceeded quota"):
            await world.pods("a", 3)
        await world.delete_members("a")
        await world.until_phase("a", "Pending")
        await world.until_waits("a", "NamespaceQuotaExceeded")

    run_gang_story(story, NodePool(1, cpu="8"), settings(DESIGN))


def test_pods_of_another_scheduler_reduce_the_idle_resources_of_a_gang() -> None:
    async def story(world: GangWorld) -> None:
        await world.pods("web", 2, scheduler="default-scheduler")
        await world.until_bound(web=2)
        await world.group("a", 3)
        await world.pods("a", 3)
        await world.until_waits("a", "NotEnoughResources")
        assert (await world.bound())["a"] == 0
        await world.delete_members("web")
        await world.until_bound(a=3)

    run_gang_story(story, NodePool(1, cpu="4"), settings(WITHOUT_ENQUEUE))


def test_without_the_enqueue_action_gangs_are_placed_from_pending() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("a", 2, {"cpu": "100"})
        await world.pods("a", 2)
        await world.until_phase("a", "Running")

    run_gang_story(story, NodePool(1, cpu="2"), settings(WITHOUT_ENQUEUE))


def test_a_recreated_member_of_a_running_gang_gets_another_node() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("a", 2)
        await world.pods("a", 2)
        await world.until_phase("a", "Running")
        (lost, *_) = await world.members("a")
        await world.client.delete(NODES, Key("", lost.node_name))
        await world.client.delete(PLACEABLE_PODS, lost.metadata.key, grace_period_s=0)
        await world.pods("a", 1, first=2)
        await world.until_waits("a", "NotEnoughResources")
        await world.until_phase("a", "Unknown")
        await world.node("node-3", cpu="1")
        await world.until_bound(a=2)
        await world.until_phase("a", "Running")

    run_gang_story(story, NodePool(2, cpu="1"), settings(WITHOUT_ENQUEUE))


def test_a_restarted_scheduler_completes_a_partly_bound_gang() -> None:
    async def story(world: GangWorld) -> None:
        await world.stop_scheduler()
        await world.group("a", 20)
        await world.pods("a", 20, cpu="100m")
        world.scheduler_client.one_in = 3
        await world.start_scheduler(settings(WITHOUT_ENQUEUE))

        async def partly_bound() -> bool:
            return (await world.bound())["a"] > 2

        await world.until("some pods are bound", partly_bound)
        await world.stop_scheduler()
        world.scheduler_client.one_in = 0
        await world.start_scheduler(settings(WITHOUT_ENQUEUE))
        await world.until_phase("a", "Running")
        await world.until_bound(a=20)

    run_gang_story(story, NodePool(1, cpu="2"), settings(WITHOUT_ENQUEUE))


def test_the_time_for_repair_survives_restarts() -> None:
    """Two of three members are bound, and no node takes the third, until the two are evicted."""
    with_repair = (
        f"{WITHOUT_ENQUEUE}\nconfigurations: [{{name: allocate, arguments: {{repair-within: 5s}}}}]\n"
    )

    async def story(world: GangWorld) -> None:
        await world.stop_scheduler()
        await world.group("a", 3)
        await world.pods("a", 2, nodeName="node-1")
        await world.pods("a", 1, first=2)
        bound = {pod.metadata.uid for pod in await world.members("a") if pod.node_name}

        async def since() -> str:
            annotations = (await world.get_group("a")).metadata.annotations
            return annotations.get("scheduling.volcano.sh/partially-bound-since", "")

        await world.start_scheduler(settings(with_repair))
        first = await world.until("the time is stored", since)
        await world.stop_scheduler()
        await world.start_scheduler(settings(with_repair))
        await world.until_waits("a", "NotEnoughResources")
        assert await since() == first

        async def evicted() -> bool:
            return not bound & {pod.metadata.uid for pod in await world.members("a")}

        await world.until("the bound members are evicted", evicted)

    run_gang_story(story, NodePool(1, cpu="2"), settings(with_repair))


def test_a_gang_of_higher_priority_preempts_the_surplus_of_another() -> None:
    async def story(world: GangWorld) -> None:
        for name, value in (("low", 1), ("high", 100)):
            await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        await world.group("fat", 1, priorityClassName="low")
        await world.until_phase("fat", "Inqueue")
        await world.pods("fat", 4)
        await world.until_bound(fat=4)
        await world.group("vip", 2, priorityClassName="high")
        await world.until_phase("vip", "Inqueue")
        await world.pods("vip", 2)
        await world.until_bound(vip=2, fat=2)
        await world.until_phase("vip", "Running")
        assert sorted(pod.metadata.name for pod in await world.members("fat")) == ["fat-0", "fat-1"]

    run_gang_story(story, NodePool(1, cpu="4"), settings(DESIGN))


def test_a_preempting_pod_has_its_nominated_node() -> None:
    """It has the node until the victim has ended, so that a watch has to show it."""
    nominated: dict[str, str] = {}

    def observe(change: Change[Pod]) -> None:
        if change.new is not None and change.new.status.nominated_node_name:
            nominated[change.key.name] = change.new.status.nominated_node_name

    async def story(world: GangWorld) -> None:
        for name, value in (("low", 1), ("high", 100)):
            await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        await world.group("fat", 1, priorityClassName="low")
        await world.until_phase("fat", "Inqueue")
        await world.pods("fat", 2)
        await world.until_bound(fat=2)
        await world.group("vip", 1, priorityClassName="high")
        await world.until_phase("vip", "Inqueue")
        informer = Informer(world.client, PLACEABLE_PODS)
        informer.subscribe(observe)
        watching = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await world.pods("vip", 1)
        await world.until_bound(vip=1)
        await end_tasks([watching])
        assert nominated == {"vip-0": "node-1"}

    run_gang_story(story, NodePool(1, cpu="2"), settings(DESIGN))


def test_a_queue_reclaims_what_another_uses_beyond_its_deserved_share() -> None:
    async def story(world: GangWorld) -> None:
        await world.queue("one")
        await world.queue("two")
        await world.group("borrower", 1, queue="one")
        await world.until_phase("borrower", "Inqueue")
        await world.pods("borrower", 4)
        await world.until_bound(borrower=4)
        await world.until_queue_allocated("one", cpu="4", pods="4")
        await world.group("owner", 2, queue="two")
        await world.until_phase("owner", "Inqueue")
        await world.pods("owner", 2)
        await world.until_bound(owner=2, borrower=2)
        for queue, held in {"one": "2", "two": "2", "root": "4"}.items():
            await world.until_queue_allocated(queue, cpu=held, pods=held)

    run_gang_story(story, NodePool(1, cpu="4"), settings(DESIGN))


def test_waiting_pods_have_the_unschedulable_reason_that_autoscalers_read() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("a", 2)
        await world.pods("a", 2, cpu="3")

        async def reported() -> bool:
            found = [
                (each.reason, each.message)
                for pod in await world.members("a")
                for each in pod.status.conditions
                if each.type == "PodScheduled"
            ]
            return len(found) == 2 and all(
                reason == "Unschedulable" and "Insufficient cpu" in message for reason, message in found
            )

        await world.until("both pods have the condition", reported)

    run_gang_story(story, NodePool(1, cpu="4"), settings(WITHOUT_ENQUEUE))


def test_a_hard_network_topology_holds_until_a_hyper_node_has_room() -> None:
    """The gang waits with the reason although all nodes together have room, until one HyperNode has."""

    async def story(world: GangWorld) -> None:
        for name in ("node-11", "node-12", "node-21"):
            await world.node(name, cpu="2")
        await world.hyper_node("west", 1, "^node-1[0-9]$")
        await world.hyper_node("east", 1, "^node-2[0-9]$")
        await world.group("a", 3, networkTopology={"mode": "hard", "highestTierAllowed": 1})
        await world.pods("a", 3, cpu="2")

        async def reported() -> bool:
            (group,) = (await world.client.list(POD_GROUPS)).items
            condition = find_condition(group.status.conditions, "Unschedulable")
            return condition is not None and condition.message.startswith(
                "needs 3 pods within one HyperNode of tier ≤ 1: the largest of 2 has room for 2 (west)"
            )

        await world.until("the reason has the numbers", reported)
        assert not any(pod.node_name for pod in await world.members("a"))
        await world.node("node-13", cpu="2")

        async def bound() -> bool:
            nodes = {pod.node_name for pod in await world.members("a")}
            return nodes == {"node-11", "node-12", "node-13"}

        await world.until("all pods are in one HyperNode", bound)

    run_gang_story(story, NodePool(1, cpu="1"))


def test_references_to_missing_objects_are_reported() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("a", 2, queue="nowhere")
        await world.pods("absent", 1)

        async def reported() -> bool:
            events = (await world.client.list(EVENTS, NAMESPACE)).items
            found = {
                (each.regarding.name, each.reason, each.note.split(" (")[0])
                for each in events
                if each.regarding
            }
            return {
                ("a", "QueueNotFound", "queue nowhere does not exist"),
                (
                    "absent-0",
                    "FailedScheduling",
                    f"pod group {NAMESPACE}/absent does not exist, and this pod is placed with it",
                ),
            } <= found

        await world.until("both groups have the event", reported)
        await until_pod_waits(world, "absent", "PodGroupNotFound")
        await world.group("deleted", 2, queue="nowhere")
        await world.pods("deleted", 1)
        await until_pod_waits(world, "deleted", "QueueNotFound")
        await world.client.delete(POD_GROUPS, Key(NAMESPACE, "deleted"))
        await until_pod_waits(world, "deleted", "PodGroupNotFound")
        await world.queue("nowhere", weight=1)
        await world.until_phase("a", "Inqueue")

    run_gang_story(story, NodePool(1, cpu="4"))


async def until_pod_waits(world: GangWorld, group: str, reason: str) -> None:
    async def waits() -> bool:
        (pod,) = await world.members(group)
        condition = find_condition(pod.status.conditions, "PodScheduled")
        return condition is not None and (condition.status, condition.reason) == ("False", reason)

    await world.until(f"the pod of {group} waits: {reason}", waits)


def quota_is_counted(world: GangWorld) -> Callable[[], Awaitable[bool]]:
    async def find() -> bool:
        quota = await world.client.get(RESOURCE_QUOTAS, Key(NAMESPACE, "team"))
        return bool(quota.status.hard)

    return find
