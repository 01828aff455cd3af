"""Jobs get places in racks from the controllers, and the plain scheduler binds their pods to them."""

import copy
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.meta import Key, find_condition
from quorate.kube.resources import JOBS, PODS, RESOURCE_FLAVORS, TOPOLOGIES
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import install_definitions
from quorate.processes.local.node_pools import FLAVOR, NODE_LABELS, TOPOLOGY, parse_node_topology
from tests.e2e.kinds import JOB_SET, MPI_JOB
from tests.e2e.minimal_definitions import definition
from tests.e2e.topologies import REQUIRED, until_registered
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

RACK = "cloud.provider.com/topology-rack"
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
TREE = parse_node_topology("block=2,rack=2,host=2")
NODES = NodePool(TREE.nodes, cpu="4", labels=NODE_LABELS, levels=TREE.levels)
REPLICA_INDEX = "training.kubeflow.org/replica-index"
FOREIGN = (*JOB_SET.integrations.frameworks, *MPI_JOB.integrations.frameworks)
SERVED = Configuration(integrations=Integrations(frameworks=("batch/job", "pod", *FOREIGN)))


def template(cpu: str, level: str) -> dict[str, Any]:
    """Return a template of pods that require one domain of ``level``."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    annotations = {REQUIRED: level, "simulate.quorate.dev/duration": "forever"}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


async def create_job(world: World, name: str, pods: int) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    spec = {
        "suspend": True,
        "parallelism": pods,
        "completions": pods,
        "template": template("1", RACK),
    }
    await world.client.create(JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, NAMESPACE)


async def nodes_of(world: World, selector: str, pods: int) -> dict[str, str]:
    """Return the nodes of these pods by name, once all are bound."""

    async def found() -> dict[str, str] | None:
        listed = (await world.client.list(PODS, NAMESPACE, selector)).items
        nodes = {pod.metadata.name: pod.spec.node_name for pod in listed}
        return nodes if len(nodes) == pods and all(nodes.values()) else None

    return await world.until(f"{pods} pods of {selector} are bound", found)


def racks(nodes: dict[str, str]) -> set[str]:
    return {NODES.domains(node)[RACK] for node in nodes.values()}


async def run_job_set(world: World) -> None:
    """Create a JobSet of 2 jobs with 2 pods of 2 cpus, and imitate its controller once it is admitted."""
    job = {"spec": {"parallelism": 2, "completions": 2, "template": template("2", RACK)}}
    spec = {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": job}], "suspend": True}
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    resource = JOB_SET.resource
    await world.client.create(
        resource, {"metadata": {"name": "set", "labels": labels}, "spec": spec}, NAMESPACE
    )

    async def started() -> Any:
        stored = await world.client.get(resource, Key(NAMESPACE, "set"))
        return None if stored.spec["suspend"] else stored.spec["replicatedJobs"][0]

    replicated = await world.until("the JobSet is started", started)
    for job_index, index in ((1, 1), (0, 1), (1, 0), (0, 0)):
        body = copy.deepcopy(replicated["template"]["spec"]["template"])
        body["metadata"]["name"] = f"set-{job_index}-{index}"
        body["metadata"]["labels"] |= {JOB_INDEX: str(job_index), INDEX: str(index), "set": "set"}
        await world.client.create(PODS, body, NAMESPACE)


async def run_mpi_job(world: World) -> None:
    """Run an MPIJob of which the launcher works, too, with pods of 2 cpus; remove it once its ranks are seen.

    The workers are numbered from 1, and get the names in the opposite order.
    """
    resource, roles = MPI_JOB.resource, {"Launcher": 1, "Worker": 3}
    replicas = {role: {"replicas": count, "template": template("2", RACK)} for role, count in roles.items()}
    spec = {"runPolicy": {"suspend": True}, "runLauncherAsWorker": True, "mpiReplicaSpecs": replicas}
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    await world.client.create(
        resource, {"metadata": {"name": "mpi", "labels": labels}, "spec": spec}, NAMESPACE
    )

    async def started() -> Any:
        stored = await world.client.get(resource, Key(NAMESPACE, "mpi"))
        return None if stored.spec["runPolicy"]["suspend"] else stored.spec["mpiReplicaSpecs"]

    templates = await world.until("the MPIJob is started", started)
    for role, index in (("Launcher", 0), ("Worker", 1), ("Worker", 3), ("Worker", 2)):
        body = copy.deepcopy(templates[role]["template"])
        body["metadata"]["name"] = f"mpi-{role.lower()}-{3 - index}"
        body["metadata"]["labels"] |= {REPLICA_INDEX: str(index), "set": "mpi"}
        await world.client.create(PODS, body, NAMESPACE)
    nodes = await nodes_of(world, "set=mpi", pods=4)
    workload = await world.workload("mpi")
    assert workload is not None
    assert workload.status.admission is not None
    _, workers = workload.status.admission.pod_set_assignments
    assert workers.topology_assignment is not None
    ranks = [host for (*_, host), count in workers.topology_assignment.domains() for _ in range(count)]
    assert len(set(ranks)) == 2  # otherwise any order of the workers would do
    assert [nodes[f"mpi-worker-{3 - index}"] for index in (1, 2, 3)] == ranks
    await world.client.delete(resource, Key(NAMESPACE, "mpi"))
    for name in nodes:
        await world.client.delete(PODS, Key(NAMESPACE, name), grace_period_s=0)


async def run_pod_group(world: World) -> None:
    """Create two pods of a group with indices, the second one first."""
    for index in (1, 0):
        body = template("1", "kubernetes.io/hostname")
        body["metadata"] |= {
            "name": f"member-{index}",
            "labels": {
                "kueue.x-k8s.io/queue-name": "queue",
                "kueue.x-k8s.io/pod-group-name": "group",
                "kueue.x-k8s.io/pod-group-pod-index": str(index),
                "set": "group",
            },
            "annotations": {
                **body["metadata"]["annotations"],
                "kueue.x-k8s.io/pod-group-total-count": "2",
            },
        }
        gates = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
        body["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
        await world.client.create(PODS, body, NAMESPACE)


def test_jobs_run_in_one_rack_or_wait() -> None:
    async def story(world: World) -> None:
        await install_definitions(world.client, [definition(each.resource) for each in (JOB_SET, MPI_JOB)])
        await world.client.create(TOPOLOGIES, TREE.topology)
        await world.client.create(RESOURCE_FLAVORS, TREE.flavor)
        await world.cluster_queue("100", flavor=FLAVOR)
        await world.local_queue()
        await until_registered(world, NODES.count)
        await world.start_queueing(SERVED)

        # A rack has room for 8 of these pods.
        await create_job(world, "train", pods=6)
        trained = racks(await nodes_of(world, "job-name=train", pods=6))
        assert len(trained) == 1

        # No rack ever has room for 9.
        await create_job(world, "wide", pods=9)
        waiting = await world.until_condition("wide", "QuotaReserved", "False")
        reserved = find_condition(waiting.status.conditions, "QuotaReserved")
        assert reserved is not None
        assert f'topology "{TOPOLOGY}" allows to fit only 8 out of 9 pod(s)' in reserved.message

        # The pods of one job of a JobSet are on one host: they have consecutive ranks.
        await run_job_set(world)
        nodes = await nodes_of(world, "set=set", pods=4)
        assert nodes["set-0-0"] == nodes["set-0-1"] != nodes["set-1-0"] == nodes["set-1-1"]
        (used,) = racks(nodes)
        assert used not in trained

        # Plain pods of a group require one host, beside the first job.
        await run_pod_group(world)
        (host,) = set((await nodes_of(world, "set=group", pods=2)).values())
        assert racks({"": host}) == trained

        await run_mpi_job(world)

        # When the racks are full, a job waits for one of them, and gets it.
        taken = []
        for name in ("third", "fourth"):
            await create_job(world, name, pods=8)
            taken.append(racks(await nodes_of(world, f"job-name={name}", pods=8)))
        assert len(set[str]().union(trained, {used}, *taken)) == 4
        await create_job(world, "last", pods=8)
        await world.until_condition("last", "QuotaReserved", "False")
        await world.client.delete(JOBS, Key(NAMESPACE, "fourth"), propagation="Background")
        assert racks(await nodes_of(world, "job-name=last", pods=8)) == taken[-1]

    run_story(story, None, NODES)
