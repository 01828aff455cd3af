"""Simulated nodes over starts with other pools, and nodes that another client creates."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api.core import Taint
from quorate.api.meta import Key
from quorate.kube.resources import untyped
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import LocalCluster, local_cluster

pytestmark = pytest.mark.slow

Json = dict[str, Any]
NODES = untyped("", "v1", "nodes", "Node", False)
GPU_TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
OWN_TAINT = {"key": "mine", "effect": "NoSchedule"}
GPU = NodePool(
    2,
    extended={"nvidia.com/gpu": "8"},
    labels={"accelerator": "h100"},
    name="gpu",
    taints=(Taint(key="gpu", value="yes", effect="NoSchedule"),),
)


def run_scenario(story: Callable[[LocalCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with local_cluster() as local:
            await story(local)
            await local.stop_nodes()

    asyncio.run(run())


async def until_nodes(local: LocalCluster, names: set[str]) -> dict[str, dict[str, Any]]:
    """Return the nodes by name, once they have ``names`` and all are ready."""

    async def find() -> dict[str, dict[str, Any]] | None:
        nodes = {node["metadata"]["name"]: node for node in (await local.client.list(NODES)).items}
        return nodes if set(nodes) == names and all(map(is_ready, nodes.values())) else None

    return await local.until(f"nodes {sorted(names)} are ready", find)


def is_ready(node: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
    taints = [taint["key"] for taint in node["spec"].get("taints", ())]
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


@pytest.mark.parametrize("pools", [(), (NodePool(1), GPU)])
def test_nodes_are_registered_when_all_are_ready(pools: tuple[NodePool, ...]) -> None:
    async def story(local: LocalCluster) -> None:
        for _ in ("the first start", "another"):
            local.start_nodes(*pools)
            await asyncio.wait_for(local.registered.wait(), 60)
            nodes = (await local.client.list(NODES)).items
            assert [is_ready(node) for node in nodes] == [True] * sum(pool.count for pool in pools)
            await local.stop_nodes()

    run_scenario(story)


def test_pools_have_their_own_sizes_and_pods_run_on_them() -> None:
    async def story(local: LocalCluster) -> None:
        local.start_nodes(NodePool(1, cpu="1"), GPU)
        nodes = await until_nodes(local, {"node-1", "gpu-1", "gpu-2"})
        gpu = nodes["gpu-2"]
        assert gpu["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert gpu["spec"]["taints"] == [GPU_TAINT]
        assert {"accelerator": "h100", "local.quorate.dev/pool": "gpu"}.items() <= gpu["metadata"][
            "labels"
        ].items()
        addresses = [node["status"]["addresses"][0]["address"] for node in nodes.values()]
        assert len(set(addresses)) == 3

        tolerations = [{"key": "gpu", "operator": "Exists"}]
        await local.run_job("j", pods=2, requests={"nvidia.com/gpu": "8"}, tolerations=tolerations)
        await local.until_finished("j")
        assert {pod["spec"]["nodeName"] for pod in await local.pods("j")} == {"gpu-1", "gpu-2"}

    run_scenario(story)


def test_another_start_adds_removes_and_changes_nodes_and_keeps_what_users_added() -> None:
    async def story(local: LocalCluster) -> None:
        local.start_nodes(NodePool(2), GPU)
        before = await until_nodes(local, {"node-1", "node-2", "gpu-1", "gpu-2"})
        own = {"metadata": {"labels": {"mine": "yes"}}, "spec": {"taints": [GPU_TAINT, OWN_TAINT]}}
        await local.client.patch(NODES, Key("", "gpu-1"), own)
        await local.client.create(NODES, {"metadata": {"name": "foreign"}})

        await local.stop_nodes()
        changed = NodePool(1, cpu="64", labels={"zone": "a"}, name="gpu")
        local.start_nodes(changed, NodePool(3, name="big"))
        big = {"big-1", "big-2", "big-3"}

        async def found() -> dict[str, dict[str, Any]] | None:
            nodes = {node["metadata"]["name"]: node for node in (await local.client.list(NODES)).items}
            current = nodes.get("gpu-1", {}).get("metadata", {}).get("labels", {})
            ready = set(nodes) == {"foreign", "gpu-1"} | big and current.get("zone") == "a"
            return nodes if ready and all(is_ready(nodes[name]) for name in (*big, "gpu-1")) else None

        nodes = await local.until("the nodes of the second start", found)
        gpu = nodes["gpu-1"]
        assert gpu["metadata"]["uid"] == before["gpu-1"]["metadata"]["uid"], "it is the same node"
        assert gpu["metadata"]["labels"]["mine"] == "yes"
        assert "accelerator" not in gpu["metadata"]["labels"]
        assert gpu["spec"]["taints"] == [OWN_TAINT]
        assert gpu["status"]["allocatable"] == {"cpu": "64", "memory": "32Gi", "pods": "110"}
        assert "status" not in nodes["foreign"] or not nodes["foreign"]["status"].get("conditions")

    run_scenario(story)


def test_a_node_that_is_created_again_as_it_was_gets_pods() -> None:
    """As kube-controller-manager removes the taint of nodes that are ready (TaintNodesByCondition)."""

    async def story(local: LocalCluster) -> None:
        local.start_nodes(NodePool(1))
        before = (await until_nodes(local, {"node-1"}))["node-1"]
        await local.client.delete(NODES, Key("", "node-1"))
        metadata = {name: before["metadata"][name] for name in ("name", "labels", "annotations")}
        await local.client.create(NODES, {"metadata": metadata, "status": before["status"]})
        await until_nodes(local, {"node-1"})
        await local.run_job("j", pods=2)
        await local.until_finished("j")

    run_scenario(story)


def test_a_node_with_the_annotation_becomes_ready_and_runs_pods() -> None:
    async def story(local: LocalCluster) -> None:
        local.start_nodes()
        resources = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        node = {
            "metadata": {"name": "worker", "annotations": {"simulate.quorate.dev/node": "imported"}},
            "spec": {"taints": [OWN_TAINT]},
            "status": {"allocatable": resources, "addresses": [{"type": "InternalIP", "address": "::1"}]},
        }
        await local.client.create(NODES, node)
        stored = (await until_nodes(local, {"worker"}))["worker"]
        assert stored["spec"]["taints"] == [OWN_TAINT]
        assert stored["status"]["capacity"] == resources
        assert stored["metadata"]["labels"]["kubernetes.io/hostname"] == "worker"
        await local.run_job("j", pods=2, tolerations=[{"operator": "Exists"}])
        await local.until_finished("j")

        await local.stop_nodes()
        local.start_nodes(NodePool(1))
        await until_nodes(local, {"worker", "node-1"})

    run_scenario(story)


def random_pools(rng: random.Random) -> list[NodePool]:
    taint = Taint(key="gpu", effect="NoSchedule")
    return [
        NodePool(
            rng.randrange(4),
            cpu=rng.choice(["1", "2"]),
            extended=rng.choice([{}, {"nvidia.com/gpu": "8"}]),
            labels=rng.choice([{}, {"zone": "a"}, {"zone": "b", "rack": "r1"}]),
            name=name,
            taints=rng.choice([(), (taint,)]),
        )
        for name in rng.sample(["a", "b", "a-1"], rng.randrange(1, 4))
    ]


@pytest.mark.parametrize("seed", range(3))
def test_after_any_starts_the_nodes_are_those_of_the_last_one(seed: int) -> None:
    rng = random.Random(seed)

    async def story(local: LocalCluster) -> None:
        for _ in range(5):
            pools = random_pools(rng)
            local.start_nodes(*pools)
            want = {name: described(pool) for pool in pools for name in pool.node_names}

            async def as_described(want: dict[str, Json] = want) -> bool:
                nodes = (await local.client.list(NODES)).items
                return {node["metadata"]["name"]: observed(node) for node in nodes} == want

            await local.until(f"the nodes of {pools}", as_described)
            await local.stop_nodes()
        local.start_nodes()

    run_scenario(story)


def described(pool: NodePool) -> Json:
    taints = [{"key": taint.key, "effect": taint.effect} for taint in pool.taints]
    return {"amounts": pool.resources(), "labels": pool.labels, "taints": taints, "ready": True}


def observed(node: Json) -> Json:
    own = {key: value for key, value in node["metadata"]["labels"].items() if key in ("zone", "rack")}
    return {
        "amounts": node.get("status", {}).get("allocatable"), "labels": own,
        "taints": node["spec"].get("taints", []), "ready": is_ready(node),
    }  # fmt: skip
