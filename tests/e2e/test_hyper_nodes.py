"""HyperNodes made from the labels of nodes."""

from typing import Any

import msgspec
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.configuration.network_topology import TopologyType
from quorate.api.meta import Key
from quorate.api.volcano.topology import HyperNode
from quorate.controllers.volcano.hyper_nodes import SOURCE
from quorate.kube.resources import HYPER_NODES, NODES
from tests.e2e.volcano import Gangs, run_story

pytestmark = pytest.mark.slow

DISCOVERY = msgspec.structs.replace(
    default_configuration(), network_topology=(TopologyType("net", ("rack", "block")),)
)


async def until_hyper_nodes(gangs: Gangs, *wanted: str) -> dict[str, HyperNode]:
    """Return the discovered HyperNodes by their value once they are ``wanted``: ``value:nodes``."""

    async def find() -> dict[str, HyperNode] | None:
        listed = (await gangs.client.list(HYPER_NODES)).items
        found = {
            each.metadata.labels["rack" if each.spec.tier == 1 else "block"]: each
            for each in listed
            if SOURCE in each.metadata.labels
        }
        counts = {f"{value}:{each.status.node_count}" for value, each in found.items()}
        return found if counts == set(wanted) else None

    return await gangs.world.until(f"the HyperNodes {wanted}", find)


def test_hyper_nodes_follow_the_labels_of_nodes() -> None:
    async def scenario(gangs: Gangs) -> None:
        client = gangs.client

        async def add_node(name: str, **labels: str) -> None:
            await client.create(NODES, {"metadata": {"name": name, "labels": labels}})

        own: dict[str, Any] = {
            "metadata": {"name": "mine"},
            "spec": {
                "tier": 3,
                "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "^n"}}}],
            },
        }
        await client.create(HYPER_NODES, own)
        await add_node("n1", rack="r1", block="b1")
        await add_node("n2", rack="r1", block="b1")
        await add_node("n3", rack="r2", block="b1")
        first = await until_hyper_nodes(gangs, "r1:2", "r2:1", "b1:3")

        await client.delete(HYPER_NODES, first["r1"].metadata.key)
        await client.patch(NODES, Key("", "n3"), {"metadata": {"labels": {"rack": "r3"}}})
        await add_node("n4", rack="r3", block="b1")
        second = await until_hyper_nodes(gangs, "r1:2", "r3:2", "b1:4")
        assert second["b1"].metadata.uid == first["b1"].metadata.uid
        assert second["r1"].metadata.uid != first["r1"].metadata.uid, "it was made again"

        await gangs.world.stop_queueing()
        await client.delete(NODES, Key("", "n4"))
        await client.delete(NODES, Key("", "n3"))
        await gangs.world.start_queueing(DISCOVERY)
        await until_hyper_nodes(gangs, "r1:2", "b1:2")

        async def is_counted() -> bool:
            return (await client.get(HYPER_NODES, Key("", "mine"))).status.node_count == 2

        await gangs.world.until("the count of a HyperNode of an administrator", is_counted)

    run_story(scenario, DISCOVERY)
