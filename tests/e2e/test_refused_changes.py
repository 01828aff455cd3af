"""A change of a job that the API server refuses is shown, and does not hold quota for ever."""

from dataclasses import replace

import pytest

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.meta import find_condition
from quorate.controllers.jobframework.construct_workload import workload_name
from quorate.inspect.connection import Connection
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.targets import named_targets
from quorate.kube.clock import Clock, WallClock
from quorate.kube.resources import EVENTS, WORKLOADS
from quorate.processes.local.apply import install_definitions
from quorate.queueing import conditions as c
from tests.e2e.kinds import TRAIN_JOB, Example, Json
from tests.e2e.minimal_definitions import FREE, definition
from tests.e2e.test_kinds import KEY, ManagedJob, install
from tests.e2e.test_pods import PODS_QUEUED, pod, until_event
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

RATE = 100.0
REFUSED = "the job cannot be started: "


class FastClock(WallClock):
    """A clock that runs ``RATE`` times as fast, so that a story need not wait for backoffs of minutes."""

    def __init__(self, real: Clock | None = None) -> None:
        self._real = real or WallClock()
        self._began = self._real.now()

    def now(self) -> float:
        return self._began + (self._real.now() - self._began) * RATE

    async def sleep_until(self, moment: float) -> None:
        await self._real.sleep_until(self._began + (moment - self._began) / RATE)

    @property
    def steady(self) -> Clock:
        return FastClock(self._real.steady) if self._real.steady is not self._real else self


def refusing(example: Example) -> Json:
    """Return the definition of a kind with an API server that refuses every start of a job."""
    refused: Json = definition(example.resource)
    rule = {"rule": "self.suspend", "message": "field is immutable"}
    properties = {"suspend": {"type": "boolean"}}
    spec = {**FREE, "properties": properties, "x-kubernetes-validations": [rule]}
    refused["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    return refused


def is_refused(workload: Workload) -> bool:
    return find_condition(workload.status.conditions, c.JOB_UPDATED) is not None


async def explanation(world: World, example: Example) -> str | None:
    connection = Connection(world.client, NAMESPACE)
    (target,) = await named_targets(connection, f"{example.resource.kind.lower()}/{KEY.name}")
    found = await Answers(connection, None).of(target)
    return found.message if any(each.code == c.START_REFUSED for each in found.reasons) else None


async def first_workload(world: World) -> Workload | None:
    return next(iter((await world.client.list(WORKLOADS)).items), None)


async def event_of_refusal(world: World) -> str | None:
    events = (await world.client.list(EVENTS, NAMESPACE)).items
    return next((event.note for event in events if event.reason == c.START_REFUSED), None)


def test_a_job_that_cannot_be_started_says_so_and_gives_its_quota_back() -> None:
    example = replace(TRAIN_JOB, spec={**TRAIN_JOB.spec, "suspend": True})

    async def story(world: World) -> None:
        await install(world, example)
        await install_definitions(world.client, [refusing(example)])
        await world.start_queueing(Configuration(integrations=example.integrations), clock=FastClock())
        await world.queues(cpu=example.cpu)
        managed = ManagedJob(world, example)
        await managed.create()

        admitted = await managed.until_workload("refused", is_refused)
        shown = find_condition(admitted.status.conditions, c.JOB_UPDATED)
        assert shown is not None
        assert shown.message.startswith("the job cannot be started: ")
        assert "field is immutable" in shown.message
        assert await world.until("an event", lambda: event_of_refusal(world)) == shown.message
        explained = await world.until("an explanation", lambda: explanation(world, example))
        assert shown.message in explained
        assert "the controller of the job" not in explained

        await world.until_condition(KEY.name, "QuotaReserved", "False")
        await world.until_condition(KEY.name, "Evicted", "True", c.START_REFUSED)
        await managed.until_workload("deactivated", lambda it: not it.spec.active)
        await world.until_condition(KEY.name, "QuotaReserved", "False")
        given_up = await managed.until_workload("no longer tried", lambda it: not is_refused(it))

        await install_definitions(world.client, [definition(example.resource)])
        await world.client.patch(WORKLOADS, given_up.metadata.key, {"spec": {"active": True}})
        await managed.until_suspended(False)
        await managed.until_workload("started", lambda it: not is_refused(it))

    run_story(story)


@pytest.mark.parametrize("kind", ["jobs", "pods"])
def test_a_refusal_is_shown_until_the_job_has_started(kind: str) -> None:
    async def story(world: World) -> None:
        if kind == "jobs":
            await world.job(KEY.name, runs="1h", suspend=True)
        else:
            await pod(world, KEY.name)
        await world.until("a workload", lambda: first_workload(world))
        world.queueing_client.refuses[f"PATCH {kind}"] = "no"
        await world.queues(cpu="1")

        async def told() -> bool:
            workload = await first_workload(world)
            assert workload is not None
            shown = find_condition(workload.status.conditions, c.JOB_UPDATED)
            return shown is not None and shown.message == "the job cannot be started: no"

        await world.until("the workload tells why its job is not started", told)
        world.queueing_client.refuses.clear()

        async def started() -> bool:
            workload = await first_workload(world)
            return workload is not None and not is_refused(workload)

        await world.until("it is started", started)

    run_story(story, PODS_QUEUED)


def test_a_job_of_which_another_workload_has_the_name_says_so() -> None:
    async def story(world: World) -> None:
        await world.job("mine", suspend=True)
        metadata = (await world.get_job("mine")).metadata
        name = workload_name("Job", "batch", "mine", metadata.uid)
        template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
        pods = {"name": "main", "count": 1, "template": template}
        await world.create(WORKLOADS, name, NAMESPACE, spec={"podSets": [pods]})
        await world.start_queueing(Configuration())
        note = await until_event(world, "WorkloadNameConflict", "mine")
        assert note == f'A Workload named "{name}" already exists and belongs to another object'

    run_story(story)
