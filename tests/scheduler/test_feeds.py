"""A model that is loaded once is the model that the running scheduler keeps with informers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.gang.cache.model import Model
from quorate.kube.client import Client
from quorate.placement.filters.volumes.binding import NoMatchingVolume, StaticBinding
from quorate.scheduler.feeds import gang_feeds, load_model, subscribe_informers
from tests.kube.fake_server import Answer, FakeServer, Request, Stream
from tests.kube.virtual_clock import VirtualClock

pytestmark = pytest.mark.slow

Json = dict[str, Any]
POD, GANG = Key("research", "a"), Key("research", "gang")
SCHEDULER = "custom"  # neither of the default names


def metadata(name: str, namespace: str = "", **more: Any) -> Json:
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"} | more


def node(name: str) -> Json:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return {"metadata": metadata(name, labels={"kubernetes.io/hostname": name}), "status": status}


HERE = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
STORED: dict[str, list[Json]] = {
    "namespaces": [{"metadata": metadata("research", labels={"team": "a"})}],
    "nodes": [node("n1"), node("n2")],
    "queues": [{"metadata": metadata("default")}],
    "storageclasses": [
        {
            "metadata": metadata("local"),
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    ],
    "persistentvolumes": [
        {
            "metadata": metadata("disk"),
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [HERE]}]}},
            },
            "status": {"phase": "Available"},
        }
    ],
    "persistentvolumeclaims": [
        {
            "metadata": metadata("data", "research"),
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ],
    "podgroups": [{"metadata": metadata("gang", "research"), "spec": {"minMember": 1, "queue": "default"}}],
    "pods": [
        {
            "metadata": metadata("a", "research", annotations={"scheduling.k8s.io/group-name": "gang"}),
            "spec": {
                "schedulerName": SCHEDULER,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
            "status": {"phase": "Pending"},
        }
    ],
}


async def loaded(client: Client) -> Model:
    return await load_model(client, VirtualClock(), [SCHEDULER])


async def watched(client: Client) -> Model:
    model = Model([SCHEDULER])
    informers = subscribe_informers(client, gang_feeds(model, VirtualClock()), lambda: None)
    running = [asyncio.create_task(informer.run()) for informer in informers.values()]
    for informer in informers.values():
        await informer.synced.wait()
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    return model


@pytest.mark.parametrize("build", [loaded, watched])
def test_a_pod_of_a_configured_scheduler_is_evaluated_with_its_volumes(
    build: Callable[[Client], Awaitable[Model]],
) -> None:
    def script(request: Request) -> Answer | Stream:
        if "watch" in request.query:
            return Stream((), hold=asyncio.Event())
        items = STORED.get(request.path.rpartition("/")[2], [])
        return Answer(body={"metadata": {"resourceVersion": "1"}, "items": items})

    async def story() -> tuple[Model, set[str]]:
        async with FakeServer(script) as server, server.client() as client:
            model = await asyncio.wait_for(build(client), 30)
            return model, {request.path.rpartition("/")[2] for request in server.requests}

    model, kinds = asyncio.run(story())
    assert kinds == STORED.keys() | {"csinodes", "resourcequotas", "priorityclasses"}
    assert [task.key for task in model.gangs[GANG].tasks.values()] == [POD]
    (here,) = model.volume_bindings(POD, "n1")
    (elsewhere,) = model.volume_bindings(POD, "n2")
    assert isinstance(here, StaticBinding)
    assert isinstance(elsewhere, NoMatchingVolume)
