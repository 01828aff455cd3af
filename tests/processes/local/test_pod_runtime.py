"""The options of the node of this machine."""

from pathlib import Path

import msgspec
import pytest

from quorate.api.quantity import parse_quantity
from quorate.inspect.errors import UsageError
from quorate.processes.local.cluster_description import ClusterDescription
from quorate.processes.local.node_pools import NodePoolDescription
from quorate.processes.local.pod_runtime import Runtime, RuntimeOptions
from tests.local.runtime.world import runs_processes

NOTHING = ClusterDescription()
TWO_NODES = ClusterDescription(nodes=2, cpu=parse_quantity("8"), memory=parse_quantity("4315648Ki"), pods=110)


def test_simulated_nodes_have_no_options_of_this_machine() -> None:
    with pytest.raises(UsageError, match="need --runtime process"):
        RuntimeOptions(node="cpu=4").nodes(NOTHING, NOTHING)
    pools, runtime = RuntimeOptions().nodes(NOTHING, TWO_NODES)
    assert ([pool.count for pool in pools], runtime) == ([2], None)


@runs_processes
def test_this_machine_has_what_the_described_nodes_have_together(tmp_path: Path) -> None:
    options = RuntimeOptions(
        Runtime.PROCESS, "here", "memory=1Gi,example.com/disk=2", [f"python:3={tmp_path}"]
    )
    pools, runtime = options.nodes(NOTHING, TWO_NODES)
    assert runtime is not None
    assert (pools, runtime.node_name, runtime.images) == ((), "here", {"python:3": tmp_path})
    assert runtime.resources == {"cpu": "16", "memory": "1Gi", "pods": "220", "example.com/disk": "2"}
    _, described = RuntimeOptions(Runtime.PROCESS).nodes(NOTHING, TWO_NODES)
    assert described is not None
    assert parse_quantity(described.resources["memory"]) == parse_quantity("8429Mi")


@runs_processes
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RuntimeOptions(Runtime.PROCESS, node="cpu"), "--node cpu: '' is not a quantity"),
        (RuntimeOptions(Runtime.PROCESS, node="cpu=-1"), "--node cpu: '-1' is negative"),
        (RuntimeOptions(Runtime.PROCESS, node="=4"), "is not RESOURCE=AMOUNT"),
        (RuntimeOptions(Runtime.PROCESS, "My_Machine"), "--node-name: 'My_Machine' is no name of a node"),
        (RuntimeOptions(Runtime.PROCESS, images=["python=/no/such"]), "is not NAME=DIRECTORY"),
    ],
)
def test_mistakes_are_named(options: RuntimeOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        options.nodes(NOTHING, NOTHING)


@runs_processes
def test_nodes_may_be_simulated_beside_this_machine() -> None:
    pools, runtime = RuntimeOptions(Runtime.PROCESS).nodes(ClusterDescription(nodes=3), NOTHING)
    assert ([pool.count for pool in pools], runtime is not None) == ([3], True)
    of_file = msgspec.structs.replace(TWO_NODES, pools=(NodePoolDescription(name="gpu", count=4),))
    pools, runtime = RuntimeOptions(Runtime.PROCESS).nodes(NOTHING, of_file)
    assert runtime is not None
    assert ([(pool.name, pool.count) for pool in pools], runtime.resources["cpu"]) == ([("gpu", 4)], "16")
