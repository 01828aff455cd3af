"""Pools of nodes in ``cluster.yaml`` and in the option ``--pool``."""

from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core import Taint
from quorate.api.quantity import Quantity, parse_quantity
from quorate.cli.run.node_options import node_options, pool_option
from quorate.inspect.configuration_files import InvalidFiles
from quorate.inspect.errors import UsageError
from quorate.local.nodes import NodePool
from quorate.processes.local.cluster_description import (
    ClusterDescription,
    description_text,
    read_description_file,
    simulated_pools,
)
from quorate.processes.local.node_pools import NodePoolDescription, parse_node_topology

HEAD = "apiVersion: local.quorate.dev/v1alpha1\nkind: Cluster\n"
GPU_OPTION = (
    "name=gpu,count=4,cpu=64,memory=512Gi,nvidia.com/gpu=8,label=accelerator=h100,label=zone=,"
    "taint=nvidia.com/gpu=present:NoSchedule,taint=batch:NoExecute"
)
GPU_YAML = """
pools:
- name: gpu
  count: 4
  capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}
  labels: {accelerator: h100, zone: ""}
  taints:
  - {key: nvidia.com/gpu, value: present, effect: NoSchedule}
  - {key: batch, effect: NoExecute}
"""


def from_file(directory: Path, text: str) -> ClusterDescription:
    path = directory / "cluster.yaml"
    path.write_text(HEAD + text)
    return read_description_file(path)


def test_the_option_and_the_file_describe_the_same_pool(tmp_path: Path) -> None:
    assert (pool_option(GPU_OPTION),) == from_file(tmp_path, GPU_YAML).pools


