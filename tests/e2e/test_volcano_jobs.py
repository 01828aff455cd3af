"""Volcano Jobs over HTTP: pods exist only while their pod group is admitted."""

import asyncio
from copy import deepcopy
from functools import partial

import msgspec
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.configuration.gang import GangScheduling
from quorate.api.meta import Key, Uid
from quorate.controllers.volcano.command_bus import CommandBus
from quorate.controllers.volcano.job.plugins.interface import NETWORK_POLICIES
from quorate.kube.informer import Informer
from quorate.kube.resources import (
    COMMANDS,
    CONFIG_MAPS,
    EVENTS,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESOURCE_QUOTAS,
    VOLCANO_JOBS,
    Json,
)
from tests.e2e import shared_clusters
from tests.e2e.volcano import DEFINITIONS, Gangs, run_story
from tests.e2e.world import NAMESPACE, running_cluster
from tests.kube.virtual_clock import VirtualClock

pytestmark = [pytest.mark.slow, pytest.mark.measured]


def test_a_long_name_makes_valid_pods() -> None:
    async def scenario(gangs: Gangs) -> None:
        name = "train-a-large-language-model"
        await gangs.job(name, "worker=1", plugins={"ssh": [], "svc": []})
        await gangs.set_group_phase(await gangs.until_group(name), "Inqueue")
        pods = await gangs.until_pods(f"{name}-worker-0")
        assert pods

    run_story(scenario)


def test_a_job_from_pending_to_completed() -> None:
    async def scenario(gangs: Gangs) -> None:
        await gangs.job("train", "worker=2", queue="research", plugins={"svc": [], "env": []})
        group = await gangs.until_group("train")
        assert (group.spec.min_member, group.spec.queue) == (2, "research")
        await gangs.until_job("train", "Pending")
        assert await gangs.pods() == {}

        await gangs.set_group_phase(group, "Inqueue")
        names = ("train-worker-0", "train-worker-1")
        pods = await gangs.until_pods(*names)
        assert (
            pods["train-worker-1"].metadata.annotations["scheduling.k8s.io/group-name"] == group.metadata.name
        )
        hosts = await gangs.client.get(CONFIG_MAPS, Key(NAMESPACE, "train-svc"))
        assert hosts.data["VC_WORKER_HOSTS"] == "train-worker-0.train,train-worker-1.train"
        await gangs.until_job("train", "Pending", pending=2)

        await gangs.bind(*names)
        await gangs.set_pod_phase("Running", *names)
        await gangs.until_job("train", "Running", running=2)
        assert await gangs.client.get(NETWORK_POLICIES, Key(NAMESPACE, "train"))
        await gangs.set_pod_phase("Succeeded", *names)
        done = await gangs.until_job("train", "Completed", succeeded=2)
        assert [each.status for each in done.status.conditions] == ["Pending", "Running", "Completed"]

        async def no_group() -> bool:
            return not (await gangs.client.list(POD_GROUPS, NAMESPACE)).items

        await gangs.world.until("the pod group is deleted", no_group)
        assert sorted(await gangs.pods()) == sorted(names)  # finished pods are kept for their logs

        counted = partial(counts_ended, gangs, "job_completed_phase_count", "research")
        await gangs.world.until("the completion is counted", partial(counted, 1))
        assert gangs.metric("controller_job_to_pod_creation_latency_milliseconds_count") == 2
        await gangs.world.stop_queueing()
        assert await counted(None), "a stopped controller removes its series"

    run_story(scenario)


