"""Nodes with labels of a topology, and jobs that request places, for stories."""

from collections.abc import Mapping
from types import MappingProxyType

from quorate.api.meta import Key
from quorate.kube.resources import JOBS, NODES, TOPOLOGIES
from tests.e2e.world import NAMESPACE, World

HOST = "kubernetes.io/hostname"
RACK = "example.com/rack"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
LEVELS = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}


async def create_topology(world: World, cpu: str) -> None:
    """Create a topology of racks and hosts, its flavor, a cluster queue with ``cpu`` and a local queue."""
    await world.create(TOPOLOGIES, "tree", spec=LEVELS)
    await world.flavor("tas", nodeLabels={"pool": "tas"}, topologyName="tree")
    await world.cluster_queue(cpu, "placing", flavor="tas")
    await world.local_queue("tas", "placing")


async def create_host(
    world: World, name: str, rack: str, cpu: str, labels: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Create a node that is ready; nothing else removes the taint of new nodes."""
    metadata = {"name": name, "labels": {"pool": "tas", RACK: rack, HOST: name, **labels}}
    await world.client.create(NODES, {"metadata": metadata})
    await world.client.patch(NODES, Key("", name), {"spec": {"taints": None}})
    status = {"allocatable": {"cpu": cpu, "pods": "110"}, "conditions": [READY]}
    await world.client.patch(NODES, Key("", name), {"status": status}, subresource="status")


async def create_job_in(world: World, name: str, level: str, pods: int) -> None:
    """Create a job of pods with 1 cpu each that requires one domain of ``level``."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {REQUIRED: level}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"parallelism": pods, "completions": pods, "suspend": True, "template": template}
    labels = {"kueue.x-k8s.io/queue-name": "tas"}
    await world.client.create(JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, NAMESPACE)


async def places_of(world: World, job: str) -> dict[str, int]:
    """Return the number of pods of an admitted job by host."""
    workload = await world.workload(job)
    assert workload is not None
    assert workload.status.admission is not None
    (pods,) = workload.status.admission.pod_set_assignments
    assert pods.topology_assignment is not None
    return {values[-1]: count for values, count in pods.topology_assignment.domains()}


async def until_registered(world: World, nodes: int) -> None:
    """Wait until this many simulated nodes take pods."""

    async def found() -> bool:
        listed = (await world.client.list(NODES)).items
        return len(listed) == nodes and not any(node.spec.taints for node in listed)

    await world.until(f"{nodes} nodes", found)
