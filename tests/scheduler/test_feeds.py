"""A model that is loaded once is the model that the running scheduler keeps with informers."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.meta import Key, Uid
from quorate.api.names.volcano import QUEUE_NAME
from quorate.api.native_groups import PodGroup as NativeGroup
from quorate.api.scheduler_configuration import (
    default_scheduler_configuration,
    load_scheduler_configuration,
)
from quorate.gang.cache.claims_to_bind import volumes_to_bind
from quorate.gang.cache.model import Model
from quorate.kube.client import Client
from quorate.kube.object_faults import ObjectFault
from quorate.kube.patches import merged
from quorate.kube.resources import PLACEABLE_PODS
from quorate.placement.filters.volumes.binding import NoMatchingVolume, StaticBinding
from quorate.placement.framework import Capacity
from quorate.placement.shapes import Shapes
from quorate.scheduler.feeds import gang_feeds, load_model, native_group_feed, subscribe_informers
from tests.gang.world import World
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
            discovery = ("/v1alpha1", "/v1alpha2", "/v1beta1", "/v1beta2", "/resource.k8s.io/v1")
            listed = [request for request in server.requests if not request.path.endswith(discovery)]
            return model, {request.path.rpartition("/")[2] for request in listed}

    model, kinds = asyncio.run(story())
    assert kinds == STORED.keys() | {"csinodes", "resourcequotas", "priorityclasses"}
    assert [task.key for task in model.gangs[GANG].tasks.values()] == [POD]
    (here,) = volumes_to_bind(model, POD, "n1")
    (elsewhere,) = volumes_to_bind(model, POD, "n2")
    assert isinstance(here, StaticBinding)
    assert isinstance(elsewhere, NoMatchingVolume)


@pytest.mark.parametrize(
    ("pod", "takes_others"),
    [
        pytest.param({"spec": {"nodeName": "n1", "containers": 3}}, False, id="bound"),
        pytest.param({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed"}}, True, id="ended"),
        pytest.param({"spec": {"containers": 3}}, True, id="without a node"),
        pytest.param({"spec": 3}, True, id="without a spec"),
    ],
)
def test_the_node_of_a_bound_pod_that_cannot_be_read_takes_no_other_pod(
    pod: Json, takes_others: bool
) -> None:
    world = World({"nodes": [{"name": "n1", "cpu": 4}]}, default_scheduler_configuration(), restarting=False)
    feed = gang_feeds(world.model, VirtualClock())[-1]
    fault = ObjectFault(
        PLACEABLE_PODS, POD, Uid("1"), "1", "decode", "not a pod", raw=json.dumps(pod).encode()
    )

    def takes_pods() -> bool:
        shape = Shapes().of(codec.convert(Pod, {"metadata": metadata("b")}))
        return bool(world.model.constraints.filter(shape).passing(Capacity.IDLE).any())

    feed.set_aside(POD, fault)
    assert takes_pods() is takes_others
    feed.set_aside(POD, None)
    assert takes_pods()


@pytest.mark.parametrize("plugins", [("gang",), ("gang", "pdb")])
def test_disruption_budgets_are_read_only_for_the_plugin(plugins: tuple[str, ...]) -> None:
    tiers = "\n".join(f"  - name: {name}" for name in plugins)
    settings = load_scheduler_configuration(f"actions: allocate\ntiers:\n- plugins:\n{tiers}\n").configuration
    model = Model((SCHEDULER,))
    feeds = gang_feeds(model, VirtualClock(), disruption_budgets=settings.has_plugin("pdb"))
    watched = {feed.resource.plural for feed in feeds}
    assert ("poddisruptionbudgets" in watched) is ("pdb" in plugins)


@pytest.mark.parametrize(
    ("change", "is_read"),
    [
        ({"metadata": {"annotations": {QUEUE_NAME: "research"}}}, True),
        ({"metadata": {"labels": {QUEUE_NAME: "research"}}}, True),
        ({"metadata": {"uid": "2"}}, True),
        ({"status": {"conditions": [{"type": "PodGroupScheduled", "status": "True"}]}}, False),
    ],
)
def test_a_native_group_is_read_again_unless_only_its_status_changed(change: Json, is_read: bool) -> None:
    stored = {"metadata": metadata("a"), "spec": {"schedulingPolicy": {"basic": {}}}}
    old, new = (codec.convert(NativeGroup, each) for each in (stored, merged(stored, change)))
    assert native_group_feed(Model((SCHEDULER,)), lambda _: None).is_relevant(old, new) is is_read
