"""One life that a job of every kind leads, over HTTP, with its kind's own controller imitated."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.api.field_path import look_up, parse_path, write_field
from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition, is_true
from quorate.cli.run.apply import install_definitions
from quorate.controllers.jobs.integrations import BATCH_JOB, FRAMEWORK_KINDS
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.errors import NotFound
from quorate.kube.resources import EVENTS, JOBS, WORKLOADS
from tests.e2e.kinds import EXAMPLES, JOB_SET, Added, Example, Json, definition, pods
from tests.e2e.world import NAMESPACE, World, play

pytestmark = pytest.mark.slow

KEY = Key(NAMESPACE, "train")
TOLERATION = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}


class Life:
    """The job of one example in a world."""

    def __init__(self, world: World, example: Example) -> None:
        self.world = world
        self.example = example
        self.resource = example.resource
        self.written: Json = {}  # what was stored for its user, but suspended

    async def create(self) -> None:
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        body = {"metadata": {"name": KEY.name, "labels": labels}, "spec": self.example.spec}
        stored = await self.world.client.create(self.resource, body, NAMESPACE)
        self.written = copy.deepcopy({"spec": stored.spec})
        write_field(self.written, parse_path(self.example.suspend), self.example.stopped_is)
        for resource, beside in self.example.beside:
            namespace = NAMESPACE if resource.namespaced else ""
            await self.world.client.create(resource, {"metadata": {"name": KEY.name}, **beside}, namespace)

    async def job(self) -> UnstructuredJob:
        return await self.world.client.get(self.resource, KEY)

    async def until_suspended(self, suspended: bool) -> UnstructuredJob:
        async def find() -> UnstructuredJob | None:
            job = await self.job()
            is_so = look_up(job.document, parse_path(self.example.suspend)) == self.example.stopped_is
            return job if is_so is suspended else None

        return await self.world.until(f"suspended is {suspended}", find)

    async def until_restored(self) -> None:
        async def find() -> bool:
            return {"spec": (await self.job()).spec} == self.written

        await self.world.until(f"the job is {self.written}", find)

    async def say(self, status: Json) -> None:
        """Do as the kind's own controller does."""
        fresh = {**dict.fromkeys((await self.job()).status), **status}
        await self.world.client.patch(self.resource, KEY, {"status": fresh}, subresource="status")

    async def until_workload(self, what: str, holds: Any) -> Workload:
        async def find() -> Workload | None:
            workload = await self.world.workload(KEY.name)
            return workload if workload is not None and holds(workload) else None

        return await self.world.until(what, find)

    async def is_gone(self) -> bool:
        try:
            await self.job()
        except NotFound:
            return await self.world.workload(KEY.name) is None
        return False


def running(integrations: Integrations) -> Configuration:
    waiting = WaitForPodsReady(timeout_s=60, recovery_timeout_s=60, block_admission=None)
    return Configuration(integrations=integrations, wait_for_pods_ready=waiting)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.resource.kind)
def test_a_job_of_each_kind_has_the_same_lifecycle(example: Example) -> None:
    async def story(world: World) -> None:
        await install(world, example)
        await world.start_queueing(running(example.integrations))
        await live(world, example)

    play(story)


async def live(world: World, example: Example) -> None:
    life = Life(world, example)
    await life.create()
    await is_held_back(life)
    await world.flavor(nodeLabels={"zone": "a"}, tolerations=[TOLERATION])
    await world.cluster_queue(example.cpu)
    await world.local_queue()
    await starts_as_admitted(life, example.gets)
    await gets_ready_and_gives_back(life)
    await is_evicted_and_restored(life)
    await starts_as_admitted(life, {**example.gets, **example.then_gets})
    await finishes(life)
    await goes(life)


async def install(world: World, example: Example) -> None:
    resources = [resource for resource, _ in example.beside]
    if not example.is_built_in:
        resources.append(example.resource)
    await install_definitions(world.client, [definition(resource) for resource in resources])


async def is_held_back(life: Life) -> None:
    job = await life.until_suspended(True)
    assert {"spec": job.spec} == life.written
    workload = await life.until_workload("a workload", bool)
    assert {each.name: each.count for each in workload.spec.pod_sets} == life.example.asks


async def starts_as_admitted(life: Life, gets: Mapping[str, int]) -> None:
    example = life.example
    job = await life.until_suspended(False)
    workload = await life.until_workload("admitted", lambda it: is_true(it.status.conditions, "Admitted"))
    expected = copy.deepcopy(life.written)
    write_field(expected, parse_path(example.suspend), example.running_is)
    for name, place in example.templates.items():
        added = Added(
            labels={
                "kueue.x-k8s.io/podset": name,
                "kueue.x-k8s.io/local-queue-name": "queue",
                "kueue.x-k8s.io/cluster-queue-name": "research",
            },
            annotations={"kueue.x-k8s.io/workload": workload.metadata.name},
            node_selector={"zone": "a"},
            toleration=TOLERATION,
        )
        example.add(expected, place, added)
    for name, count in example.gets.items():
        write_field(expected, parse_path(example.counts[name]), count)
    assert {"spec": job.spec} == expected
    assert workload.status.admission is not None
    admitted = {each.name: each.count for each in workload.status.admission.pod_set_assignments}
    assert admitted == {**example.asks, **gets}


