"""A CronJob with jobs that wait in a queue, over HTTP."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.kube.resources import JOBS, Json, untyped
from quorate.local.nodes import NodePool
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow
CRON_JOBS = untyped("batch", "v1", "cronjobs", "CronJob", True)
QUEUE_NAME = "kueue.x-k8s.io/queue-name"


def a_cron_job(name: str) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"annotations": {"simulate.quorate.dev/start-delay": "10ms"}}, "spec": pod}
    job = {"metadata": {"labels": {QUEUE_NAME: "queue"}}, "spec": {"suspend": True, "template": template}}
    spec = {"schedule": "@every 1s", "concurrencyPolicy": "Forbid", "jobTemplate": job}
    return {"metadata": {"name": name}, "spec": spec}


def test_the_jobs_of_a_cron_job_wait_for_their_queue_and_run_one_at_a_time() -> None:
    async def story(world: World) -> None:
        await world.flavor()
        await world.cluster_queue("1")
        await world.client.create(CRON_JOBS, a_cron_job("tick"), NAMESPACE)

        async def queued() -> str | None:
            names = [job.metadata.name for job in (await world.client.list(JOBS, NAMESPACE)).items]
            return next((name for name in names if name.startswith("tick-")), None)

        name = await world.until("a job is created", queued)
        await world.until_condition(name, "QuotaReserved", "False")
        assert (await world.get_job(name)).spec.suspend
        assert await queued() == name, "Forbid: the next job waits for the one in the queue"
        await world.local_queue()
        await world.until_finished(name)

        async def recorded() -> bool:
            status = (await world.client.get(CRON_JOBS, Key(NAMESPACE, "tick"))).get("status", {})
            return "lastSuccessfulTime" in status

        await world.until("the CronJob knows of the success", recorded)

    run_story(story, Configuration(), NodePool(1, cpu="8"))
