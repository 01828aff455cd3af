"""A job that names a prebuilt workload, over HTTP."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.kube.resources import WORKLOADS
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


def test_a_job_starts_once_its_prebuilt_workload_is_admitted() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1")
        await world.job("train", labels={PREBUILT: "made-before"}, runs="forever")

        async def find() -> bool:
            return (await world.get_job("train")).spec.suspend

        await world.until("train waits for its workload", find)
        template = (await world.get_job("train")).spec.template
        await world.create(
            WORKLOADS,
            "made-before",
            NAMESPACE,
            spec={"queueName": "queue", "podSets": [{"name": "main", "count": 1, "template": template}]},
        )
        await world.until_admitted("train")

        async def started() -> Workload | None:
            job = await world.get_job("train")
            return (
                None if job.spec.suspend else await world.client.get(WORKLOADS, Key(NAMESPACE, "made-before"))
            )

        workload = await world.until("train runs", started)
        owner = workload.metadata.controller
        assert owner is not None
        assert (owner.kind, owner.name) == ("Job", "train")
        assert len((await world.client.list(WORKLOADS, NAMESPACE)).items) == 1

    run_story(story, Configuration())
