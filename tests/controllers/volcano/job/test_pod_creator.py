"""Creation of pods while the pod group may become pending again."""

import asyncio
import random

import msgspec
import pytest

from quorate.api.meta import at_epoch
from quorate.api.volcano.job import with_defaults
from quorate.controllers.limits import JOB_WRITES_IN_FLIGHT
from quorate.controllers.volcano.job.assume_cache import AssumeCache
from quorate.controllers.volcano.job.job_sync import NewPod
from quorate.controllers.volcano.job.pod_creator import PodCreator
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.computations import Computations
from quorate.kube.resources import PLACEABLE_PODS
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.recorder import Recorder
from tests.controllers.volcano.job.notation import NOW, a_job
from tests.local.clusters import api_server


@pytest.mark.slow
def test_creation_stops_once_the_group_is_pending_again() -> None:
    pods = [NewPod("worker", index) for index in range(3 * JOB_WRITES_IN_FLIGHT)]
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    job = with_defaults(a_job([{"name": "worker", "replicas": len(pods), "template": template}]))
    stored = msgspec.structs.replace(job.metadata, creation_timestamp=at_epoch(NOW))
    job = msgspec.structs.replace(job, metadata=stored)

    async def story() -> int:
        async with (
            api_server() as server,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            record = Recorder(lambda: "leader", CustomLabels()).record
            creator = PodCreator(client, WallClock(), Computations(), AssumeCache(WallClock()), record)
            answers = iter([True, False])
            assert await creator.create(job, pods, lambda: next(answers)) == (None, ())
            return len((await client.list(PLACEABLE_PODS, "default")).items)

    assert asyncio.run(story()) == JOB_WRITES_IN_FLIGHT
