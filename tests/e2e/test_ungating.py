"""Pods with places get their nodes by rank over HTTP, whatever is lost, restarted or refused meanwhile.

The admissions are written by the test: the queue holds, so the controllers admit nothing themselves.
"""

from typing import Any

import aiohttp
import pytest

from quorate.api import codec
from quorate.api.configuration import default_configuration
from quorate.api.kueue import Workload
from quorate.api.kueue.topology import HOSTNAME, topology_assignment
from quorate.api.meta import at_epoch
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.kube.clock import WallClock
from quorate.kube.resources import JOBS, PODS, WORKLOADS
from quorate.local.nodes import NodePool
from quorate.observe.queueing_metrics import metrics
from tests.e2e.topologies import until_registered
from tests.e2e.world import NAMESPACE, World, run_story
from tests.observe.listening import listening

pytestmark = pytest.mark.slow

INDEX = "batch.kubernetes.io/job-completion-index"


async def create_job(world: World, name: str, pods: int, **pod_spec: Any) -> None:
    """Create an indexed Job that runs for ever."""
    annotations = {"simulate.quorate.dev/duration": "forever"}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "suspend": True,
        "completionMode": "Indexed",
        "parallelism": pods,
        "completions": pods,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container], **pod_spec},
        },
    }
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    await world.client.create(JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, NAMESPACE)


async def admit(world: World, name: str, hosts: dict[str, int]) -> None:
    """Admit the workload of a job to these hosts, each with a number of pods."""

    async def found() -> Workload | None:
        return await world.workload(name)

    workload = await world.until(f"workload of {name}", found)
    domains = topology_assignment((HOSTNAME,), [((host,), count) for host, count in hosts.items()])
    assignment = {
        "name": "main",
        "count": sum(hosts.values()),
        "flavors": {"cpu": "default"},
        "resourceUsage": {"cpu": str(sum(hosts.values()))},
        "topologyAssignment": codec.to_builtins(domains),
    }
    conditions = [
        {
            "type": type_,
            "status": "True",
            "reason": type_,
            "message": "by hand",
            "lastTransitionTime": at_epoch(WallClock().now()),
        }
        for type_ in ("QuotaReserved", "Admitted")
    ]
    status = {
        "conditions": conditions,
        "admission": {"clusterQueue": "research", "podSetAssignments": [assignment]},
    }
    await world.client.patch(WORKLOADS, workload.metadata.key, {"status": status}, subresource="status")


async def nodes_by_rank(world: World, job: str) -> dict[str, str]:
    """Return the nodes of the pods of a job by their index; empty for pods without a node."""
    pods = (await world.client.list(PODS, NAMESPACE, f"job-name={job}")).items
    return {pod.metadata.labels[INDEX]: pod.spec.node_name for pod in pods}


async def until_nodes(world: World, job: str, nodes: dict[str, str]) -> None:
    async def found() -> bool:
        return await nodes_by_rank(world, job) == nodes

    await world.until(f"{job} on {nodes}", found)


def test_pods_get_the_nodes_of_their_ranks() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="99", stopPolicy="Hold")
        await until_registered(world, 3)
        async with listening("metrics.bindAddress", metrics(world.replica)) as url:
            await create_job(world, "train", pods=4)
            await admit(world, "train", {"node-1": 1, "node-2": 3})
            await until_nodes(world, "train", {"0": "node-1", "1": "node-2", "2": "node-2", "3": "node-2"})

            async def ungated() -> bool:
                async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
                    lines = (await answer.text()).splitlines()
                counts = [line for line in lines if "gate_removal_seconds_count" in line]
                return any(TOPOLOGY_GATE in line and line.endswith(" 4.0") for line in counts)

            await world.until("four ungated pods are counted", ungated)

        # A pod that selects another node cannot go to its place, and holds up no other pod.
        await create_job(world, "torn", pods=2, nodeSelector={HOSTNAME: "node-1"})
        await admit(world, "torn", {"node-1": 1, "node-3": 1})
        await until_nodes(world, "torn", {"0": "node-1", "1": ""})

    run_story(story, default_configuration(), NodePool(3))


def test_no_place_is_given_twice_over_restarts_and_lost_writes() -> None:
    hosts = {f"node-{number}": 3 for number in range(1, 5)}
    by_rank = {str(rank): f"node-{1 + rank // 3}" for rank in range(12)}

    async def story(world: World) -> None:
        await world.queues(cpu="99", stopPolicy="Hold")
        await until_registered(world, 4)
        await world.start_queueing(default_configuration())
        await create_job(world, "train", pods=12)
        world.queueing_client.one_in = 4
        await admit(world, "train", hosts)

        async def some_placed() -> bool:
            return any((await nodes_by_rank(world, "train")).values())

        await world.until("the first pods are placed", some_placed)
        await world.stop_queueing()
        await world.start_queueing(default_configuration(), seed=2)
        await until_nodes(world, "train", by_rank)
        assert world.queueing_client.lost

    run_story(story, None, NodePool(4))
