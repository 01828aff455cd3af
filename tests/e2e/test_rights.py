"""The controllers ask the API server for nothing that the table of rights does not name."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quorate.api.configuration import default_configuration
from quorate.cli.deployment.rights import RIGHTS
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from tests.e2e.world import FaultyClient, World, a_world

pytestmark = pytest.mark.slow

Asked = tuple[str, str, str]  # verb, group, resource with subresource
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
GRANTED = {(verb, right.group, resource) for right in RIGHTS for verb, resource in right}


class RecordingClient(FaultyClient):
    """Writes down what it asks for, in the words of access rules."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rights: set[Asked] = set()

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        self.rights |= rights_for(method, path)
        return await super().request(method, path, **options)

    async def watch(self, resource: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        self.rights.add(("watch", resource.group, resource.plural))
        async for event in super().watch(resource, *args, **options):
            yield event


def rights_for(method: str, path: str) -> set[Asked]:
    """What is needed to be answered; discovery is everybody's."""
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if not rest:
        return set()
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    plural, named, subresource = rest[0], len(rest) > 1, rest[2:]
    resource = "/".join([plural, *subresource])
    return {(_VERBS.get(method) or ("get" if named else "list"), group, resource)}


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("GET", "/api/v1/namespaces", ("list", "", "namespaces")),
        ("GET", "/api/v1/namespaces/default", ("get", "", "namespaces")),
        ("POST", "/api/v1/namespaces/default/pods", ("create", "", "pods")),
        ("PATCH", "/apis/batch/v1/namespaces/default/jobs/a/status", ("patch", "batch", "jobs/status")),
        ("DELETE", "/apis/ray.io/v1/namespaces/a/rayjobs/b", ("delete", "ray.io", "rayjobs")),
    ],
)  # fmt: skip
def test_a_request_is_read_as_a_right(method: str, path: str, want: Asked) -> None:
    assert rights_for(method, path) == {want}


def test_a_life_of_jobs_asks_for_no_more_than_is_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.e2e.world.FaultyClient", RecordingClient)

    async def story() -> None:
        async with a_world() as world:
            await world.start_queueing(default_configuration())
            await live(world)
            client = world.queueing_client
            assert isinstance(client, RecordingClient)
            assert sorted(client.rights - GRANTED) == []
            expected = {
                ("create", "kueue.x-k8s.io", "workloads"),
                ("delete", "kueue.x-k8s.io", "workloads"),
                ("patch", "kueue.x-k8s.io", "workloads/status"),
                ("patch", "kueue.x-k8s.io", "clusterqueues/status"),
                ("patch", "kueue.x-k8s.io", "localqueues/status"),
                ("patch", "kueue.x-k8s.io", "clusterqueues"),
                ("patch", "kueue.x-k8s.io", "resourceflavors"),
                ("patch", "batch", "jobs"),
                ("patch", "batch", "jobs/status"),
                ("create", "events.k8s.io", "events"),
                ("watch", "batch", "jobs"),
            }
            assert sorted(expected - client.rights) == [], "the story has become too poor"

    asyncio.run(story())


async def live(world: World) -> None:
    """Jobs come, run, are stopped, are evicted, change and go."""
    await world.queues(cpu="2", preemption={"withinClusterQueue": "LowerPriority"})
    await world.create(WORKLOAD_PRIORITY_CLASSES, "high", value=1000)
    await world.job("low", pods=2)
    await world.until_admitted("low")
    await world.job("first", pods=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    await world.until_condition("low", "Evicted", reason="Preempted")
    await world.until_admitted("first")
    (queue,) = (await world.client.list(CLUSTER_QUEUES)).items
    await world.client.patch(CLUSTER_QUEUES, queue.metadata.key, {"spec": {"stopPolicy": "HoldAndDrain"}})
    await world.until_condition("first", "Evicted", reason="ClusterQueueStopped")
    for job in ("low", "first"):
        key = (await world.get_job(job)).metadata.key
        await world.client.delete(JOBS, key, propagation="Background")

    async def gone() -> bool:
        return not (await world.client.list(WORKLOADS)).items

    await world.until("the workloads are gone", gone)
    (local,) = (await world.client.list(LOCAL_QUEUES)).items
    await world.client.delete(LOCAL_QUEUES, local.metadata.key)
    await world.client.delete(CLUSTER_QUEUES, queue.metadata.key)

    async def no_queue() -> bool:
        return not (await world.client.list(CLUSTER_QUEUES)).items

    await world.until("the cluster queue is gone", no_queue)