def test_the_host_list_follows_the_replicas() -> None:
    async def scenario(gangs: Gangs) -> None:
        async def resize(replicas: int) -> None:
            (task,) = (await gangs.get_job("train")).spec.tasks
            spec = {"name": "worker", "replicas": replicas, "template": msgspec.json.decode(task.template)}
            changes = {"spec": {"minAvailable": 1, "tasks": [{**spec, "minAvailable": 1}]}}
            await gangs.client.patch(VOLCANO_JOBS, Key(NAMESPACE, "train"), changes)

        async def until_hosts(*names: str) -> None:
            async def reported() -> bool:
                hosts = await gangs.client.get(CONFIG_MAPS, Key(NAMESPACE, "train-svc"))
                return hosts.data["worker.host"].split() == [f"{name}.train" for name in names]

            await gangs.until_pods(*names)
            await gangs.world.until(f"the hosts are {names}", reported)

        names = [f"train-worker-{index}" for index in range(3)]
        await gangs.job("train", "worker=2", plugins={"svc": []}, minAvailable=1)
        await gangs.set_group_phase(await gangs.until_group("train"), "Inqueue")
        await until_hosts(*names[:2])
        await resize(3)
        await until_hosts(*names)
        await resize(1)
        await until_hosts(names[0])

    run_story(scenario)


async def counts_ended(gangs: Gangs, series: str, queue: str, want: float | None) -> bool:
    return gangs.metric(series, job_name=f"{NAMESPACE}/train", queue_name=queue) == want


def test_unscheduled_pods_are_deleted_when_their_group_is_pending_again() -> None:
    async def scenario(gangs: Gangs) -> None:
        await gangs.job("train", "worker=3", minAvailable=2)
        group = await gangs.until_group("train")
        await gangs.set_group_phase(group, "Inqueue")
        await gangs.until_pods("train-worker-0", "train-worker-1", "train-worker-2")

        await gangs.set_group_phase(group, "Pending", "NotEnoughResources")
        await gangs.until_pods()

        async def reported() -> bool:
            events = (await gangs.client.list(EVENTS, NAMESPACE)).items
            return any("NotEnoughResources: short of cpu" in event.note for event in events)

        await gangs.world.until("the job has an event with the reason", reported)
        await gangs.set_group_phase(group, "Inqueue")
        await gangs.until_pods("train-worker-0", "train-worker-1", "train-worker-2")
        job = await gangs.get_job("train")
        assert (job.status.state.phase, job.status.retry_count) == ("Pending", 0)  # not a failure

    run_story(scenario)


def test_a_restart_creates_a_new_pod_group() -> None:
    async def scenario(gangs: Gangs) -> None:
        restart = {"event": "PodFailed", "action": "RestartJob"}
        await gangs.job("train", "worker=2", policies=[restart], maxRetry=2)
        first = await gangs.until_group("train")
        await gangs.set_group_phase(first, "Inqueue")
        names = ("train-worker-0", "train-worker-1")
        before = await gangs.until_pods(*names)
        await gangs.set_pod_phase("Running", names[0])
        await gangs.set_pod_phase("Failed", names[1], exit_code=1)
        await gangs.until_pods()

        async def replaced() -> bool:
            groups = (await gangs.client.list(POD_GROUPS, NAMESPACE)).items
            return [each.metadata.uid for each in groups] not in ([], [first.metadata.uid])

        await gangs.world.until("a new group", replaced)
        job = await gangs.until_job("train", "Pending")
        assert (job.status.retry_count, job.status.version) == (1, 1)
        await gangs.set_group_phase(first, "Inqueue")
        after = await gangs.until_pods(*names)
        assert {pod.metadata.uid for pod in after.values()}.isdisjoint(
            pod.metadata.uid for pod in before.values()
        )
        await gangs.set_pod_phase("Failed", names[0], exit_code=1)
        job = await gangs.until_job("train", "Failed")
        assert job.status.state.reason == "MaxRetryReached"
        counted = partial(counts_ended, gangs, "job_failed_phase_count", "default")
        await gangs.world.until("the failure is counted", partial(counted, 1))
        await gangs.client.delete(VOLCANO_JOBS, Key(NAMESPACE, "train"))
        await gangs.world.until("its series is removed", partial(counted, None))

    run_story(scenario)


