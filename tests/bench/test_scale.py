"""The synthetic cluster of the benchmark of large clusters, and the client that serves it."""

import asyncio
import tracemalloc
from typing import Any

from bench.limits import load
from bench.scale.__main__ import BASE, MEASURES, SIZES, Scale
from bench.scale.measure import PROCESSES
from bench.scale.objects import JOB_PODS, Size, changed_pod, controllers_series, node, scheduler_series
from bench.scale.synthetic_client import SyntheticClient

from quorate.api.meta import Key, is_true
from quorate.api.names.kueue import WORKLOAD_ANNOTATION
from quorate.kube.informer import Informer
from quorate.kube.resources import (
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    Resource,
)
from quorate.queueing.conditions import ADMITTED

SIZE = Size(nodes=40, pods=200, pending=3)


def client_of(size: Size, writes: list[str]) -> SyntheticClient:
    return SyntheticClient(
        controllers_series(size),
        (WORKLOADS,),
        lambda path, method, content: writes.append(f"{method} {path}"),
    )


def test_the_hosts_of_each_admitted_workload_are_the_nodes_of_its_pods() -> None:
    async def story() -> None:
        client = client_of(SIZE, [])
        pods = (await client.list(PLACEABLE_PODS)).items
        workloads = (await client.list(WORKLOADS)).items
        assert len(pods) == SIZE.pods
        admitted = [workload for workload in workloads if is_true(workload.status.conditions, ADMITTED)]
        assert len(admitted) == SIZE.pods // JOB_PODS // 2
        for workload in admitted:
            own = [
                pod.node_name
                for pod in pods
                if pod.metadata.annotations.get(WORKLOAD_ANNOTATION) == workload.metadata.name
            ]
            assert workload.status.admission is not None
            (assignment,) = workload.status.admission.pod_set_assignments
            assert assignment.topology_assignment is not None
            hosts = [
                host for (host,), count in assignment.topology_assignment.domains() for _ in range(count)
            ]
            assert sorted(hosts) == sorted(own)
            assert len(own) == JOB_PODS

    asyncio.run(story())


def test_a_list_has_all_objects_of_all_pages() -> None:
    async def story() -> None:
        size = SIZE._replace(nodes=1_201)
        listing = await client_of(size, []).list(PLACEABLE_NODES)
        assert len({node.metadata.name for node in listing.items}) == size.nodes
        assert not listing.undecodable

    asyncio.run(story())


async def _no_changes() -> None:
    pass


async def _followed(client: SyntheticClient, resource: Resource[Any], changes: Any) -> Informer[Any]:
    """Return an informer that has received ``changes``."""
    informer = Informer(client, resource)
    running = asyncio.create_task(informer.run())
    await informer.synced.wait()
    await asyncio.sleep(0)  # the watch begins
    await changes()
    running.cancel()
    return informer


def test_writes_and_changes_are_delivered_by_the_watch() -> None:
    writes: list[str] = []

    async def story() -> None:
        client = client_of(SIZE, writes)
        condition: Json = {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}

        async def admit() -> None:
            await client.add(WORKLOADS, "large", range(SIZE.pending))
            patch = {"status": {"conditions": [condition]}}
            await client.patch_for_version(WORKLOADS, Key("scale", "large-1"), patch, subresource="status")
            await client.add(WORKLOADS, "fits", range(1))

        workloads = await _followed(client, WORKLOADS, admit)
        assert [
            workload.metadata.name
            for workload in workloads
            if workload.metadata.name.startswith("large") and is_true(workload.status.conditions, ADMITTED)
        ] == ["large-1"]

        async def change() -> None:
            await client.modify(PLACEABLE_PODS, changed_pod(SIZE, of_workload=True), [3, 4])

        pods = await _followed(client, PLACEABLE_PODS, change)
        changed = [pod for pod in pods if not is_true(pod.status.conditions, "Ready")]
        assert len(changed) == 1, "each second change makes a pod unready"

    asyncio.run(story())
    assert writes == ["PATCH /apis/kueue.x-k8s.io/v1beta2/namespaces/scale/workloads/large-1/status"]


def test_an_index_of_unique_values_is_small() -> None:
    """A workload is in three indexes with a value of its own."""

    async def story() -> None:
        size = SIZE._replace(nodes=2_000)
        nodes = await _followed(client_of(size, []), PLACEABLE_NODES, _no_changes)
        tracemalloc.start()
        nodes.add_index("name", lambda node: (node.metadata.name,))
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert used / size.nodes < 250
        assert [node.metadata.name for node in nodes.by_index("name", "node-7")] == ["node-7"]

    asyncio.run(story())


def test_an_index_follows_objects_that_come_go_and_share_a_value() -> None:
    async def story() -> None:
        client = client_of(SIZE, [])
        nodes = Informer(client, PLACEABLE_NODES)
        nodes.add_index("shift", lambda node: node.metadata.labels.get("shift", "").split())
        running = asyncio.create_task(nodes.run())
        await nodes.synced.wait()
        await asyncio.sleep(0)  # the watch begins
        for number, shift in ((1, "a"), (2, "a b"), (1, ""), (3, "b"), (2, "b"), (1, "a"), (2, ""), (3, "")):
            patch = {"metadata": {"labels": {"shift": shift}}}
            client.change(PLACEABLE_NODES.path(), f"node-{number}", patch)
            await client.modify(PLACEABLE_NODES, node, [0])  # returns once all changes are delivered
            for value in "ab":
                assert nodes.by_index("shift", value) == [
                    obj for obj in nodes if value in obj.metadata.labels.get("shift", "").split()
                ]
        running.cancel()

    asyncio.run(story())


def test_a_bound_member_of_a_gang_gets_its_node() -> None:
    async def story() -> None:
        client = SyntheticClient(scheduler_series(SIZE), (POD_GROUPS,), lambda path, method, content: None)

        async def bind() -> None:
            path = PLACEABLE_PODS.path("scale", "first-pod-2", "binding")
            await client.request("POST", path, body=b'{"target":{"name":"node-7"}}')
            await client.modify(PLACEABLE_PODS, changed_pod(SIZE, of_workload=False), [0])

        pods = await _followed(client, PLACEABLE_PODS, bind)
        pod = pods.get(Key("scale", "first-pod-2"))
        assert pod is not None
        assert pod.node_name == "node-7"
        assert pod.group_name == "first-0"

    asyncio.run(story())


def test_limits_name_processes_and_measures_of_the_benchmark() -> None:
    names = {f"scale: {process}: {measure}" for process in PROCESSES for measure in MEASURES}
    limited = {name for name in load().measures if name.startswith("scale: ")}
    assert limited <= names
    assert all(BASE.nodes < SIZES[scale].nodes for scale in Scale)
