"""Kubernetes' own pod groups with the gang scheduler, through the API of the local cluster."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.api.meta import Condition, Key, find_condition
from quorate.api.scheduler_configuration import DEFAULT_FILE
from quorate.gang.actions import ACTIONS
from quorate.gang.cache.gang import Gang
from quorate.gang.session.session import Session
from quorate.kube.resources import (
    DEVICE_CLASSES,
    NATIVE_POD_GROUPS,
    NODES,
    PLACEABLE_PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from quorate.local.nodes import NodePool
from tests.e2e.gangs import GangWorld, run_gang_story, settings
from tests.e2e.test_device_claims import DRIVER, offer_gpus
from tests.e2e.verbs import CommandLine, cells
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

EVICTING = DEFAULT_FILE.replace("allocate, backfill", "allocate, preempt, backfill")
RACK = "example.com/rack"


class NativeGroups:
    """Native pod groups and their pods, in one namespace."""

    def __init__(self, gangs: GangWorld) -> None:
        self.gangs = gangs

    async def group(self, name: str, minimum: int | None, topology: str = "", **spec: Any) -> None:
        """Create a group: a gang with a ``minimum``, or without one a basic group."""
        policy = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
        if topology:
            spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
        body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}
        await self.gangs.client.create(NATIVE_POD_GROUPS, body, NAMESPACE)

    async def pods(self, group: str, count: int, cpu: str = "1", first: int = 0, **spec: Any) -> None:
        named: dict[str, Any] = {"schedulingGroup": {"podGroupName": group}}
        await self.gangs.pods(group, count, cpu, first, **named, **spec)

    async def until_condition(self, group: str, type_: str, status: str, text: str = "") -> Condition:
        async def find() -> Condition | None:
            stored = await self.gangs.client.get(NATIVE_POD_GROUPS, Key(NAMESPACE, group))
            condition = find_condition(stored.status.conditions, type_)
            fits = condition is not None and condition.status == status and text in condition.message
            return condition if fits else None

        return await self.gangs.until(f"{group} has {type_}={status} {text}", find)

    async def nodes_of(self, group: str) -> set[str]:
        return {pod.node_name for pod in await self.gangs.members(group)}


def play(
    story: Callable[[NativeGroups], Awaitable[None]], nodes: int = 2, cpu: str = "4", file: str = EVICTING
) -> None:
    run_gang_story(lambda gangs: story(NativeGroups(gangs)), NodePool(nodes, cpu=cpu), settings(file))


def test_a_native_gang_starts_with_its_minimum_or_not_at_all() -> None:
    async def story(groups: NativeGroups) -> None:
        await groups.group("large", 9)
        await groups.pods("large", 9)
        waits = await groups.until_condition("large", "PodGroupScheduled", "False")
        assert waits.reason == "Unschedulable"
        assert waits.message.startswith("NotEnoughResources: ")
        await groups.group("small", 3)
        await groups.pods("small", 2)
        await groups.until_condition("small", "PodGroupScheduled", "False")
        await groups.pods("small", 1, first=2)
        placed = await groups.until_condition("small", "PodGroupScheduled", "True")
        assert placed.reason == "Scheduled"
        await groups.gangs.until_bound(small=3, large=0)

    play(story)


def test_a_group_on_which_sessions_failed_has_the_reason_for_which_it_waits_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_repaired = False

    def raise_on_odd_gangs(session: Session) -> None:
        for gang in session.gangs:
            raise_on_gang(gang)

    def raise_on_gang(gang: Gang) -> None:
        """Stand for a bug that one group reaches after a while."""
        if not is_repaired and any(task.pod.metadata.labels.get("odd") for task in gang.tasks.values()):
            raise LookupError("no such volume")

    monkeypatch.setitem(ACTIONS, "backfill", raise_on_odd_gangs)

    async def story(groups: NativeGroups) -> None:
        nonlocal is_repaired
        client, pod = groups.gangs.client, Key(NAMESPACE, "large-0")
        for name, minimum in (("large", 9), ("small", 2)):
            await groups.group(name, minimum)
            await groups.pods(name, minimum)
        await groups.until_condition("small", "PodGroupScheduled", "True")
        waits = await groups.until_condition("large", "PodGroupScheduled", "False", "NotEnoughResources")
        for name in ("small-0", "large-0"):
            await client.patch(PLACEABLE_PODS, Key(NAMESPACE, name), {"metadata": {"labels": {"odd": "yes"}}})
        failed = await groups.until_condition("large", "PodGroupScheduled", "False", "no such volume")
        assert failed.reason == "SchedulerError"
        is_repaired = True
        await client.patch(PLACEABLE_PODS, pod, {"metadata": {"labels": {"odd": "still"}}})
        again = await groups.until_condition("large", "PodGroupScheduled", "False", waits.message)
        assert again.reason == waits.reason
        await groups.until_condition("small", "PodGroupScheduled", "True")

    play(story)


def test_a_basic_group_starts_with_the_pods_that_fit() -> None:
    async def story(groups: NativeGroups) -> None:
        await groups.group("basic", None)
        await groups.pods("basic", 3, cpu="3")
        await groups.gangs.until_bound(basic=2)
        await groups.until_condition("basic", "PodGroupScheduled", "True")

    play(story)


def test_all_pods_of_a_group_are_in_one_topology_domain() -> None:
    async def story(groups: NativeGroups) -> None:
        client = groups.gangs.client
        names = sorted(node.metadata.name for node in (await client.list(NODES)).items)
        for index, name in enumerate(names):
            patch = {"metadata": {"labels": {RACK: f"r{index % 2}"}}}
            await client.patch(NODES, Key("", name), patch)
        await groups.group("near", 4, topology=RACK)
        await groups.pods("near", 4, cpu="2")
        await groups.gangs.until_bound(near=4)
        assert await groups.nodes_of("near") in ({names[0], names[2]}, {names[1], names[3]})
        await groups.group("wide", 3, topology=RACK)
        await groups.pods("wide", 3, cpu="4")
        await groups.until_condition("wide", "PodGroupScheduled", "False", f"label {RACK}")

    play(story, nodes=4)


def test_a_more_important_group_disrupts_a_group_as_a_whole() -> None:
    async def story(groups: NativeGroups) -> None:
        client = groups.gangs.client
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        await groups.group("whole", 2, disruptionMode="PodGroup")
        await groups.pods("whole", 3)
        await groups.gangs.until_bound(whole=3)
        await groups.group("urgent", 2, priorityClassName="urgent")
        await groups.pods("urgent", 2, cpu="3", priorityClassName="urgent")
        await groups.gangs.until_bound(urgent=2, whole=0)
        disrupted = await groups.until_condition("whole", "DisruptionTarget", "True")
        assert disrupted.reason == "PreemptionByScheduler"
        assert "scheduling.k8s.io/urgent" in disrupted.message
        assert (await groups.until_condition("whole", "PodGroupScheduled", "True")).reason == "Scheduled"

    play(story, nodes=2, cpu="4")


def test_native_and_volcano_groups_of_one_name_share_the_nodes() -> None:
    async def story(groups: NativeGroups) -> None:
        await groups.gangs.group("same", 2, {"cpu": "2"})
        await groups.gangs.pods("same", 2)
        await groups.gangs.until_bound(same=2)
        await groups.group("same", 2)
        named = {"schedulingGroup": {"podGroupName": "same"}}
        for index in range(2):
            body = {
                "metadata": {"name": f"native-{index}"},
                "spec": {
                    "schedulerName": "quorate",
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                    **named,
                },
            }
            await groups.gangs.client.create(PLACEABLE_PODS, body, NAMESPACE)
        await groups.until_condition("same", "PodGroupScheduled", "True")
        assert (await groups.gangs.get_group("same")).spec.min_member == 2

    play(story)


def test_a_new_leader_goes_on_with_native_groups() -> None:
    async def story(groups: NativeGroups) -> None:
        await groups.group("first", 2)
        await groups.pods("first", 2)
        await groups.until_condition("first", "PodGroupScheduled", "True")
        await groups.gangs.stop_scheduler()
        await groups.group("second", 2)
        await groups.pods("second", 2)
        await groups.pods("first", 1, first=2)
        await groups.gangs.start_scheduler(settings(EVICTING))
        await groups.gangs.until_bound(first=3, second=2)
        await groups.until_condition("second", "PodGroupScheduled", "True")

    play(story)


def test_the_commands_say_which_groups_are_those_of_kubernetes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(groups: NativeGroups) -> None:
        command = CommandLine(groups.gangs, tmp_path, monkeypatch)
        await groups.group("ring", 9)
        await groups.pods("ring", 9)
        await groups.gangs.group("ring", 1, {"cpu": "1"})
        await groups.until_condition("ring", "PodGroupScheduled", "False", "NotEnoughResources")
        listed = {
            line[0]: line for line in cells(await command.output_of("podgroup", "list", "-n", NAMESPACE))
        }
        assert listed.keys() == {"ring", "scheduling.k8s.io/ring"}
        assert listed["scheduling.k8s.io/ring"][6:8] == ["Queued", "NotEnoughResources"]
        for name, explained in (
            ("ring", ["default/ring", "default/scheduling.k8s.io/ring"]),
            ("scheduling.k8s.io/ring", ["default/scheduling.k8s.io/ring"]),
        ):
            output = await command.output_of("podgroup", "explain", name, "-n", NAMESPACE, "-o", "json")
            answers = json.loads(output)
            answers = answers if isinstance(answers, list) else [answers]
            assert [answer["podGroup"] for answer in answers] == explained

    play(story)


def test_the_pods_of_a_group_share_the_device_of_the_group() -> None:
    async def story(groups: NativeGroups) -> None:
        client, gangs = groups.gangs.client, groups.gangs
        selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
        await client.create(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        await client.create(RESOURCE_CLAIM_TEMPLATES, template, NAMESPACE)
        claim = {"name": "gpu", "resourceClaimTemplateName": "one"}
        await groups.group("ring", 3, resourceClaims=[claim])
        await groups.pods("ring", 3, resourceClaims=[claim])
        await groups.until_condition("ring", "PodGroupScheduled", "False")
        nodes = sorted(node.metadata.name for node in (await client.list(NODES)).items)
        await offer_gpus(gangs, nodes[1], 1)
        await gangs.until_bound(ring=3)
        assert await groups.nodes_of("ring") == {nodes[1]}
        (shared,) = (await client.list(RESOURCE_CLAIMS, NAMESPACE)).items
        assert len(shared.status.reserved_for) == 3

    play(story)