def test_lost_requests_and_responses_do_not_change_the_result() -> None:
    async def scenario(gangs: Gangs) -> None:
        client = gangs.world.queueing_client
        client.one_in = 3
        restart = {"event": "PodFailed", "action": "RestartJob"}
        await gangs.job("train", "worker=4", policies=[restart], plugins={"svc": []})
        names = [f"train-worker-{index}" for index in range(4)]
        await gangs.set_group_phase(await gangs.until_group("train"), "Inqueue")
        await gangs.until_pods(*names)
        await gangs.set_pod_phase("Failed", names[2], exit_code=1)
        await gangs.until_pods()
        job = await gangs.until_job("train", "Pending", failed=0)
        assert (job.status.retry_count, job.status.version) == (1, 1)  # one failure, one restart
        await gangs.set_group_phase(await gangs.until_group("train"), "Inqueue")
        await gangs.until_pods(*names)
        await gangs.bind(*names)
        await gangs.set_pod_phase("Running", *names)
        await gangs.until_job("train", "Running", running=4)
        await gangs.set_pod_phase("Succeeded", *names)
        job = await gangs.until_job("train", "Completed", succeeded=4)
        assert job.status.retry_count == 1
        assert client.lost > 0

    run_story(scenario)


def test_pods_that_are_too_large_are_reported_and_delay_no_other_job() -> None:
    async def scenario(gangs: Gangs) -> None:
        containers = [{"name": f"c{number}", "image": "busybox"} for number in range(500)]
        tasks = [{"name": "worker", "replicas": 2, "template": {"spec": {"containers": containers}}}]
        volumes = [{"mountPath": f"/mnt/{number}"} for number in range(500)]
        await gangs.world.create(VOLCANO_JOBS, "large", NAMESPACE, spec={"tasks": tasks, "volumes": volumes})
        await gangs.job("small", "worker=1")
        for name in ("large", "small"):
            await gangs.set_group_phase(await gangs.until_group(name), "Inqueue")
        await gangs.until_pods("small-worker-0")

        async def reported() -> bool:
            events = (await gangs.client.list(EVENTS, NAMESPACE)).items
            return any(
                event.reason == "FailedCreate" and "would have more than" in event.note for event in events
            )

        await gangs.world.until("the large job has an event about its pods", reported)
        await gangs.until_job("large", "Pending", pending=0)

    run_story(scenario)


def test_a_job_waits_for_exhausted_quota_and_does_not_fail() -> None:
    async def scenario(gangs: Gangs) -> None:
        await gangs.world.create(RESOURCE_QUOTAS, "quota", NAMESPACE, spec={"hard": {"pods": "1"}})

        async def shown() -> bool:
            quota = await gangs.client.get(RESOURCE_QUOTAS, Key(NAMESPACE, "quota"))
            return bool(quota.status.hard)

        await gangs.world.until("the quota has a status", shown)
        await gangs.job("train", "worker=2")
        group = await gangs.until_group("train")
        await gangs.set_group_phase(group, "Inqueue")

        async def reported() -> bool:
            events = (await gangs.client.list(EVENTS, NAMESPACE)).items
            return any(event.reason == "FailedCreate" and "exceeded quota" in event.note for event in events)

        await gangs.world.until("the job has an event about the quota", reported)
        await gangs.until_job("train", "Pending", pending=1)
        await gangs.client.patch(RESOURCE_QUOTAS, Key(NAMESPACE, "quota"), {"spec": {"hard": {"pods": "9"}}})
        await gangs.until_pods("train-worker-0", "train-worker-1")

    run_story(scenario)


def test_a_job_is_suspended_and_resumed_by_commands() -> None:
    async def scenario(gangs: Gangs) -> None:
        await gangs.job("train", "worker=1")
        group = await gangs.until_group("train")
        await gangs.set_group_phase(group, "Inqueue")
        await gangs.until_pods("train-worker-0")
        job = await gangs.get_job("train")
        await gangs.command("AbortJob", job)
        await gangs.until_job("train", "Aborted")
        await gangs.until_pods()
        await gangs.command("ResumeJob", job)
        await gangs.until_job("train", "Pending")
        await gangs.set_group_phase(await gangs.until_group("train"), "Inqueue")
        await gangs.until_pods("train-worker-0")
        assert (await gangs.client.list(COMMANDS, NAMESPACE)).items == ()

    run_story(scenario)