def test_a_pool_becomes_nodes_with_its_resources_labels_and_taints() -> None:
    equal, gpu = simulated_pools(ClusterDescription(pools=(pool_option(GPU_OPTION),)))
    assert equal.node_names == (), "pools alone mean no other nodes"
    assert gpu.node_names == ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
    assert gpu.resources() == {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    assert gpu.labels == {"accelerator": "h100", "zone": ""}
    assert gpu.taints == (
        Taint(key="nvidia.com/gpu", effect="NoSchedule", value="present"),
        Taint(key="batch", effect="NoExecute"),
    )


def test_pools_stand_beside_equal_nodes_and_take_amounts_from_them() -> None:
    pools = [pool_option("name=big,cpu=32"), pool_option("name=many,count=2,pods=500")]
    described = node_options(nodes=3, node_cpu=parse_quantity("4"), pool=pools).description
    assert simulated_pools(described) == (
        NodePool(3, "4", "16Gi", 110),
        NodePool(1, "32", "16Gi", 110, name="big"),
        NodePool(2, "4", "16Gi", 500, name="many"),
    )


def test_options_that_describe_nodes_replace_those_of_the_file() -> None:
    gpu = ClusterDescription(pools=(pool_option("name=gpu"),), cpu=parse_quantity("4"))
    assert ClusterDescription(nodes=2).override(gpu) == ClusterDescription(nodes=2, cpu=parse_quantity("4"))
    memory = ClusterDescription(memory=parse_quantity("1Gi"))
    assert memory.override(gpu).pools == gpu.pools


NAMES = st.from_regex(r"\A[a-z]([-a-z0-9]{0,8}[a-z0-9])?\Z").filter(lambda name: name != "node")
AMOUNTS = st.integers(0, 10**6).map(Quantity.of_units)
POOLS = st.builds(
    NodePoolDescription,
    name=NAMES,
    count=st.integers(0, 100),
    capacity=st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"]), AMOUNTS),
    labels=st.dictionaries(st.sampled_from(["a", "b.example/c"]), st.sampled_from(["", "x", "yes", "1"])),
    taints=st.lists(
        st.builds(
            Taint,
            key=st.sampled_from(["on", "example.com/gpu"]),
            effect=st.sampled_from(["NoSchedule", "NoExecute"]),
            value=st.sampled_from(["", "true"]),
        ),
        max_size=2,
    ).map(tuple),
)
TOPOLOGIES = st.sampled_from(["host=3", "rack=2,host=4", "block=2,example.com/row=3,host=1"])
EQUAL_NODES: st.SearchStrategy[dict[str, object]] = st.one_of(
    st.just({}),
    st.integers(0, 9).map(lambda count: {"nodes": count}),
    TOPOLOGIES.map(lambda text: {"topology": parse_node_topology(text)}),
)


@given(
    equal=EQUAL_NODES,
    cpu=st.none() | AMOUNTS,
    pods=st.none() | st.integers(0, 500),
    pools=st.none() | st.lists(POOLS, max_size=3, unique_by=lambda pool: pool.name).map(tuple),
)
def test_what_is_stored_for_the_next_start_reads_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    equal: dict[str, object],
    cpu: Quantity | None,
    pods: int | None,
    pools: tuple[NodePoolDescription, ...] | None,
) -> None:
    described = ClusterDescription(cpu=cpu, pods=pods, pools=pools, **equal)  # type: ignore[arg-type]
    path = tmp_path_factory.getbasetemp() / "cluster.yaml"
    path.write_text(description_text(described))
    assert read_description_file(path) == described


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ("", "has '', which is not KEY=VALUE (write name=gpu,count=4,"),
        ("name=gpu,count", "has 'count', which is not KEY=VALUE"),
        ("count=4", "name: is missing (write a short name, such as gpu)"),
        ("name=GPU", "name: 'GPU' is not a name of small letters"),
        ("name=node", "name: 'node' is the name of the equal nodes of nodes or topology (choose another)"),
        ("name=gpu,count=-1", "count: '-1' is not a whole number"),
        ("name=gpu,cpu=many", "capacity.cpu: 'many' is not a quantity (write 4, 500m or 16Gi)"),
        ("name=gpu,cpu=1,cpu=2", "has cpu twice (drop one of the two)"),
        ("name=gpu,memory=-1Gi", "capacity.memory: '-1Gi' is negative (write 0 or more)"),
        ("name=gpu,cpus=4", "capacity.cpus: '4' is of no resource (cpu, memory, pods, ephemeral-storage,"),
        ("name=gpu,nvidia.com/gpu=500m", "'500m' is not a whole number (write 8)"),
        ("name=gpu,label=a b=c", "'c' is not under the key of a label"),
        ("name=gpu,label=a=b c", "labels.a: 'b c' is not the value of a label"),
        ("name=gpu,label=kubernetes.io/hostname=x", "is the value of a label that each node gets by itself"),
        ("name=gpu,taint=a=b", "has the taint 'a=b' without effect (write a=b:NoSchedule)"),
        ("name=gpu,taint=a=b:Never", "taints[0].effect: 'Never' is not allowed here (write NoSchedule or"),
        ("name=gpu,taint=:NoSchedule", "taints[0].key: '' is not the key of a label or taint"),
    ],
)
def test_the_rule_for_each_mistake_in_an_option(option: str, rule: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        pool_option(option)
    assert rule in caught.value.message


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("pools: {}", "cluster.yaml:3: pools: {} is not a list"),
        ("pools:\n- {name: a}\n- {name: a}", "has two pools named a (give each a name of its own)"),
        ("pools:\n- {name: a, count: 9999}\n- {name: b, count: 2}", "makes 10001 nodes, must make at most"),
        ("pools:\n- {name: a, label: {b: c}}", "cluster.yaml:4: pools[0].label: "),
        ("pools:\n- {name: a, taints: [{key: b}]}", "pools[0].taints[0].effect: is missing"),
    ],
)
def test_the_rule_for_each_mistake_in_a_file(tmp_path: Path, text: str, rule: str) -> None:
    with pytest.raises(InvalidFiles) as caught:
        from_file(tmp_path, text)
    assert rule in str(caught.value)


def test_two_options_with_the_same_name_are_refused() -> None:
    with pytest.raises(UsageError, match="--pool has two pools named gpu"):
        node_options(pool=[pool_option("name=gpu")] * 2)