async def gets_ready_and_gives_back(life: Life) -> None:
    example = life.example
    await life.world.until_condition(KEY.name, "PodsReady", "False")
    await life.say(example.runs)
    await life.world.until_condition(KEY.name, "PodsReady", "True")
    if example.progress is not None:
        await life.say(example.progress)
        await life.until_workload(
            f"reclaimed {example.reclaims}",
            lambda it: {each.name: each.count for each in it.status.reclaimable_pods} == example.reclaims,
        )


async def is_evicted_and_restored(life: Life) -> None:
    workload = await life.until_workload("any", bool)
    await life.world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
    await life.until_suspended(True)
    evicted = await life.world.until_condition(KEY.name, "Evicted")
    assert is_true(evicted.status.conditions, "QuotaReserved"), "its pods still run"
    await life.say(life.example.stopped)
    await life.world.until_condition(KEY.name, "QuotaReserved", "False")
    await life.until_restored()
    await life.world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": True}})


async def finishes(life: Life) -> None:
    if life.example.succeeded is None:
        return
    await life.say(life.example.succeeded)
    finished = await life.world.until_condition(KEY.name, "Finished", "True", "Succeeded")
    told = find_condition(finished.status.conditions, "Finished")
    assert told is not None
    assert told.message == life.example.ends_with
    await life.until_workload("released", lambda it: not it.metadata.finalizers)


async def goes(life: Life) -> None:
    await life.world.client.delete(life.resource, KEY, propagation="Background")
    await life.world.until("job and workload are gone", life.is_gone)


def test_a_child_job_has_no_workload_and_runs_only_with_its_parent() -> None:
    async def story(world: World) -> None:
        example = JOB_SET
        await install_definitions(world.client, [definition(example.resource)])
        frameworks = Integrations(frameworks=("batch/job", *example.integrations.frameworks))
        await world.start_queueing(
            Configuration(integrations=frameworks, manage_jobs_without_queue_name=True)
        )
        whole = Life(world, example)
        await whole.create()
        owner = {
            "apiVersion": example.resource.api_version,
            "kind": example.resource.kind,
            "name": KEY.name,
            "uid": (await whole.job()).metadata.uid,
            "controller": True,
        }
        metadata = {"name": "part", "ownerReferences": [owner]}
        await world.client.create(JOBS, {"metadata": metadata, "spec": {"template": pods()}}, NAMESPACE)
        await until_suspended(world, "part")

        await world.queues(cpu="100")
        await world.until_admitted(KEY.name)
        await world.client.patch(JOBS, Key(NAMESPACE, "part"), {"spec": {"suspend": False}})
        await world.job("later", queue="nowhere")  # once this is seen to, so is what came before
        await until_suspended(world, "later")
        assert not (await world.get_job("part")).spec.suspend
        assert await world.workload("part") is None

        workload = await world.workload(KEY.name)
        assert workload is not None
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
        await until_suspended(world, "part")

    play(story)


def test_a_job_with_too_deep_ownership_gets_an_event_and_is_not_managed() -> None:
    async def story(world: World) -> None:
        owner: list[Json] = []
        for level in range(12):
            spec = {"template": pods(), "suspend": True}
            job = {"metadata": {"name": f"level-{level}", "ownerReferences": owner}, "spec": spec}
            uid = (await world.client.create(JOBS, job, NAMESPACE)).metadata.uid
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": f"level-{level}", "uid": uid}
            owner = [{**reference, "controller": True}]

        async def told() -> bool:
            listed = await world.client.list(EVENTS, NAMESPACE)
            about = {
                each.regarding.name
                for each in listed.items
                if each.reason == "JobNestingTooDeep" and each.regarding
            }
            return about == {"level-11"}

        await world.until("the lowest is told", told)

    play(story, Configuration(manage_jobs_without_queue_name=True))


async def until_suspended(world: World, name: str) -> None:
    async def find() -> bool:
        return (await world.get_job(name)).spec.suspend

    await world.until(f"{name} is suspended", find)


def test_every_kind_has_an_example() -> None:
    named = {name for example in EXAMPLES for name in example.integrations.frameworks}
    assert named == {BATCH_JOB, *FRAMEWORK_KINDS}


def test_a_kind_is_managed_once_its_crd_is_established() -> None:
    async def story(world: World) -> None:
        example = JOB_SET
        await world.queues(cpu="100")
        await world.job("plain", runs="forever")
        await world.until_admitted("plain")  # kinds that are served do not wait for those that are not
        await install_definitions(world.client, [definition(example.resource)])
        life = Life(world, example)
        await life.create()
        await world.until_admitted(KEY.name)

    play(story, Configuration(integrations=Integrations(frameworks=("batch/job", *FRAMEWORK_KINDS))))
