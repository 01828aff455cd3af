"""Eviction of pods that do not tolerate NoExecute taints."""

import asyncio

import pytest

from quorate.api.core import Taint, Toleration
from quorate.kube.resources import NODES
from quorate.local.controllers.pod_deletion import tolerated_s
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import LocalCluster, local_cluster

A, B = Taint(key="a", effect="NoExecute"), Taint(key="b", effect="NoExecute", value="v")


def exists(key: str = "", seconds: int | None = None, effect: str = "") -> Toleration:
    return Toleration(key=key, operator="Exists", effect=effect, toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("tolerations", "taints", "want"),
    [
        pytest.param([], [A], 0, id="an untolerated taint evicts at once"),
        pytest.param([exists("a")], [A], None, id="a toleration without a time holds for ever"),
        pytest.param([exists("a")], [A, B], 0, id="every taint needs a toleration"),
        pytest.param([Toleration(key="b", value="w")], [B], 0, id="the values must be equal"),
        pytest.param([exists("a", effect="NoSchedule")], [A], 0, id="and the effect"),
        pytest.param([exists("a", 9), exists("b", 3)], [A, B], 3, id="the shortest time counts"),
        pytest.param(
            [exists("a", 9), exists()], [A, B], 9, id="the first toleration of a taint counts for it"
        ),
        pytest.param([exists(seconds=-1)], [A], 0, id="a negative time is none"),
    ],
)
def test_tolerated_seconds(tolerations: list[Toleration], taints: list[Taint], want: float | None) -> None:
    assert tolerated_s(tolerations, taints) == want


@pytest.mark.slow
def test_pods_leave_a_tainted_node_when_their_tolerations_end() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        for name, key, seconds in (
            ("short", "maintenance", 1),
            ("long", "maintenance", 600),
            ("other", "x", 600),
        ):
            toleration = {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": seconds,
            }
            await cluster.run_job(name, 1, {"duration": "forever"}, tolerations=[toleration])

        async def all_run() -> bool:
            return await cluster.phases() == ["Running"] * 3

        await cluster.until("all pods run", all_run)
        first = {
            pod["metadata"]["uid"]: pod["metadata"]["labels"]["job-name"] for pod in await cluster.pods()
        }
        for node in (await cluster.client.list(NODES)).items:
            taint = {"key": "maintenance", "effect": "NoExecute"}
            await cluster.client.patch(NODES, node.metadata.key, {"spec": {"taints": [taint]}})

        async def two_left() -> set[str] | None:
            stay = {first.get(pod["metadata"]["uid"], "") for pod in await cluster.pods()}
            gone = set(first.values()) - stay
            return gone if len(gone) == 2 else None

        assert await cluster.until("two pods are gone", two_left) == {"other", "short"}

    async def run() -> None:
        async with local_cluster(NodePool(1)) as cluster:
            await scenario(cluster)

    asyncio.run(run())