def test_a_command_waits_for_its_target_before_it_is_deleted() -> None:
    def command(name: str, uid: str) -> dict[str, object]:
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid}
        return {"metadata": {"name": name}, "action": "AbortJob", "target": target}

    async def run() -> None:
        async with running_cluster(definitions=DEFINITIONS) as world, asyncio.TaskGroup() as tasks:
            client, train = world.client, Key(NAMESPACE, "train")
            commands, clock = Informer(client, COMMANDS), VirtualClock(0.0)
            bus = CommandBus(client, clock, commands, VOLCANO_JOBS)
            for body in (command("early", ""), command("to-an-earlier-one", "deleted")):
                await client.create(COMMANDS, body, NAMESPACE)
            watching = tasks.create_task(commands.run())
            await commands.synced.wait()
            due = await bus.delete_orphans(train)
            assert due is not None
            assert [each.metadata.name for each in await bus.pending(train, Uid("new"))] == ["early"]
            assert len((await client.list(COMMANDS, NAMESPACE)).items) == 1
            await clock.advance_to(due)
            assert await bus.delete_orphans(train) is None
            assert (await client.list(COMMANDS, NAMESPACE)).items == ()
            watching.cancel()

    shared_clusters.run(run())


def test_restarted_controllers_continue_and_write_only_what_is_needed() -> None:
    async def run() -> None:
        async with running_cluster(definitions=DEFINITIONS) as world:
            gangs = Gangs(world)
            await world.start_queueing(default_configuration())
            await gangs.job("train", "worker=2")
            group = await gangs.until_group("train")
            await world.stop_queueing()
            await gangs.set_group_phase(group, "Inqueue")
            await world.start_queueing(default_configuration())
            await gangs.until_pods("train-worker-0", "train-worker-1")
            await gangs.until_job("train", "Pending", pending=2)

            async def counted() -> bool:
                listed = (await gangs.client.list(QUEUES)).items
                queues = {each.metadata.name: each.status for each in listed}
                return queues["default"].inqueue == 1 and queues["root"].state == "Open"

            await world.until("the queue counts the group, and the root is open", counted)
            await world.stop_queueing()

            world.queueing_client.succeeded.clear()
            await world.start_queueing(default_configuration())
            await gangs.client.delete(PODS, Key(NAMESPACE, "train-worker-0"), grace_period_s=0)
            await gangs.until_pods(
                "train-worker-0", "train-worker-1"
            )  # everything else is reconciled by then

            async def responded() -> bool:
                return bool(world.queueing_client.writes)

            await world.until("the response has arrived", responded)
            assert world.queueing_client.writes == {"POST pods": 1}

    shared_clusters.run(run())


def test_a_refused_pod_group_is_an_event_on_the_job() -> None:
    async def scenario(gangs: Gangs) -> None:
        hard = {"count/podgroups.scheduling.volcano.sh": "0"}
        await gangs.world.create(RESOURCE_QUOTAS, "no-groups", NAMESPACE, spec={"hard": hard})

        async def shown() -> bool:
            quota = await gangs.client.get(RESOURCE_QUOTAS, Key(NAMESPACE, "no-groups"))
            return bool(quota.status.hard)

        await gangs.world.until("the quota has a status", shown)
        await gangs.job("train")

        async def reported() -> bool:
            events = (await gangs.client.list(EVENTS, NAMESPACE)).items
            return any(event.reason == "PodGroupError" and "exceeded quota" in event.note for event in events)

        await gangs.world.until("the job has an event", reported)
        await gangs.until_job("train", "Pending")

    run_story(scenario)


