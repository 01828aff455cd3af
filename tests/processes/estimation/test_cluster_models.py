"""A worker cluster that serves no estimates, such as one with Kueue, is modelled from a watch."""

import asyncio
import random
from datetime import UTC, datetime

import pytest

from quorate.api import codec
from quorate.api.explanation import StartAnswer, StartQuestion
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.install.crds import queueing_definitions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden
from quorate.kube.informer import Informer
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    RESERVATIONS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Json,
)
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.processes.estimation.cluster_models import ClusterModels, watched
from quorate.processes.local.apply import install_definitions
from tests.kube.fake_server import Answer, FakeServer
from tests.local.clusters import api_server

DEADLINE_S = 120.0


def workload(name: str, cpu: int) -> Json:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]}}
    pod_set = {"name": "main", "count": 1, "template": template}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": "batch", "podSets": [pod_set], "active": True},
    }


@pytest.mark.slow
def test_a_cluster_without_our_controllers_is_asked_through_a_model_of_its_objects() -> None:
    asyncio.run(_story())


async def _story() -> None:
    models = ClusterModels(WallClock())
    async with api_server() as server:
        config = RestConfig(server.url, credentials=Token(server.token))
        async with Client(config, random.Random(1)) as client, asyncio.TaskGroup() as tasks:
            await install_definitions(client, queueing_definitions())
            await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}})
            quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
            group = {"coveredResources": ["cpu"], "flavors": [quota]}
            spec = {"namespaceSelector": {}, "resourceGroups": [group]}
            await client.create(CLUSTER_QUEUES, {"metadata": {"name": "batch"}, "spec": spec})
            local_queue = {"metadata": {"name": "batch"}, "spec": {"clusterQueue": "batch"}}
            await client.create(LOCAL_QUEUES, local_queue, "default")
            running = tasks.create_task(models.run())
            await asyncio.sleep(0)

            async def ask(name: str, cpu: int) -> StartAnswer:
                """Ask until the cluster is read."""
                asked = codec.decode(Workload, codec.encode(workload(name, cpu)))
                question = StartQuestion(workload=asked)
                async with asyncio.timeout(DEADLINE_S):
                    while (answer := await models.would_start("a", client, question)).starts == "Unknown":
                        assert answer.reason == "the cluster is being read"
                return answer

            now = StartAnswer(starts="Within", p50_seconds=0.0, p90_seconds=0.0, spare=1 / 3)
            assert await ask("x", 3) == now
            never = await ask("x", 5)
            assert never.starts == "Never"
            assert "cpu" in never.reason
            reserved = [{"flavor": "default", "resources": {"cpu": "4"}}]
            begun = f"{datetime.fromtimestamp(WallClock().now(), UTC):%Y-%m-%dT%H:%M:%SZ}"
            window = {"purpose": "Maintenance", "start": begun, "durationSeconds": 1800, "amounts": reserved}
            await client.create(RESERVATIONS, {"metadata": {"name": "repair"}, "spec": window})
            async with asyncio.timeout(DEADLINE_S):
                while (after := await ask("x", 3)) == now:
                    pass
            assert after.p50_seconds == pytest.approx(1800.0, abs=60), "it waits for the end of the window"
            await client.delete(RESERVATIONS, Key("", "repair"))
            async with asyncio.timeout(DEADLINE_S):
                while await ask("x", 3) != now:
                    pass
            await client.create(WORKLOADS, workload("first", 3), "default")
            async with asyncio.timeout(DEADLINE_S):
                while (behind := await ask("x", 3)) == now:
                    pass
            assert behind.p50_seconds == pytest.approx(3600.0, abs=30), "it waits for the one before it"
            running.cancel()


@pytest.mark.slow
def test_a_cluster_that_cannot_be_read_has_no_estimates() -> None:
    async def story() -> None:
        models = ClusterModels(WallClock())
        async with api_server() as server:
            config = RestConfig(server.url, credentials=Token("unknown-token"))
            async with Client(config, random.Random(1)) as client, asyncio.TaskGroup() as tasks:
                running = tasks.create_task(models.run())
                await asyncio.sleep(0)
                asked = codec.decode(Workload, codec.encode(workload("x", 1)))
                answer = await models.would_start("a", client, StartQuestion(workload=asked))
                assert answer.starts == "Unknown"
                assert answer.reason.startswith("it serves no estimates, and cannot be read: ")
                running.cancel()

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("body", [b"[]", b"not JSON", b'{"items": {}}'])
def test_what_a_cluster_answers_ends_its_model_only(body: bytes) -> None:
    async def story() -> None:
        models = ClusterModels(WallClock())
        async with FakeServer(lambda request: Answer(body=body)) as server:
            config = RestConfig(server.url)
            async with Client(config, random.Random(1)) as client, asyncio.TaskGroup() as tasks:
                running = tasks.create_task(models.run())
                await asyncio.sleep(0)
                asked = codec.decode(Workload, codec.encode(workload("x", 1)))
                answer = await models.would_start("a", client, StartQuestion(workload=asked))
                assert answer.reason.startswith("it serves no estimates, and cannot be read: ")
                assert not running.done()
                running.cancel()

    asyncio.run(story())


def test_a_manager_that_may_not_read_reservations_models_the_cluster_without_them() -> None:
    async def story() -> None:
        status = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"}
        answer = Answer(status=403, body=codec.encode(status))
        async with (
            FakeServer(lambda request: answer) as server,
            Client(RestConfig(server.url), random.Random(1)) as client,
        ):
            reservations = Informer(client, RESERVATIONS)
            watching = asyncio.ensure_future(watched(reservations))
            async with asyncio.timeout(DEADLINE_S):
                await reservations.synced.wait()
            assert (list(reservations), watching.done()) == ([], False)
            watching.cancel()
            with pytest.raises(Forbidden):
                await watched(Informer(client, WORKLOADS))

    asyncio.run(story())
