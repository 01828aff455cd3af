"""A pod group that cannot be read delays no other, shows why, and is served once it is correct."""

import pytest

from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import default_scheduler_configuration
from quorate.gang.actions import ACTIONS
from quorate.gang.outcome import Outcome
from quorate.gang.session.session import Session
from quorate.kube.errors import Invalid
from quorate.kube.events import UNUSABLE
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import EVENTS, NAMESPACES, untyped
from quorate.local.nodes import NodePool
from quorate.scheduler.observer import Bound, SchedulerObserver, SessionTimes
from tests.e2e.gangs import GangWorld, run_gang_story
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

DEFINITIONS = untyped(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
POD_GROUPS = untyped("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True)
ODD = Key("tenant", "odd")


async def drop_schema(world: GangWorld) -> None:
    """Let the API server store pod groups of any form, as a definition of another origin may do."""
    key = Key("", "podgroups.scheduling.volcano.sh")
    versions = (await world.client.get(DEFINITIONS, key))["spec"]["versions"]
    for version in versions:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"] = {"openAPIV3Schema": anything}
    await world.client.patch(DEFINITIONS, key, {"spec": {"versions": versions}})


async def store_odd_group(world: GangWorld) -> None:
    await world.client.create(NAMESPACES, {"metadata": {"name": ODD.namespace}})

    async def accepted() -> bool:
        odd = {"metadata": {"name": ODD.name}, "spec": {"minMember": "three"}}
        try:
            await world.client.create(POD_GROUPS, odd, ODD.namespace)
        except Invalid:
            return False  # the new definition is not in effect yet
        return True

    await world.until("the API server stores the pod group", accepted)


def test_a_pod_group_that_cannot_be_read_concerns_no_other_and_heals() -> None:
    async def story(world: GangWorld) -> None:
        await drop_schema(world)
        await store_odd_group(world)
        await world.group("probe", 1, {"cpu": "1"})
        await world.until_phase("probe", "Inqueue")

        async def reported() -> str:
            for event in (await world.client.list(EVENTS)).items:
                if event.reason == "Unreadable" and event.regarding is not None:
                    assert (event.regarding.kind, event.regarding.name) == ("PodGroup", ODD.name)
                    return event.note
            return ""

        note = await world.until("the pod group has an event", reported)
        assert "minMember" in note

        async def shown() -> bool:
            conditions = (await world.client.get(POD_GROUPS, ODD)).get("status", {}).get("conditions", [])
            return [(each["type"], each["reason"]) for each in conditions] == [
                ("Unschedulable", "Unreadable")
            ]

        await world.until("the pod group has a condition", shown)

        await world.client.patch(POD_GROUPS, ODD, {"spec": {"minMember": 1}})

        async def admitted() -> bool:
            return (await world.get_group(ODD.name, ODD.namespace)).status.phase == "Inqueue"

        await world.until("the corrected pod group is admitted", admitted)

    run_gang_story(story, NodePool(1, cpu="4"))


def test_a_pod_or_a_node_on_which_a_session_raises_is_set_aside_and_everything_else_is_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raise_on_odd_objects(session: Session) -> None:
        """Stand for a bug that one pod and one node reach, each in a function of its own."""
        for member in [task.pod for gang in session.gangs for task in gang.tasks.values()]:
            raise_on_pod(member)
        for each in session.model.cluster.nodes:
            raise_on_node(each)

    def raise_on_pod(pod: Pod) -> None:
        if pod.metadata.name == "odd-0":
            raise LookupError("no such volume")

    def raise_on_node(node: Node | None) -> None:
        if node is not None and node.metadata.name == "node-2":
            raise LookupError("no such zone")

    monkeypatch.setitem(ACTIONS, "backfill", raise_on_odd_objects)

    async def story(world: GangWorld) -> None:
        await world.node("node-2", cpu="8")
        await world.group("odd", 1)
        await world.pods("odd", 1)
        await world.group("probe", 2, {"cpu": "2"})
        await world.pods("probe", 2)
        await world.until_bound(probe=2)
        assert {pod.node_name for pod in await world.members("probe")} <= {"node-1"}

        async def reported() -> set[tuple[str, str]] | None:
            found = {
                (event.regarding.kind, event.regarding.name)
                for event in (await world.client.list(EVENTS)).items
                if event.reason == UNUSABLE and event.regarding is not None
            }
            return found if len(found) > 1 else None

        assert await world.until("two events", reported) == {("Pod", "odd-0"), ("Node", "node-2")}

    run_gang_story(story, NodePool(1, cpu="4"))


def test_the_running_pods_of_a_group_that_cannot_be_read_count_in_its_queue() -> None:
    async def story(world: GangWorld) -> None:
        await world.queue("team", capability={"cpu": "2"})
        await world.group("odd", 2, {"cpu": "2"}, queue="team")
        await world.pods("odd", 2)
        await world.until_bound(odd=2)
        await drop_schema(world)

        async def damaged() -> bool:
            try:
                patch = {"spec": {"minMember": "two"}}
                await world.client.patch(POD_GROUPS, Key(NAMESPACE, "odd"), patch)
            except Invalid:
                return False  # the new definition is not in effect yet
            return True

        await world.until("the API server stores the pod group", damaged)
        await world.until_queue_allocated("team", cpu="2", pods="2")
        await world.group("second", 1, {"cpu": "1"}, queue="team")
        await world.until_phase("second", "Pending")
        await world.stop_scheduler()
        await world.start_scheduler(default_scheduler_configuration())
        await world.group("third", 1, {"cpu": "1"}, queue="team")
        await world.until_waits("third", "QueueQuotaExceeded")
        await world.until_queue_allocated("team", cpu="2", pods="2")
        assert (await world.get_group("second")).status.phase == "Pending"
        assert (await world.bound())["odd"] == 2

        await world.delete_members("odd")
        await world.until_phase("second", "Inqueue")

    run_gang_story(story, NodePool(1, cpu="8"))


class RaisingObserver(SchedulerObserver):
    """Stands for a bug in the metrics."""

    def session_ended(self, outcome: Outcome, times: SessionTimes) -> None:
        raise LookupError("no such session")

    def bound(self, bound: Bound) -> None:
        raise LookupError("no such pod")

    def object_fault(self, fault: ObjectFault) -> None:
        raise LookupError("no such object")

    def bind_failed(self, task: Key) -> None:
        raise LookupError("no such bind")


def test_an_observer_that_raises_changes_no_decision(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: GangWorld) -> None:
        world.seen.observers.insert(0, RaisingObserver())
        await drop_schema(world)
        await store_odd_group(world)
        for name in ("first", "second"):
            await world.group(name, 2)
            await world.pods(name, 2)
            await world.until_bound(**{name: 2})
            await world.until_phase(name, "Running")

    run_gang_story(story, NodePool(1, cpu="8"))
    raised = [record.getMessage() for record in caplog.records if "an observer raised" in record.getMessage()]
    assert len(raised) >= 4