def test_only_configured_kinds_are_managed() -> None:
    async def scenario(gangs: Gangs) -> None:
        await gangs.job("unmanaged")
        container = {"name": "main", "image": "busybox"}
        spec = {"schedulerName": "volcano", "containers": [container]}
        await gangs.world.create(PODS, "managed", NAMESPACE, spec=spec)
        await gangs.until_group("managed")
        assert (await gangs.get_job("unmanaged")).status.state.phase == ""
        assert [each.metadata.name for each in (await gangs.client.list(QUEUES)).items] == []

    rules = GangScheduling(managed_kinds=("pods",))
    run_story(scenario, msgspec.structs.replace(default_configuration(), gang=rules))


def test_queues_are_created_drain_and_close_their_children() -> None:
    async def scenario(gangs: Gangs) -> None:
        async def until_state(name: str, state: str) -> None:
            async def find() -> bool:
                found = [
                    each for each in (await gangs.client.list(QUEUES)).items if each.metadata.name == name
                ]
                return bool(found) and found[0].status.state == state

            await gangs.world.until(f"queue {name} is {state}", find)

        for name in ("root", "default"):
            await until_state(name, "Open")
        await gangs.world.create(QUEUES, "research", spec={"weight": 1})
        await gangs.world.create(QUEUES, "vision", spec={"weight": 1, "parent": "research"})
        await until_state("vision", "Open")
        await gangs.job("train", queue="vision")
        await gangs.until_group("train")
        target = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "name": "research",
            "uid": "",
        }
        body = {"metadata": {"generateName": "close-"}, "action": "CloseQueue", "target": target}
        await gangs.client.create(COMMANDS, body, NAMESPACE)
        await until_state("research", "Closed")
        await until_state("vision", "Closing")
        await gangs.client.delete(VOLCANO_JOBS, Key(NAMESPACE, "train"))
        await until_state("vision", "Closed")
        await gangs.client.create(COMMANDS, {**body, "action": "OpenQueue"}, NAMESPACE)
        await until_state("vision", "Open")

    run_story(scenario)


def definitions_of_older_volcano() -> list[Json]:
    """Return CRDs without newer fields, which require ``allocated`` in the status of a queue."""
    definitions = deepcopy(list(DEFINITIONS))
    roots = {}
    for definition in definitions:
        spec = definition["spec"]
        if spec["group"].endswith("volcano.sh"):
            definition["metadata"]["labels"] = {"app": "volcano"}
            roots[spec["names"]["kind"]] = spec["versions"][0]["schema"]["openAPIV3Schema"]
    queue, group = roots["Queue"]["properties"], roots["PodGroup"]["properties"]
    for field in ("dequeueStrategy", "deserved", "maxPodGroups", "parent", "priority"):
        del queue["spec"]["properties"][field]
    for field in ("minTaskMember", "networkTopology", "subGroupPolicy"):
        del group["spec"]["properties"][field]
    del roots["Queue"]["x-kubernetes-validations"]  # about a field that was removed
    queue["status"]["required"] = ["allocated"]
    return definitions


def test_a_job_runs_with_the_crds_of_an_older_volcano() -> None:
    async def run() -> None:
        async with running_cluster(definitions=definitions_of_older_volcano()) as world:
            gangs = Gangs(world)
            await world.start_queueing(default_configuration())
            await gangs.job("train", "worker=2", networkTopology={"mode": "soft"})
            group = await gangs.until_group("train")
            await gangs.set_group_phase(group, "Inqueue")
            names = ("train-worker-0", "train-worker-1")
            await gangs.until_pods(*names)

            async def counted() -> bool:
                listed = (await gangs.client.list(QUEUES)).items
                queues = {each.metadata.name: each.status for each in listed}
                found = queues.get("default")
                return found is not None and (found.state, found.inqueue) == ("Open", 1)

            await world.until("its queue is open and counts it", counted)
            await gangs.bind(*names)
            await gangs.set_pod_phase("Running", *names)
            await gangs.until_job("train", "Running", running=2)
            await gangs.set_pod_phase("Succeeded", *names)
            await gangs.until_job("train", "Completed", succeeded=2)

    shared_clusters.run(run())
