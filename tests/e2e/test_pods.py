"""Plain pods and pod groups, without webhooks: what a user sees, over HTTP."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key, LabelSelector, find_condition, is_true
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import is_gated, is_ready
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    EVENTS,
    NAMESPACES,
    PLACEABLE_PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from quorate.local.nodes import NodePool
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = [pytest.mark.slow, pytest.mark.measured]

PODS_QUEUED = Configuration(integrations=Integrations(frameworks=("batch/job", "pod")))
FLEET = NodePool(count=1, cpu="8", memory="16Gi")
GATE = {"name": constants.ADMISSION_GATE}
FOREVER = "1h"
ONE = Key(NAMESPACE, "one")
FAILS = {"simulate.quorate.dev/exit-code": "1"}


async def pod(
    world: World,
    name: str,
    *,
    cpu: str = "1",
    queue: str = "queue",
    runs: str = "100ms",
    gated: bool = True,
    group: str = "",
    total: int = 0,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    finalizers: tuple[str, ...] = (),
    **spec: Any,
) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    simulated = {"simulate.quorate.dev/duration": runs, "simulate.quorate.dev/start-delay": "10ms"}
    in_group = {constants.TOTAL_COUNT: str(total)} if group else {}
    metadata = {
        "name": name,
        "finalizers": finalizers,
        "labels": {
            **({"kueue.x-k8s.io/queue-name": queue} if queue else {}),
            **({constants.GROUP_NAME: group} if group else {}),
            **(labels or {}),
        },
        "annotations": {**simulated, **in_group, **(annotations or {})},
    }
    body = {
        "restartPolicy": "Never",
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        **({"schedulingGates": [GATE]} if gated else {}),
        **spec,
    }
    await world.client.create(PLACEABLE_PODS, {"metadata": metadata, "spec": body}, NAMESPACE)


async def pods_of(world: World) -> dict[str, Pod]:
    return {each.metadata.name: each for each in (await world.client.list(PLACEABLE_PODS, NAMESPACE)).items}


async def until_pod(world: World, name: str, what: str, holds: Callable[[Pod], bool]) -> Pod:
    async def find() -> Pod | None:
        found = (await pods_of(world)).get(name)
        return found if found is not None and holds(found) else None

    return await world.until(f"pod {name} {what}", find)


async def until_deleted(world: World, *pods: str) -> None:
    async def find() -> bool:
        return not set(pods) & set(await pods_of(world))

    await world.until(f"pods {pods} are deleted", find)


async def until_workload(world: World, name: str, what: str, holds: Callable[[Workload], bool]) -> Workload:
    async def find() -> Workload | None:
        for each in (await world.client.list(WORKLOADS, NAMESPACE)).items:
            if each.metadata.name == name and holds(each):
                return each
        return None

    return await world.until(f"workload {name} {what}", find)


def has(type_: str, status: str = "True", reason: str = "") -> Callable[[Workload], bool]:
    def holds(workload: Workload) -> bool:
        found = find_condition(workload.status.conditions, type_)
        return found is not None and found.status == status and reason in ("", found.reason)

    return holds


async def until_event(world: World, reason: str, about: str) -> str:
    async def find() -> str:
        for each in (await world.client.list(EVENTS, NAMESPACE)).items:
            if each.reason == reason and each.regarding is not None and each.regarding.name == about:
                return each.note
        return ""

    return await world.until(f"event {reason} about {about}", find)


def test_a_gated_pod_waits_for_quota_then_runs_on_its_admitted_flavor() -> None:
    async def story(world: World) -> None:
        await pod(world, "one")
        taken_in = await until_pod(world, "one", "taken in", lambda it: it.metadata.is_managed)
        assert constants.MANAGED in taken_in.metadata.finalizers
        assert len(taken_in.metadata.annotations[constants.ROLE_HASH]) == 8
        assert is_gated(taken_in)
        workload = await world.until("a workload", lambda: world.workload("one"))
        assert [(each.name, each.count) for each in workload.spec.pod_sets] == [("main", 1)]
        await world.flavor(nodeLabels={"kubernetes.io/os": "linux"})
        await world.cluster_queue("1")
        await world.local_queue()
        await world.until_finished("one")
        ran = await until_pod(world, "one", "let go", lambda it: not it.metadata.finalizers)
        assert ran.status.phase == "Succeeded"
        assert ran.metadata.labels["kueue.x-k8s.io/podset"] == "main"
        assert b'"nodeSelector":{"kubernetes.io/os":"linux"}' in bytes(ran.written)
        assert await until_event(world, "Started", "one") == "Admitted by clusterQueue research"

    run_story(story, PODS_QUEUED, FLEET)


def test_a_pod_created_without_a_gate_is_not_managed_and_gets_an_event() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await pod(world, "one", gated=False)
        await pod(world, "other", gated=False, queue="")
        note = await until_event(world, "NotGated", "one")
        assert note.startswith(
            f"the pod asks for queue queue but was made without the scheduling gate {GATE['name']}"
        )
        await until_pod(world, "one", "ended", lambda it: it.status.phase == "Succeeded")
        assert not (await pods_of(world))["one"].metadata.is_managed
        assert await world.workload("one") is None

    run_story(story, PODS_QUEUED, FLEET)


def test_a_preempted_pod_is_deleted_with_the_reason_in_its_status() -> None:
    async def story(world: World) -> None:
        await world.queues("1")
        await pod(world, "one", runs=FOREVER, finalizers=("example.com/archive",))
        await until_pod(world, "one", "running", lambda it: it.status.phase == "Running")
        workload = await world.until_condition("one", "Admitted")
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
        ended = await until_pod(
            world, "one", "let go", lambda it: it.metadata.finalizers == ("example.com/archive",)
        )
        assert ended.metadata.deletion_timestamp is not None
        condition = find_condition(ended.status.conditions, constants.TERMINATION_TARGET)
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "WorkloadEvictedDueToDeactivated")
        assert condition.message == "The workload is deactivated"
        await world.client.patch(PLACEABLE_PODS, ended.metadata.key, {"metadata": {"finalizers": None}})
        await world.until("the workload is deleted too", no_workloads(world))

    run_story(story, PODS_QUEUED, FLEET)


def test_a_pod_that_is_resized_in_place_runs_on_with_the_quota_that_it_has() -> None:
    async def story(world: World) -> None:
        async def resize(cpu: str) -> None:
            container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
            await world.client.patch(
                PLACEABLE_PODS, ONE, {"spec": {"containers": [container]}}, subresource="resize"
            )

        await world.queues("4")
        await pod(world, ONE.name, runs=FOREVER)
        await until_pod(world, ONE.name, "running", lambda it: it.status.phase == "Running")
        # As a kubelet reports that it can resize the container.
        container = {"name": "main", "image": "busybox", "imageID": "", "ready": True, "restartCount": 0}
        running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        able = {**container, "state": running, "resources": {"requests": {"cpu": "1"}}}
        await world.client.patch(
            PLACEABLE_PODS, ONE, {"status": {"containerStatuses": [able]}}, subresource="status"
        )
        first = await world.until_condition(ONE.name, "Admitted")
        await resize("500m")
        await pod(world, "other")
        await world.until_finished("other")  # the resized pod was reconciled before
        still = await world.until_condition(ONE.name, "Admitted")
        assert still.metadata.uid == first.metadata.uid
        await resize("2")
        assert await until_event(world, "Stopped", ONE.name) == (
            "It was resized to more than quota is charged for: cpu 2, charged 1"
        )
        await until_deleted(world, ONE.name)

    run_story(story, PODS_QUEUED, FLEET)


def no_workloads(world: World) -> Callable[[], Any]:
    async def find() -> bool:
        return not (await world.client.list(WORKLOADS, NAMESPACE)).items

    return find


def test_a_group_waits_until_it_is_complete_and_starts_all_its_pods() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await pod(world, "leader", group="train", total=3, cpu="500m")
        await pod(world, "worker-1", group="train", total=3)
        note = await until_event(world, "ErrWorkloadCompose", "leader")
        assert note == "'train' group has fewer runnable pods than expected"
        await pod(world, "worker-2", group="train", total=3)
        waiting = await until_workload(world, "train", "waiting", has("QuotaReserved", "False"))
        assert sorted(each.count for each in waiting.spec.pod_sets) == [1, 2]
        assert len(waiting.metadata.owner_references) == 3
        assert all(map(is_gated, (await pods_of(world)).values()))
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), more_cpu("3"))
        await until_workload(world, "train", "finished", has("Finished", reason="Succeeded"))
        ended = await pods_of(world)
        assert {each.status.phase for each in ended.values()} == {"Succeeded"}
        await world.until("no pod has a finalizer", pods_without_finalizers(world))
        finished = await until_workload(world, "train", "finished", has("Finished"))
        condition = find_condition(finished.status.conditions, "Finished")
        assert condition is not None
        assert condition.message == "Pods succeeded: 3/3."

    run_story(story, PODS_QUEUED, FLEET)


def more_cpu(cpu: str) -> dict[str, Any]:
    quotas = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    return {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quotas]}]}}


def pods_without_finalizers(world: World) -> Callable[[], Any]:
    async def find() -> bool:
        return not any(each.metadata.finalizers for each in (await pods_of(world)).values())

    return find


def test_a_failed_pod_of_a_group_is_replaced_by_another() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await pod(world, "one", group="train", total=2, runs=FOREVER)
        await pod(world, "two", group="train", total=2, annotations=FAILS)
        await until_workload(world, "train", "waits", has("WaitingForReplacementPods", reason="PodsFailed"))
        failed = await until_pod(world, "two", "failed", lambda it: it.status.phase == "Failed")
        assert failed.metadata.finalizers == (constants.MANAGED,)
        await pod(world, "three", group="train", total=2, runs=FOREVER)
        await until_pod(world, "three", "running", lambda it: it.status.phase == "Running")
        await until_pod(world, "two", "let go", lambda it: not it.metadata.finalizers)
        complete = await until_workload(
            world, "train", "is complete", has("WaitingForReplacementPods", "False", "PodsReady")
        )
        assert len(complete.metadata.owner_references) == 3

    run_story(story, PODS_QUEUED, FLEET)


def test_a_preempted_group_releases_its_quota_and_waits_for_new_pods() -> None:
    async def story(world: World) -> None:
        await world.flavor()
        await world.cluster_queue("2", preemption={"withinClusterQueue": "LowerPriority"})
        await world.local_queue()
        await world.create(WORKLOAD_PRIORITY_CLASSES, "high", value=10)
        for name in ("one", "two"):
            await pod(world, name, group="low", total=2, runs=FOREVER)
        await until_workload(world, "low", "admitted", has("Admitted"))
        await until_pod(world, "two", "running", lambda it: it.status.phase == "Running")
        await pod(world, "urgent", cpu="2", labels={"kueue.x-k8s.io/priority-class": "high"})
        await world.until_finished("urgent")
        low = await until_workload(
            world, "low", "waits", has("WaitingForReplacementPods", reason="Preempted")
        )
        assert not is_true(low.status.conditions, "QuotaReserved")
        stopped = await pods_of(world)
        assert all(stopped[name].metadata.deletion_timestamp is not None for name in ("one", "two"))
        for name in ("three", "four"):
            await pod(world, name, group="low", total=2)
        await until_deleted(world, "one", "two")
        await until_workload(world, "low", "finished", has("Finished", reason="Succeeded"))

    run_story(story, PODS_QUEUED, FLEET)


def test_deleting_the_workload_of_a_group_deletes_the_group() -> None:
    async def story(world: World) -> None:
        await world.queues("1")
        for name in ("one", "two"):
            await pod(world, name, group="train", total=2)
        waiting = await until_workload(world, "train", "waits", has("QuotaReserved", "False"))
        await world.client.delete(WORKLOADS, waiting.metadata.key)
        await until_deleted(world, "one", "two")
        await world.until("the workload is deleted too", no_workloads(world))

    run_story(story, PODS_QUEUED, FLEET)


def test_a_group_of_which_no_pod_is_managed_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """As the pods of a set are until its reconciler has labelled them."""

    async def story(world: World) -> None:
        await world.queues("1")
        await pod(world, "one", group="train", total=1, runs=FOREVER)
        await until_workload(world, "train", "admitted", has("Admitted"))
        in_set = {constants.SUSPENDING_PARENT: "statefulset"}
        patch = {"metadata": {"labels": {constants.MANAGED: None}, "annotations": in_set}}
        await world.client.patch(PLACEABLE_PODS, ONE, patch)
        await pod(world, "two", group="next", total=1)  # once it waits, the first group was looked at
        await until_workload(world, "next", "waits", has("QuotaReserved", "False"))

    with caplog.at_level("ERROR"):
        run_story(story, PODS_QUEUED, FLEET)
    assert [record.message for record in caplog.records] == []


def test_excess_pods_of_a_group_are_deleted() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        for name in ("one", "two"):
            await pod(world, name, group="train", total=2, runs=FOREVER)
        await until_workload(world, "train", "admitted", has("Admitted"))
        await pod(world, "three", group="train", total=2)
        assert await until_event(world, "ExcessPodDeleted", "three") == "Excess pod deleted"
        await until_deleted(world, "three")
        assert len(await pods_of(world)) == 2

    run_story(story, PODS_QUEUED, FLEET)


def test_restarted_controllers_write_nothing_about_settled_pods() -> None:
    async def settled(world: World) -> dict[str, str]:
        pods = {name: each.metadata.resource_version for name, each in (await pods_of(world)).items()}
        workload = await world.client.get(WORKLOADS, Key(NAMESPACE, "train"))
        return {name: pods[name] for name in ("one", "two", "stray")} | {
            "train": workload.metadata.resource_version
        }

    async def story(world: World) -> None:
        await world.queues("4")
        await pod(world, "stray", gated=False, runs=FOREVER)
        for name in ("one", "two"):
            await pod(world, name, group="train", total=2, runs=FOREVER)
        await until_pod(world, "stray", "running", lambda it: it.status.phase == "Running")
        for name in ("one", "two"):
            await until_pod(world, name, "ready", is_ready)
        before = await settled(world)
        await world.stop_queueing()
        await world.start_queueing(PODS_QUEUED)
        await pod(world, "other")
        await world.until_finished("other")
        assert await settled(world) == before

    run_story(story, PODS_QUEUED, FLEET)


def test_lost_writes_do_not_change_the_result_for_a_group() -> None:
    async def story(world: World) -> None:
        await world.queues("3")
        world.queueing_client.one_in = 4
        for name in ("one", "two", "three"):
            await pod(world, name, group="train", total=3, runs="300ms")
        await until_workload(world, "train", "finished", has("Finished", reason="Succeeded"))
        await world.until("no pod has a finalizer", pods_without_finalizers(world))
        assert world.queueing_client.lost > 0

    run_story(story, PODS_QUEUED, FLEET)


def test_pods_are_managed_once_their_namespace_matches_the_selector() -> None:
    of_teams = LabelSelector(match_labels={"kind": "team"})
    configuration = msgspec.structs.replace(PODS_QUEUED, managed_jobs_namespace_selector=of_teams)

    async def story(world: World) -> None:
        await world.queues("4")
        await world.create(NAMESPACES, "other")
        marked = {constants.MANAGED: "true"}
        await pod(world, "one", labels=marked)
        await pod(world, "two", group="train", total=1, labels=marked)
        await world.client.patch(NAMESPACES, Key("", "other"), {"metadata": {"labels": {"kind": "team"}}})
        seen = {"name": "barrier", "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
        spec = {"containers": [{"name": "main", "image": "busybox"}], "schedulingGates": [GATE]}
        await world.client.create(PLACEABLE_PODS, {"metadata": seen, "spec": spec}, "other")
        await world.until("the pod of a managed namespace is gated", lambda: has_workload(world, "other"))
        assert not (await world.client.list(WORKLOADS, NAMESPACE)).items
        await world.client.patch(NAMESPACES, Key("", NAMESPACE), {"metadata": {"labels": {"kind": "team"}}})
        await world.until_finished("one")
        await until_workload(world, "train", "finished", has("Finished"))

    run_story(story, configuration, FLEET)


async def has_workload(world: World, namespace: str) -> bool:
    return bool((await world.client.list(WORKLOADS, namespace)).items)
