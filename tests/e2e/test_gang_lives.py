"""The life of gangs with controllers, gang scheduler and nodes: restarts, evictions and what comes after."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from quorate.api.configuration import default_configuration
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import DEFAULT_FILE
from quorate.api.volcano import PodGroup
from quorate.controllers.volcano.pod_groups import pod_group_controller
from quorate.kube.resources import EVENTS, POD_GROUPS, PODS, PRIORITY_CLASSES, VOLCANO_JOBS, untyped
from quorate.local.nodes import NodePool
from tests.e2e import shared_clusters
from tests.e2e.gangs import NAME, GangWorld, settings
from tests.e2e.volcano import DEFINITIONS, Gangs
from tests.e2e.world import NAMESPACE, World, running_cluster

pytestmark = pytest.mark.slow

Json = dict[str, Any]
DEPLOYMENTS: Final = untyped("apps", "v1", "deployments", "Deployment", True)
STATEFUL_SETS: Final = untyped("apps", "v1", "statefulsets", "StatefulSet", True)
FOR_EVER: Final = {"simulate.quorate.dev/duration": "forever"}
EVICTING: Final = DEFAULT_FILE.replace(
    '"enqueue, allocate, backfill"', '"enqueue, allocate, preempt, backfill"'
)


class Life:
    """A cluster with everything; ``gangs`` reads Volcano Jobs, ``world`` polls."""

    def __init__(self, world: World) -> None:
        self.world, self.client, self.gangs = world, world.client, Gangs(world)

    async def job(self, name: str, *tasks: Json, **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"schedulerName": NAME, "tasks": list(tasks), **spec}}
        await self.client.create(VOLCANO_JOBS, body, NAMESPACE)

    async def is_gone(self, job: str) -> bool:
        jobs = (await self.client.list(VOLCANO_JOBS, NAMESPACE)).items
        return job not in {each.metadata.name for each in jobs}

    async def uids(self, *names: str) -> dict[str, str]:
        pods = await self.gangs.pods()
        return {name: pods[name].metadata.uid for name in names}


def a_task(name: str, replicas: int = 1, cpu: str = "2", runs: Json = FOR_EVER, **more: Any) -> Json:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    pod = {"schedulerName": NAME, "restartPolicy": "Never", "containers": [container]}
    pod |= {"priorityClassName": more.pop("priority")} if "priority" in more else {}
    template = {"metadata": {"annotations": runs}, "spec": pod}
    return {"name": name, "replicas": replicas, "template": template, **more}


def run_life(
    story: Callable[[Life], Awaitable[None]],
    nodes: int,
    cpu: str,
    file: str = DEFAULT_FILE,
    profile: str = "design",
) -> None:
    async def run() -> None:
        async with running_cluster(NodePool(nodes, cpu=cpu), definitions=DEFINITIONS) as world:
            await world.start_queueing(default_configuration())
            gangs = GangWorld(world.client, world.queueing_client)
            try:
                await gangs.start_scheduler(settings(f"profile: {profile}\n{file}"))
                await story(Life(world))
            finally:
                await gangs.stop_scheduler()

    shared_clusters.run(run())


@pytest.mark.parametrize("profile", ["design", "compat"])
def test_a_restarted_pod_keeps_its_group_and_its_room_on_a_full_cluster(profile: str) -> None:
    async def story(life: Life) -> None:
        fails = {"simulate.quorate.dev/duration": "1500ms", "simulate.quorate.dev/exit-code": "1"}
        policies = [{"event": "PodFailed", "action": "RestartPod"}]
        await life.job("pair", a_task("good"), a_task("bad", runs=fails, policies=policies), maxRetry=3)
        await life.gangs.until_job("pair", "Running", running=2)
        group = await life.gangs.until_group("pair")
        for number in range(3):
            await life.job(f"other{number}", a_task("w"))

        job = await life.gangs.until_job("pair", "Failed")
        assert job.status.retry_count == 3
        runs = [each.status for each in job.status.conditions]
        assert runs.count("Running") == 3, "it ran again after each restart but the last"
        events = (await life.client.list(EVENTS, NAMESPACE)).items
        admissions = [event.regarding for event in events if event.reason == "Inqueue"]
        assert [each.name for each in admissions if each is not None].count(group.metadata.name) == 1
        await life.gangs.until_job("other0", "Running", running=1)

    run_life(story, nodes=2, cpu="2", profile=profile)


def test_the_preemption_of_pods_is_an_eviction_once() -> None:
    async def story(life: Life) -> None:
        await life.client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        policies = [{"event": "PodEvicted", "action": "RestartJob"}]
        worker = a_task("w", 4, cpu="1", minAvailable=2)
        await life.job("elastic", worker, minAvailable=2, maxRetry=9, policies=policies)
        await life.gangs.until_job("elastic", "Running", running=4)
        names = [f"elastic-w-{index}" for index in range(4)]
        before = await life.uids(*names)
        urgent = a_task("w", 2, cpu="1", priority="urgent")
        await life.job("urgent", urgent, priorityClassName="urgent")
        await life.gangs.until_job("urgent", "Running", running=2)
        job = await life.gangs.until_job("elastic", "Running", running=2)
        assert job.status.retry_count == 1
        left = (await life.gangs.pods()).values()
        assert {pod.metadata.uid for pod in left}.isdisjoint(before.values())

    run_life(story, nodes=1, cpu="4", file=EVICTING)


def test_a_completed_group_reserves_nothing_after_its_pods_are_deleted() -> None:
    async def story(life: Life) -> None:
        gangs = GangWorld(life.client, life.world.queueing_client)
        await gangs.group("done", 2, minimum={"cpu": "4"})
        await gangs.pods("done", 2, cpu="2", runs="200ms")
        await gangs.until_phase("done", "Completed")
        for pod in await gangs.members("done"):
            await life.client.delete(PODS, pod.metadata.key)
        await life.job("next", a_task("w", 2))
        await life.gangs.until_job("next", "Running", running=2)
        assert (await gangs.get_group("done")).status.phase == "Completed"

    run_life(story, nodes=1, cpu="4")


def test_a_replica_set_with_too_few_replicas_for_its_gang_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_group_controller, "GROUP_OWNER_CHECK_S", 0.5)
    minimum = "scheduling.volcano.sh/group-min-member"

    async def story(life: Life) -> None:
        labels = {"app": "web"}
        template = a_task("web", cpu="1")["template"]
        template["metadata"]["labels"] = labels
        del template["spec"]["restartPolicy"]
        body = {
            "metadata": {
                "name": "web",
                "annotations": {minimum: "2"},
            },
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        }
        await life.client.create(DEPLOYMENTS, body, NAMESPACE)

        async def ready() -> bool:
            deployment = await life.client.get(DEPLOYMENTS, Key(NAMESPACE, "web"))
            return bool(deployment["status"].get("readyReplicas") == 2)

        await life.world.until("both pods run", ready)

        async def change(image: str, surge: int) -> None:
            containers = [template["spec"]["containers"][0] | {"image": image}]
            changes = {
                "template": {"spec": {"containers": containers}},
                "strategy": {"rollingUpdate": {"maxSurge": surge}},
            }
            await life.client.patch(DEPLOYMENTS, Key(NAMESPACE, "web"), {"spec": changes})

        await change("second", 1)

        async def told() -> bool:
            events = (await life.client.list(EVENTS, NAMESPACE)).items
            notes = [event.note for event in events if event.reason == "MinMemberExceedsReplicas"]
            return any("set maxSurge to 2" in note for note in notes)

        await life.world.until("the event", told)
        await change("second", 2)

        async def updated() -> bool:
            deployment = await life.client.get(DEPLOYMENTS, Key(NAMESPACE, "web"))
            status = deployment["status"]
            return bool(status.get("updatedReplicas") == 2 and status.get("readyReplicas") == 2)

        await life.world.until("the update ends", updated)
        await change("third", 1)

        async def stuck() -> bool:
            (deployment,) = (await life.client.list(DEPLOYMENTS, NAMESPACE)).items
            return bool(deployment["status"].get("updatedReplicas") == 1)

        await life.world.until("the next update has begun", stuck)
        lowered = {"metadata": {"annotations": {minimum: "1"}}}
        await life.client.patch(DEPLOYMENTS, Key(NAMESPACE, "web"), lowered)
        await life.world.until("the group follows its owner", updated)

    run_life(story, nodes=2, cpu="4")


async def a_stuck_pod_is_replaced_and_the_others_run(life: Life) -> None:
    slow = {"simulate.quorate.dev/start-delay": "1h"}
    policies = [{"event": "PodPending", "action": "RestartPod", "timeout": "2s"}]
    stuck = a_task("stuck", runs=slow, cpu="1", policies=policies)
    await life.job("pend", a_task("fine", cpu="1"), stuck, minAvailable=1, maxRetry=2)

    async def restarted() -> bool:
        return (await life.gangs.get_job("pend")).status.retry_count == 1

    await life.world.until("the stuck pod is replaced", restarted)
    fine = await life.uids("pend-fine-0")
    await life.gangs.until_job("pend", "Failed")
    left = (await life.gangs.pods()).get("pend-fine-0")
    assert left is None or left.metadata.uid == fine["pend-fine-0"], "it ran until the job failed"


async def the_last_restart_keeps_only_the_pod_that_failed(life: Life, action: str) -> None:
    name = action.lower()
    fails = {"simulate.quorate.dev/duration": "300ms", "simulate.quorate.dev/exit-code": "3"}
    policies = [{"events": ["PodEvicted", "PodFailed"], "action": action}]
    lead = a_task("lead", runs=fails, cpu="1")
    await life.job(name, lead, a_task("w", 2, cpu="1"), maxRetry=2, policies=policies)
    job = await life.gangs.until_job(name, "Failed")
    assert job.status.retry_count == 2

    async def only_failed() -> bool:
        pods = await life.gangs.pods()
        return [each for each in pods if each.startswith(f"{name}-")] == [f"{name}-lead-0"]

    await life.world.until(f"only the failed pod of {name} is left", only_failed)


async def a_waiting_job_is_created_again(life: Life) -> None:
    for _ in range(3):
        await life.job("again", a_task("w", 2, cpu="99"))
        await life.client.delete(VOLCANO_JOBS, Key(NAMESPACE, "again"))
        await life.world.until("the job is deleted", lambda: life.is_gone("again"))
    await life.job("again", a_task("w", 2, cpu="1"))
    await life.gangs.until_job("again", "Running", running=2)

    async def one_group() -> bool:
        groups = (await life.client.list(POD_GROUPS, NAMESPACE)).items
        return [each.metadata.name[:6] for each in groups].count("again-") == 1

    await life.world.until("the groups of the deleted jobs are gone", one_group)


async def a_task_starts_after_the_pods_that_it_depends_on_have_ended(life: Life) -> None:
    ends = {"simulate.quorate.dev/duration": "200ms"}
    main = a_task("main", 2, cpu="1", dependsOn={"name": ["prep"]})
    await life.job("dep", a_task("prep", 2, cpu="1", runs=ends), main, minAvailable=1)
    await life.gangs.until_job("dep", "Running", succeeded=2, running=2)


async def a_job_without_time_to_live_is_deleted_when_it_ends(life: Life) -> None:
    ends = {"simulate.quorate.dev/duration": "200ms"}
    await life.job("ttl", a_task("w", cpu="1", runs=ends), ttlSecondsAfterFinished=0)
    await life.world.until("the job is deleted", lambda: life.is_gone("ttl"))


async def a_job_is_scaled_without_a_restart(life: Life) -> None:
    await life.job("scaled", a_task("w", 2, cpu="1"), minAvailable=1)
    await life.gangs.until_job("scaled", "Running", running=2)
    for replicas in (4, 1, 6):
        task = a_task("w", replicas, cpu="1", minAvailable=1)
        await life.client.patch(VOLCANO_JOBS, Key(NAMESPACE, "scaled"), {"spec": {"tasks": [task]}})
        job = await life.gangs.until_job("scaled", "Running", running=replicas)
    assert (job.status.retry_count, job.status.version) == (0, 0)


async def a_deployment_that_is_scaled_to_zero_and_back_has_one_group(life: Life) -> None:
    labels = {"app": "zero"}
    template = a_task("web", cpu="1")["template"]
    template["metadata"]["labels"] = labels
    del template["spec"]["restartPolicy"]
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await life.client.create(DEPLOYMENTS, {"metadata": {"name": "zero"}, "spec": spec}, NAMESPACE)
    for replicas in (0, 1, 0, 1):
        await life.client.patch(DEPLOYMENTS, Key(NAMESPACE, "zero"), {"spec": {"replicas": replicas}})

    async def one_of_each() -> bool:
        pods = [each for name, each in (await life.gangs.pods()).items() if name.startswith("zero-")]
        owners = {owner.uid for pod in pods for owner in pod.metadata.owner_references}
        groups = (await life.client.list(POD_GROUPS, NAMESPACE)).items
        own = [each for each in groups if each.metadata.controller and each.metadata.controller.uid in owners]
        return len(pods) == len(own) == 1 and pods[0].status.phase == "Running"

    await life.world.until("one pod runs in one group", one_of_each)


async def a_stateful_set_that_is_created_again_owns_the_pod_that_was_left(life: Life) -> None:
    labels = {"app": "nb"}
    template = a_task("web", cpu="1")["template"]
    template["metadata"]["labels"] = labels
    del template["spec"]["restartPolicy"]
    spec = {"replicas": 1, "serviceName": "nb", "selector": {"matchLabels": labels}, "template": template}
    body, key = {"metadata": {"name": "nb"}, "spec": spec}, Key(NAMESPACE, "nb")

    async def ready() -> bool:
        return bool((await life.client.get(STATEFUL_SETS, key))["status"].get("readyReplicas") == 1)

    await life.client.create(STATEFUL_SETS, body, NAMESPACE)
    await life.world.until("the pod runs", ready)
    before = await life.uids("nb-0")
    await life.client.delete(STATEFUL_SETS, key, propagation="Orphan")

    async def left() -> bool:
        sets = (await life.client.list(STATEFUL_SETS, NAMESPACE)).items
        return not sets and (await life.gangs.pods())["nb-0"].metadata.controller is None

    await life.world.until("the pod has no owner", left)
    await life.client.create(STATEFUL_SETS, body, NAMESPACE)
    await life.world.until("the new set has the pod", ready)
    assert await life.uids("nb-0") == before


async def a_deleted_group_of_pods_is_made_again(life: Life) -> None:
    body = {"metadata": {"name": "alone", "annotations": FOR_EVER}}
    body["spec"] = a_task("w", cpu="1")["template"]["spec"]
    await life.client.create(PODS, body, NAMESPACE)

    async def running_group() -> PodGroup | None:
        group = await life.gangs.until_group("alone")
        return group if group.status.phase == "Running" else None

    group = await life.world.until("the pod runs", running_group)
    before = await life.uids("alone")
    await life.client.delete(POD_GROUPS, group.metadata.key)

    async def is_new() -> bool:
        again = await running_group()
        return again is not None and again.metadata.uid != group.metadata.uid

    await life.world.until("another group of this name", is_new)
    assert await life.uids("alone") == before


def test_jobs_restart_wait_scale_and_end_as_their_fields_say() -> None:
    async def story(life: Life) -> None:
        async with asyncio.TaskGroup() as stories:
            for each in (
                a_stuck_pod_is_replaced_and_the_others_run(life),
                the_last_restart_keeps_only_the_pod_that_failed(life, "RestartTask"),
                the_last_restart_keeps_only_the_pod_that_failed(life, "RestartJob"),
                a_waiting_job_is_created_again(life),
                a_task_starts_after_the_pods_that_it_depends_on_have_ended(life),
                a_job_without_time_to_live_is_deleted_when_it_ends(life),
                a_job_is_scaled_without_a_restart(life),
                a_deployment_that_is_scaled_to_zero_and_back_has_one_group(life),
                a_stateful_set_that_is_created_again_owns_the_pod_that_was_left(life),
                a_deleted_group_of_pods_is_made_again(life),
            ):
                stories.create_task(each)

    run_life(story, nodes=3, cpu="16")
