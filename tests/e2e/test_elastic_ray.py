"""A Ray job with an autoscaler changes its size while it runs; the story imitates KubeRay."""

from collections import Counter
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.configuration.integrations import Integrations
from quorate.api.field_path import look_up
from quorate.api.meta import Key, find_condition, is_true
from quorate.api.names.kueue import ELASTIC_JOB
from quorate.api.names.topology import UNCONSTRAINED
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.controllers.jobs.ray import RAY_CLUSTERS
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.resources import CLUSTER_QUEUES, PLACEABLE_PODS, PODS, WORKLOADS, Json
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import install_definitions
from tests.e2e.minimal_definitions import definition
from tests.e2e.topologies import HOST, create_host, create_topology
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

KEY = Key(NAMESPACE, "train")
CLUSTER = Key(NAMESPACE, "train-x")
FRAMEWORKS = ("ray.io/raycluster", "ray.io/rayjob", "ray.io/rayservice")
RAY_JOBS = FRAMEWORK_KINDS["ray.io/rayjob"].resource
RAY_SERVICES = FRAMEWORK_KINDS["ray.io/rayservice"].resource
JOB_STATUS = {"jobDeploymentStatus": "Running", "rayClusterName": CLUSTER.name}
SERVICE_STATUS = {"activeServiceStatus": {"rayClusterName": CLUSTER.name}}


def template() -> Json:
    container = {"name": "ray", "image": "ray", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container]}}


def cluster(workers: int = 1) -> Json:
    return {
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"resources": {"requests": {"cpu": "0"}}},
        "headGroupSpec": {"template": template()},
        "workerGroupSpecs": [{"groupName": "small", "replicas": workers, "template": template()}],
    }


RAY_JOB = {"submissionMode": "HTTPMode", "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster()}
RAY_SERVICE = {"rayClusterConfig": cluster()}


def owned_by(resource: Any, job: UnstructuredJob) -> Json:
    metadata = job.metadata
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
    }


class KubeRay:
    """Creates the RayCluster of a job, and its pods, as KubeRay and its autoscaler do."""

    def __init__(self, world: World, resource: Any, spec_field: str) -> None:
        self.client = world.client
        self.resource = resource
        self.spec_field = spec_field

    async def create_cluster(self, status: Json) -> None:
        job: UnstructuredJob = await self.client.get(self.resource, KEY)
        metadata = {"name": CLUSTER.name, "ownerReferences": [owned_by(self.resource, job)]}
        spec = {**job.spec[self.spec_field], "suspend": False}
        await self.client.create(RAY_CLUSTERS, {"metadata": metadata, "spec": spec}, NAMESPACE)
        await self.client.patch(self.resource, KEY, {"status": status}, subresource="status")
        await self.create_pod("head", ("headGroupSpec", "template"))
        for number in range(spec["workerGroupSpecs"][0]["replicas"]):
            await self.create_pod(f"worker-{number}", ("workerGroupSpecs", 0, "template"))

    async def create_pod(self, name: str, path: tuple[str | int, ...]) -> None:
        ray_cluster = await self.client.get(RAY_CLUSTERS, CLUSTER)
        pods = look_up(ray_cluster.spec, path)
        labels = {**pods["metadata"]["labels"], "ray.io/cluster": CLUSTER.name}
        metadata = {
            "name": name,
            "labels": labels,
            "annotations": pods["metadata"]["annotations"],
            "ownerReferences": [owned_by(RAY_CLUSTERS, ray_cluster)],
        }
        await self.client.create(PODS, {"metadata": metadata, "spec": pods["spec"]}, NAMESPACE)

    async def scale(self, replicas: int) -> None:
        ray_cluster = await self.client.get(RAY_CLUSTERS, CLUSTER)
        groups = [{**ray_cluster.spec["workerGroupSpecs"][0], "replicas": replicas}]
        await self.client.patch(RAY_CLUSTERS, CLUSTER, {"spec": {"workerGroupSpecs": groups}})
        await self.create_pod(f"worker-{replicas - 1}", ("workerGroupSpecs", 0, "template"))


async def start(
    world: World, resource: Any, spec: Json, suspend: tuple[str, ...], queue: str = "queue"
) -> None:
    """Create an elastic job and wait until it is started."""
    definitions = [definition(FRAMEWORK_KINDS[name].resource) for name in FRAMEWORKS]
    await install_definitions(world.client, definitions)
    integrations, gates = Integrations(frameworks=FRAMEWORKS), TopologyGates(elastic_slices=True)
    await world.start_queueing(Configuration(integrations=integrations, topology_gates=gates))
    labels = {"kueue.x-k8s.io/queue-name": queue}
    metadata = {"name": KEY.name, "labels": labels, "annotations": {ELASTIC_JOB: "true"}}
    await world.client.create(resource, {"metadata": metadata, "spec": spec}, NAMESPACE)
    await world.until("the job is started", lambda: is_started(world, resource, suspend))


async def is_started(world: World, resource: Any, suspend: tuple[str, ...]) -> bool:
    return look_up((await world.client.get(resource, KEY)).spec, suspend) is False


async def until_ungated(world: World, *names: str) -> None:
    async def find() -> bool:
        pods = (await world.client.list(PLACEABLE_PODS, NAMESPACE)).items
        return {each.metadata.name for each in pods if not each.spec.scheduling_gates} == set(names)

    await world.until(f"{names} are ungated", find)


