"""The objects of a job's plugins on the API server, while the controller runs."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from quorate.api.meta import Key
from quorate.api.volcano.job import Job, with_defaults
from quorate.controllers.limits import OWNED_OBJECTS_CHECK_S
from quorate.controllers.volcano.job.job_resources import AlreadyOwned, JobResources
from quorate.controllers.volcano.job.plugins import Plugin, plugins_of
from quorate.controllers.volcano.job.plugins.interface import CONFIG_MAPS, NETWORK_POLICIES
from quorate.kube.client import Client
from quorate.kube.computations import Computations
from quorate.kube.errors import NotFound
from quorate.kube.resources import SERVICES
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from tests.controllers.volcano.job.notation import a_job
from tests.kube.virtual_clock import VirtualClock
from tests.local.clusters import api_server

pytestmark = pytest.mark.slow

OBJECTS = ((CONFIG_MAPS, "train-svc"), (SERVICES, "train"), (NETWORK_POLICIES, "train"))


@dataclass(frozen=True, slots=True)
class Cluster:
    client: Client
    clock: VirtualClock
    resources: JobResources
    job: Job
    plugins: list[Plugin]

    async def ensure(self) -> None:
        await self.resources.ensure(self.job, self.plugins)

    async def existing(self) -> list[str]:
        found = []
        for resource, name in OBJECTS:
            try:
                await self.client.get(resource, Key("default", name))
            except NotFound:
                continue
            found.append(resource.kind)
        return found


def run(story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            api_server() as server,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            job = with_defaults(a_job("worker=2", plugins={"svc": []}))
            clock = VirtualClock()
            resources = JobResources(client, clock.steady, Computations())
            await story(Cluster(client, clock, resources, job, plugins_of(job)[0]))

    asyncio.run(main())


def test_objects_that_were_deleted_exist_again_before_a_later_pod() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.ensure()
        assert await cluster.existing() == ["ConfigMap", "Service", "NetworkPolicy"]
        for resource, name in OBJECTS:
            await cluster.client.delete(resource, Key("default", name))
        await cluster.ensure()
        assert await cluster.existing() == [], "pods of one moment need no further requests"
        cluster.clock.pass_time(OWNED_OBJECTS_CHECK_S + 1)
        await cluster.ensure()
        assert await cluster.existing() == ["ConfigMap", "Service", "NetworkPolicy"]

    run(story)


def test_a_config_map_of_the_user_is_not_overwritten() -> None:
    async def story(cluster: Cluster) -> None:
        body = {"metadata": {"name": "train-svc"}, "data": {"key": "value"}}
        await cluster.client.create(CONFIG_MAPS, body, "default")
        with pytest.raises(AlreadyOwned, match="ConfigMap default/train-svc belongs to no job"):
            await cluster.ensure()
        stored = await cluster.client.get(CONFIG_MAPS, Key("default", "train-svc"))
        assert stored["data"] == {"key": "value"}

    run(story)
