"""The HyperNodes that the labels of nodes describe."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration.network_topology import TopologyType
from quorate.api.volcano.topology import HyperNode
from quorate.controllers.volcano.hyper_nodes import (
    SOURCE,
    DiscoveredHyperNode,
    discovered,
)

Json = dict[str, Any]
LEVELS = ("rack", "block")  # the lowest first
NPU = TopologyType("NPU", LEVELS)


def nodes(text: str) -> dict[str, dict[str, str]]:
    """Return labels by node; ``n1=r1/b1``: rack and block, ``-`` for none."""
    given = (word.partition("=") for word in text.split())
    return {
        name: {key: value for key, value in zip(LEVELS, values.split("/"), strict=False) if value != "-"}
        for name, _, values in given
    }


def named(name: str, **labels: str) -> HyperNode:
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": {SOURCE: "label", **labels}},
        "spec": {"tier": 1},
    }
    return codec.convert(HyperNode, body)


def show(found: dict[str, DiscoveredHyperNode]) -> str:
    """Return each HyperNode with its members; other HyperNodes by their values."""
    values = {
        name: "/".join(each.labels[key] for key in LEVELS if key in each.labels)
        for name, each in found.items()
    }
    shown = []
    for name, each in found.items():
        members = sorted(values.get(member, member) for member in each.members)
        shown.append(f"{each.tier}:{values[name]}={','.join(members)}")
    return " ".join(sorted(shown))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param("a=r1/b1 b=r1/b1 c=r2/b1", "1:r1/b1=a,b 1:r2/b1=c 2:b1=r1/b1,r2/b1", id="two tiers"),
        pytest.param("a=r1 b=r2/b1", "1:r1=a 1:r2/b1=b 2:b1=r2/b1", id="a rack without a block"),
        pytest.param("a=-/b1 b=-", "", id="a node without the lowest label is in none"),
        pytest.param("a=r1/b1 b=r1", "1:r1/b1=a,b 2:b1=r1/b1", id="one node of the rack tells the block"),
        pytest.param("a=r1/b1 b=r1/b2", "1:r1/b1=a 1:r1/b2=b 2:b1=r1/b1 2:b2=r1/b2",
                     id="equal values below different blocks are two racks"),
        pytest.param("a=r1/b1 b=r1/b2 c=r1", "1:r1/b1=a 1:r1/b2=b 1:r1=c 2:b1=r1/b1 2:b2=r1/b2",
                     id="a node that may be in either is in neither"),
        pytest.param("", "", id="no nodes"),
    ],
)  # fmt: skip
def test_hyper_nodes_follow_the_labels(given: str, want: str) -> None:
    assert show(discovered([NPU], nodes(given), ())) == want


@pytest.mark.parametrize(
    ("existing", "want"),
    [
        pytest.param(named("hypernode-npu-tier1-x7k2p", rack="r1"), True, id="as Volcano labels it"),
        pytest.param(named("hypernode-npu-tier1-x7k2p", rack="r1", block="b1"), True, id="as we label it"),
        pytest.param(named("hypernode-npu-tier1-x7k2p", rack="r1", block="b2"), False, id="of another block"),
        pytest.param(named("hypernode-npu-tier2-x7k2p", rack="r1"), False, id="of another tier"),
        pytest.param(named("hypernode-gpu-tier1-x7k2p", rack="r1"), False, id="of another type"),
        pytest.param(named("mine", rack="r1"), False, id="with a name of its own"),
        pytest.param(named("hypernode-npu-tier1-x7k2p", rack="r1", **{SOURCE: "ufm"}), False,
                     id="of another source"),
    ],
)  # fmt: skip
def test_a_discovered_hyper_node_keeps_its_name(existing: HyperNode, want: bool) -> None:
    found = discovered([NPU], nodes("a=r1/b1"), [existing])
    assert (existing.metadata.name in found) == want
    assert show(found) == "1:r1/b1=a 2:b1=r1/b1"


def test_names_are_stable_and_never_taken_twice() -> None:
    given = nodes("a=r1/b1 b=r2/b1")
    found = discovered([NPU], given, ())
    stored = tuple(each.hyper_node for each in found.values())
    assert discovered([NPU], given, stored) == found
    foreign = [codec.convert(HyperNode, {"metadata": {"name": name}, "spec": {"tier": 1}}) for name in found]
    again = discovered([NPU], given, foreign)
    assert not again.keys() & found.keys()
    assert all(name.startswith("hypernode-npu-tier") for name in again)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({}, True, id="as it should be"),
        pytest.param({"labels": {"team": "a"}}, True, id="one more label"),
        pytest.param({"labels": {"rack": "r2"}}, False, id="another value"),
        pytest.param({"tier": 2}, False, id="another tier"),
        pytest.param({"members": "a"}, False, id="a member is missing"),
        pytest.param({"members": "a b c"}, False, id="one member more"),
        pytest.param({"kind": "HyperNode"}, False, id="members of another kind"),
    ],
)
def test_a_hyper_node_is_written_only_if_it_differs(change: Json, want: bool) -> None:
    wanted = DiscoveredHyperNode("h", 1, "rack", {SOURCE: "label", "rack": "r1"}, ["a", "b"])
    given = {"labels": {}, "tier": 1, "members": "a b", "kind": "Node", **change}
    members = [
        {"type": given["kind"], "selector": {"exactMatch": {"name": name}}}
        for name in given["members"].split()
    ]
    body = {
        "metadata": {"name": "h", "labels": {**wanted.labels, **given["labels"]}},
        "spec": {"tier": given["tier"], "tierName": "rack", "members": members},
    }
    assert wanted.is_described_by(codec.convert(HyperNode, body)) == want
    assert wanted.is_described_by(wanted.hyper_node)


def test_types_with_the_same_label_have_hyper_nodes_of_their_own() -> None:
    both = discovered([NPU, TopologyType("gpu.x", ("rack",))], nodes("a=r1/b1"), ())
    assert sorted(name.rpartition("-")[0] for name in both) == [
        "hypernode-gpu-x-tier1", "hypernode-npu-tier1", "hypernode-npu-tier2",
    ]  # fmt: skip
    assert {each.tier_name for each in both.values()} == {"rack", "block"}
