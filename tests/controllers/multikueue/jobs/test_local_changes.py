"""Which changes of a local job let its copy be synced, over HTTP."""

import asyncio
import random

from quorate.api.meta import Key, OwnerReference
from quorate.controllers.informers import WORKLOADS_OF, synced
from quorate.controllers.multikueue.jobs.local_changes import follow_local_jobs
from quorate.controllers.multikueue.jobs.remote_kinds import remote_kinds
from quorate.controllers.multikueue.workers import Workers
from quorate.install.crds import queueing_definitions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.informer import Informer
from quorate.kube.resources import WORKLOADS
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.processes.local.apply import install_definitions
from tests.controllers.multikueue.jobs.clusters import KEY, NAMESPACE, configured, job_uids, until
from tests.e2e.kinds import JOB
from tests.local.clusters import api_server


def test_a_changed_spec_reports_the_workload_of_the_job() -> None:
    async def story() -> None:
        async with (
            api_server() as server,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
            asyncio.TaskGroup() as tasks,
        ):
            await install_definitions(client, queueing_definitions())
            job = await client.create(
                JOB.resource,
                {"metadata": {"name": "train"}, "spec": {**JOB.spec, "suspend": True}},
                NAMESPACE,
            )
            owner = OwnerReference(
                api_version="batch/v1", kind="Job", name="train", uid=job.metadata.uid, controller=True
            )
            body = {
                "metadata": {"name": "of-train", "ownerReferences": [owner]},
                "spec": {"podSets": [{"count": 3, "template": JOB.spec["template"]}]},
            }
            await client.create(WORKLOADS, body, NAMESPACE)
            workers, workloads, changed = Workers(), Informer(client, WORKLOADS), list[Key]()
            workers.subscribe_workloads(changed.append)
            workloads.add_index(WORKLOADS_OF, job_uids)
            kinds = remote_kinds(configured(JOB.integrations)).values()
            following = follow_local_jobs(client, WallClock(), kinds, workers, workloads)
            parts = [tasks.create_task(workloads.run()), tasks.create_task(following)]
            await synced(workloads)

            async def reported() -> bool | None:
                # The first list may already have a change: change it until one is seen.
                parallelism = (await client.get(JOB.resource, KEY)).spec["parallelism"] + 1
                await client.patch(JOB.resource, KEY, {"spec": {"parallelism": parallelism}})
                return bool(changed) or None

            await until(reported)
            assert set(changed) == {Key(NAMESPACE, "of-train")}
            for part in parts:
                part.cancel()

    asyncio.run(story())
