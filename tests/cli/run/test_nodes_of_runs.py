"""The line that says on which nodes the jobs of a run are."""

import pytest

from quorate.cli.run.command import describe_nodes
from quorate.local.cluster import Settings
from quorate.local.nodes import NodePool
from quorate.local.runtime.supervisor import ProcessRuntime

TWO = NodePool(2, cpu="8", memory="4Gi")


@pytest.mark.parametrize(
    ("settings", "nodes"),
    [
        (Settings((TWO,)), "2 nodes each with cpu 8, memory 4Gi and 110 pods"),
        (Settings((), runtime=ProcessRuntime("laptop")), "this machine as node laptop"),
        (
            Settings((TWO,), runtime=ProcessRuntime("laptop")),
            "this machine as node laptop; 2 nodes each with cpu 8, memory 4Gi and 110 pods",
        ),
        (Settings(()), "no nodes"),
    ],
)
def test_the_machine_is_a_node_if_pods_are_its_processes(settings: Settings, nodes: str) -> None:
    assert describe_nodes(settings) == nodes
