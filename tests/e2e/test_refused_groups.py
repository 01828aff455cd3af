"""Pod groups that cannot be admitted as they are: what their pods say, and that they end when deleted."""

import pytest

from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import is_gated
from quorate.inspect.connection import Connection
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.targets import named_targets
from quorate.kube.resources import CLUSTER_QUEUES, PLACEABLE_PODS, WORKLOADS, Json
from quorate.queueing import conditions as c
from tests.e2e.test_pods import (
    FLEET,
    FOREVER,
    PODS_QUEUED,
    has,
    pod,
    pods_of,
    until_deleted,
    until_event,
    until_pod,
    until_workload,
)
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow
KEPT = "example.com/archive"  # a finalizer of another owner


def test_a_group_with_the_name_of_another_workload_is_refused_and_its_deleted_pods_are_gone() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await world.job("other", runs=FOREVER)
        await world.until_admitted("other")
        workload = await world.workload("other")
        assert workload is not None
        await pod(world, "thief", group=workload.metadata.name, total=1)
        assert "already exists but is not a pod group workload" in await until_event(
            world, "WorkloadNameConflict", "thief"
        )
        assert is_gated((await pods_of(world))["thief"])
        malformed = {constants.TOTAL_COUNT: "many"}
        await pod(world, "uncounted", group="group", total=1, annotations=malformed)
        await until_event(world, "ErrWorkloadCompose", "uncounted")
        for name in ("thief", "uncounted"):
            await until_pod(world, name, "managed", lambda it: bool(it.metadata.finalizers))
            await world.client.delete(PLACEABLE_PODS, Key(NAMESPACE, name))
        await until_deleted(world, "thief", "uncounted")
        still = await world.until_condition("other", "Admitted")
        assert still.metadata.uid == workload.metadata.uid
        assert still.metadata.owner_references == workload.metadata.owner_references

    run_story(story, PODS_QUEUED, FLEET)


def test_a_group_is_refused_only_while_a_workload_of_another_maker_has_its_name() -> None:
    async def story(world: World) -> None:
        container = {"name": "main", "image": "busybox"}
        pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
        made = {"spec": {"queueName": "queue", "podSets": [pods]}}
        await world.create(WORKLOADS, "train", NAMESPACE, **made)
        await pod(world, "one", group="train", total=1)
        await until_event(world, "WorkloadNameConflict", "one")
        await world.client.delete(WORKLOADS, Key(NAMESPACE, "train"))
        await world.queues("1")
        await until_workload(world, "train", "finished", has("Finished", reason="Succeeded"))

    run_story(story, PODS_QUEUED, FLEET)


def test_an_evicted_group_waits_for_its_replacement_pods_and_says_so() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        for name in ("a", "b"):
            await pod(world, name, group="train", total=2, runs=FOREVER)
        await until_workload(world, "train", "admitted", has("Admitted"))
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), stop("HoldAndDrain"))
        await until_workload(world, "train", "released", has("QuotaReserved", "False"))
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), stop("None"))
        await until_workload(world, "train", "waiting", waits_for_pods)
        connection = Connection(world.client, NAMESPACE)
        (target,) = await named_targets(connection, "workload/train")
        found = await Answers(connection, None).of(target)
        assert found.state == "Held"
        assert [each.code for each in found.reasons] == [c.WAITING_FOR_REPLACEMENT]
        await pod(world, "c", group="train", total=2, runs=FOREVER)
        await pod(world, "d", group="train", total=2, runs=FOREVER)
        await until_workload(world, "train", "admitted again", has("Admitted"))

    run_story(story, PODS_QUEUED, FLEET)


@pytest.mark.parametrize("cpu", [pytest.param("2", id="running"), pytest.param("1", id="waiting")])
def test_a_group_of_deleted_pods_that_others_keep_gets_no_workload_again(cpu: str) -> None:
    async def story(world: World) -> None:
        await world.queues(cpu)
        for name in ("a", "b"):
            await pod(world, name, group="train", total=2, runs=FOREVER, finalizers=(KEPT,))
        reserved = "True" if cpu == "2" else "False"
        workload = await until_workload(world, "train", "is tried", has("QuotaReserved", reserved))
        for name in ("a", "b"):
            await world.client.delete(PLACEABLE_PODS, Key(NAMESPACE, name))
        await world.client.delete(WORKLOADS, workload.metadata.key)
        for name in ("a", "b"):
            await until_pod(world, name, "is released", lambda it: it.metadata.finalizers == (KEPT,))
        await pod(world, "later")
        await world.until_finished("later")  # with the quota of the group; its pods were reconciled before
        names = {each.metadata.name for each in (await world.client.list(WORKLOADS, NAMESPACE)).items}
        assert "train" not in names
        for name in ("a", "b"):
            await world.client.patch(PLACEABLE_PODS, Key(NAMESPACE, name), {"metadata": {"finalizers": None}})
        await until_deleted(world, "a", "b")

    run_story(story, PODS_QUEUED, FLEET)


def waits_for_pods(workload: Workload) -> bool:
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    return reserved is not None and reserved.message == "The pod group waits for replacement pods"


def stop(policy: str) -> Json:
    return {"spec": {"stopPolicy": policy}}
