"""Simulated nodes in blocks and racks."""

import pytest

from quorate.api.decoding.strict import InvalidValue
from quorate.local.nodes import NodePool
from quorate.local.nodes.fleet import node_labels
from quorate.processes.local.node_pools import parse_node_topology

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"


def test_numbers_are_those_of_one_domain_above() -> None:
    parsed = parse_node_topology("block=2,rack=3,host=4")
    assert parsed.nodes == 24
    levels = [level["nodeLabel"] for level in parsed.topology["spec"]["levels"]]
    assert levels == [BLOCK, RACK, "kubernetes.io/hostname"]
    assert parsed.flavor["spec"] == {
        "nodeLabels": {"cloud.provider.com/node-group": "tas"},
        "topologyName": "default",
    }


@pytest.mark.parametrize(
    ("node", "labels"),
    [
        ("node-1", {BLOCK: "block-1", RACK: "rack-1-1"}),
        ("node-4", {BLOCK: "block-1", RACK: "rack-1-1"}),
        ("node-5", {BLOCK: "block-1", RACK: "rack-1-2"}),
        ("node-13", {BLOCK: "block-2", RACK: "rack-2-1"}),
        ("node-24", {BLOCK: "block-2", RACK: "rack-2-3"}),
    ],
)
def test_nodes_are_labelled_with_their_domains(node: str, labels: dict[str, str]) -> None:
    parsed = parse_node_topology("block=2,rack=3,host=4")
    fleet = NodePool(parsed.nodes, levels=parsed.levels)
    assert fleet.domains(node) == labels
    assert node_labels(fleet, node).items() >= labels.items()


def test_a_name_with_a_slash_is_a_node_label() -> None:
    parsed = parse_node_topology("example.com/row=2,host=1")
    assert NodePool(2, levels=parsed.levels).domains("node-2") == {"example.com/row": "row-2"}


def test_hosts_alone_are_a_topology() -> None:
    assert parse_node_topology("host=3").levels == ()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "has '', which is not NAME=NUMBER"),
        ("rack", "has 'rack', which is not NAME=NUMBER"),
        ("rack=0,host=1", "has '0' for rack, which is not a number from 1"),
        ("rack=1.5,host=1", "has '1.5' for rack, which is not a number from 1"),
        ("rack=2,rack=3,host=1", "has rack twice"),
        (f"rack=2,{RACK}=3,host=1", "has two levels with the same label"),
        ("host=2,rack=2", "ends with rack, must end with the number of hosts"),
        ("a b=2,host=1", "has 'a b', which is neither a word nor a node label"),
        ("kubernetes.io/hostname=2,host=1", "which is neither a word nor a node label"),
        ("rack=1000,host=1000", "makes 1000000 nodes, must make at most 10000"),
        (",".join(f"l{number}=1" for number in range(16)) + ",host=1", "has 17 levels, must have at most 16"),
    ],
)
def test_the_rule_for_each_mistake(text: str, rule: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_node_topology(text)
    assert rule in caught.value.rule
