"""An elastic job in a topology, over HTTP: it grows and shrinks, and no pod moves."""

from collections import Counter

import pytest
from msgspec.structs import replace

from quorate.api.configuration import default_configuration
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.names.topology import UNCONSTRAINED
from quorate.kube.resources import JOBS, PODS, TOPOLOGIES, WORKLOADS
from quorate.local.nodes import NodePool
from quorate.queueing.conditions import is_finished
from tests.e2e.test_elastic import KEY, resize
from tests.e2e.topologies import HOST, until_registered
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

CONFIGURATION = replace(default_configuration(), topology_gates=TopologyGates(elastic_slices=True))


async def create(world: World, pods: int) -> None:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    annotations = {"simulate.quorate.dev/duration": "forever", UNCONSTRAINED: "true"}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {
        "name": KEY.name,
        "labels": {"kueue.x-k8s.io/queue-name": "queue"},
        "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
    }
    spec = {"suspend": True, "parallelism": pods, "template": template}
    await world.client.create(JOBS, {"metadata": metadata, "spec": spec}, NAMESPACE)


async def until_placed(world: World, pods: int) -> dict[str, str]:
    """Return the nodes of the running pods of the job by pod name, once there are so many of them."""

    async def found() -> dict[str, str] | None:
        listed = (await world.client.list(PODS, NAMESPACE, f"job-name={KEY.name}")).items
        nodes = {
            pod.metadata.name: pod.spec.node_name
            for pod in listed
            if pod.spec.node_name and pod.metadata.deletion_timestamp is None
        }
        return nodes if len(nodes) == len(listed) == pods else None

    return await world.until(f"{pods} pods have nodes", found)


async def until_recorded(world: World, nodes: dict[str, str]) -> None:
    """Wait until the places of the workload are those of the pods, also those that have just gone."""

    async def are_equal() -> bool:
        workloads = (await world.client.list(WORKLOADS, NAMESPACE)).items
        places = [
            Counter({host: count for (*_, host), count in assigned.topology_assignment.domains()})
            for workload in workloads
            if not is_finished(workload) and workload.status.admission is not None
            for assigned in workload.status.admission.pod_set_assignments
            if assigned.topology_assignment is not None
        ]
        return places == [Counter(nodes.values())]

    await world.until("the places are those of the pods", are_equal)


def test_a_job_grows_and_shrinks_in_a_topology_without_moving_pods() -> None:
    async def story(world: World) -> None:
        await world.create(TOPOLOGIES, "tree", spec={"levels": [{"nodeLabel": HOST}]})
        await world.flavor("tas", nodeLabels={"kubernetes.io/os": "linux"}, topologyName="tree")
        await world.cluster_queue("99", flavor="tas")
        await world.local_queue()
        await until_registered(world, 3)
        await world.start_queueing(CONFIGURATION)
        await create(world, 2)
        first = await until_placed(world, 2)
        await resize(world, 5)
        grown = await until_placed(world, 5)
        assert first.items() <= grown.items()
        await world.stop_queueing()
        await world.start_queueing(CONFIGURATION, seed=2)
        await resize(world, 7)
        full = await until_placed(world, 7)
        assert grown.items() <= full.items()
        nodes = list(full.values())
        assert max(nodes.count(node) for node in set(nodes)) == 3
        await resize(world, 4)
        left = await until_placed(world, 4)
        assert left.items() <= full.items()
        await until_recorded(world, left)
        await resize(world, 6)
        again = await until_placed(world, 6)
        assert left.items() <= again.items()
        await until_recorded(world, again)

    run_story(story, None, NodePool(3, cpu="3"))