async def until_slices(world: World, *want: tuple[int, str]) -> None:
    """Wait for the workloads with these numbers of workers and states."""

    async def find() -> bool:
        found = []
        for workload in (await world.client.list(WORKLOADS, NAMESPACE)).items:
            finished = find_condition(workload.status.conditions, "Finished")
            admitted = is_true(workload.status.conditions, "Admitted")
            state = finished.reason if finished is not None else "Admitted" if admitted else "Pending"
            found.append((workload.spec.pod_sets[1].count, state))
        return sorted(found) == list(want)

    await world.until(f"slices {want}", find)


@pytest.mark.parametrize(
    ("resource", "spec", "spec_field", "suspend", "status"),
    [
        pytest.param(RAY_JOBS, RAY_JOB, "rayClusterSpec", ("suspend",), JOB_STATUS, id="RayJob"),
        pytest.param(
            RAY_SERVICES,
            RAY_SERVICE,
            "rayClusterConfig",
            ("rayClusterConfig", "suspend"),
            SERVICE_STATUS,
            id="RayService",
        ),
    ],
)
def test_the_autoscaler_grows_the_cluster_within_quota(
    resource: Any, spec: Json, spec_field: str, suspend: tuple[str, ...], status: Json
) -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="3")
        await start(world, resource, spec, suspend)
        kube_ray = KubeRay(world, resource, spec_field)
        await kube_ray.create_cluster(status)
        await until_ungated(world, "head", "worker-0")
        await kube_ray.scale(2)
        await until_slices(world, (1, "WorkloadSliceReplaced"), (2, "Admitted"))
        await until_ungated(world, "head", "worker-0", "worker-1")
        await kube_ray.scale(3)  # more than the quota
        await until_slices(world, (1, "WorkloadSliceReplaced"), (2, "Admitted"), (3, "Pending"))
        await until_ungated(world, "head", "worker-0", "worker-1")
        assert await is_started(world, resource, suspend)
        child = await world.client.get(RAY_CLUSTERS, CLUSTER)
        assert child.spec["suspend"] is False

    run_story(story)


def test_workers_of_a_group_that_starts_without_pods_run_on_the_nodes_of_their_own_flavor() -> None:
    """The flavor of a group without pods binds nothing; that of running workers stays."""

    async def story(world: World) -> None:
        for zone in "ab":
            await world.flavor(f"zone-{zone}", nodeLabels={"zone": zone}, tolerations=[tolerated(zone)])
        await world.create(CLUSTER_QUEUES, "research", **of_zones(a="1", b="2"))
        await world.local_queue()
        spec = {**RAY_JOB, "rayClusterSpec": cluster(workers=0)}
        await start(world, RAY_JOBS, spec, ("suspend",))
        kube_ray = KubeRay(world, RAY_JOBS, "rayClusterSpec")
        await kube_ray.create_cluster(JOB_STATUS)
        await until_ungated(world, "head")
        await kube_ray.scale(1)
        await until_slices(world, (0, "WorkloadSliceReplaced"), (1, "Admitted"))
        await until_ungated(world, "head", "worker-0")
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), of_zones(a="9", b="2"))
        await kube_ray.scale(2)
        await until_ungated(world, "head", "worker-0", "worker-1")
        pods = (await world.client.list(PLACEABLE_PODS, NAMESPACE)).items
        zones = {each.metadata.name: each.spec.node_selector["zone"] for each in pods}
        assert zones == {"head": "a", "worker-0": "b", "worker-1": "b"}
        assert all(
            tolerated(zones[each.metadata.name]) in codec.to_builtins(each.spec.tolerations) for each in pods
        )

    run_story(story)


def test_workers_of_a_group_that_starts_without_pods_run_where_their_places_are() -> None:
    """Their template has no gate of the topology: without pods there were no places to wait for."""

    async def story(world: World) -> None:
        await create_topology(world, "9")
        for name in ("a", "b"):
            await create_host(world, name, "r", "2")
        spec = {**RAY_JOB, "rayClusterSpec": cluster(workers=0)}
        await start(world, RAY_JOBS, spec, ("suspend",), queue="tas")
        kube_ray = KubeRay(world, RAY_JOBS, "rayClusterSpec")
        await kube_ray.create_cluster(JOB_STATUS)
        await until_ungated(world, "head")
        for size in (1, 2, 3):
            await kube_ray.scale(size)
            await until_ungated(world, "head", *(f"worker-{number}" for number in range(size)))
        pods = (await world.client.list(PLACEABLE_PODS, NAMESPACE)).items
        assert Counter(each.spec.node_selector[HOST] for each in pods) == {"a": 2, "b": 2}
        workers = [each for each in pods if each.metadata.name != "head"]
        assert all(UNCONSTRAINED in each.metadata.annotations for each in workers)

    run_story(story, None, NodePool(0))


def of_zones(**cpu: str) -> Json:
    """Return a cluster queue with cpus in the flavor of each zone."""
    flavors = [
        {"name": f"zone-{zone}", "resources": [{"name": "cpu", "nominalQuota": amount}]}
        for zone, amount in cpu.items()
    ]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    return {"spec": {"namespaceSelector": {}, "resourceGroups": groups}}


def tolerated(zone: str) -> Json:
    return {"key": zone, "operator": "Exists"}
