"""Which nodes each HyperNode contains, however it and the nodes have changed."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.codec import convert
from quorate.api.core.scheduling import Node
from quorate.api.volcano.topology import HyperNode
from quorate.placement.cluster import Cluster
from quorate.placement.hyper_nodes.index import HyperNodeIndex

Json = dict[str, Any]


def node(name: str, **labels: str) -> Node:
    return convert(Node, {"metadata": {"name": name, "labels": labels}})


def hyper_node(name: str, tier: int, *members: Json, tier_name: str = "") -> HyperNode:
    spec = {"tier": tier, "tierName": tier_name, "members": members}
    return convert(HyperNode, {"metadata": {"name": name}, "spec": spec})


def named(kind: str, name: str) -> Json:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def by_regex(pattern: str, kind: str = "Node") -> Json:
    return {"type": kind, "selector": {"regexMatch": {"pattern": pattern}}}


def by_labels(**selector: Any) -> Json:
    return {"type": "Node", "selector": {"labelMatch": selector}}


def nodes_of(index: HyperNodeIndex, cluster: Cluster) -> Mapping[str, list[str]]:
    """Return the names of the nodes of each HyperNode that has any."""
    index.refresh()
    return {
        name: sorted(cluster.name(int(each)) for each in index.nodes(name))
        for tier in index.tiers
        for name in tier.names
    }


def resolved(nodes: Iterable[Node], *hyper_nodes: HyperNode) -> Mapping[str, list[str]]:
    cluster = Cluster()
    for each in nodes:
        cluster.set_node(each)
    index = HyperNodeIndex(cluster)
    for one in hyper_nodes:
        index.set(one)
    return nodes_of(index, cluster)


NODES = (node("n1", rack="a"), node("n2", rack="b"), node("n3", rack="b", gpu="yes"))


@pytest.mark.parametrize(
    ("member", "want"),
    [
        pytest.param(named("Node", "n2"), ["n2"], id="by name"),
        pytest.param(named("Node", "n4"), [], id="a node that does not exist"),
        pytest.param(by_regex("^n[12]$"), ["n1", "n2"], id="by expression"),
        pytest.param(by_regex("3"), ["n3"], id="an expression matches a part of the name"),
        pytest.param(by_regex("n("), [], id="an invalid expression"),
        pytest.param(by_regex("((a{1000}){1000}){1000}"), [], id="an expression too large to compile"),
        pytest.param(by_regex("(.*)*(.*)*(.*)*$"), ["n1", "n2", "n3"], id="one that takes long elsewhere"),
        pytest.param(by_labels(matchLabels={"rack": "b"}), ["n2", "n3"], id="by a label"),
        pytest.param(by_labels(matchLabels={"rack": "b", "gpu": "yes"}), ["n3"], id="by two labels"),
        pytest.param(
            by_labels(matchExpressions=[{"key": "gpu", "operator": "DoesNotExist"}]), ["n1", "n2"],
            id="by expressions on labels",
        ),
        pytest.param(by_labels(), [], id="an empty selector selects nothing"),
        pytest.param(by_labels(matchExpressions=[{"key": "gpu", "operator": "Like"}]), [], id="no operator"),
        pytest.param({"type": "Node", "selector": {}}, [], id="no selector"),
    ],
)  # fmt: skip
def test_members_of_type_node(member: Json, want: list[str]) -> None:
    assert resolved(NODES, hyper_node("h", 1, member)).get("h", []) == want


def test_a_hyper_node_contains_the_nodes_of_its_members() -> None:
    found = resolved(
        NODES,
        hyper_node(
            "spine", 3, named("HyperNode", "leaf-1"), named("HyperNode", "leaf-2"), named("Node", "n1")
        ),
        hyper_node("leaf-1", 1, named("Node", "n2")),
        hyper_node("leaf-2", 2, named("Node", "n3")),
    )
    assert found == {"leaf-1": ["n2"], "leaf-2": ["n3"], "spine": ["n1", "n2", "n3"]}


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(named("HyperNode", "missing"), id="one that does not exist"),
        pytest.param(named("HyperNode", "same"), id="one of the same tier"),
        pytest.param(named("HyperNode", "above"), id="one of a higher tier, here a cycle"),
        pytest.param(named("HyperNode", "h"), id="itself"),
        pytest.param(by_regex(".*", "HyperNode"), id="by expression, as in Volcano"),
    ],
)
def test_member_hyper_nodes_that_add_nothing(member: Json) -> None:
    found = resolved(
        NODES,
        hyper_node("h", 2, named("Node", "n1"), member),
        hyper_node("same", 2, named("Node", "n2")),
        hyper_node("above", 3, named("Node", "n3"), named("HyperNode", "h")),
    )
    assert found["h"] == ["n1"]
    assert found["above"] == ["n1", "n3"]


def test_a_long_chain_of_hyper_nodes_is_resolved() -> None:
    chain = [hyper_node(f"h{tier}", tier, named("HyperNode", f"h{tier - 1}")) for tier in range(1, 3_000)]
    found = resolved(NODES, hyper_node("h0", 0, named("Node", "n1")), *chain)
    assert found["h2999"] == ["n1"]


def test_the_lowest_tier_with_a_name_counts() -> None:
    index = HyperNodeIndex(Cluster())
    index.set(hyper_node("a", 3, tier_name="rack"))
    index.set(hyper_node("b", 2, tier_name="rack"))
    assert (index.tier_named("rack"), index.tier_named("block")) == (2, None)


_NAMES = st.sampled_from("abc")
_MEMBERS = st.lists(
    st.one_of(
        st.builds(named, st.just("Node"), st.sampled_from(["n0", "n1", "n2", "n3"])),
        st.builds(named, st.just("HyperNode"), _NAMES),
        st.builds(lambda rack: by_labels(matchLabels={"rack": rack}), st.sampled_from("xy")),
        st.builds(by_regex, st.sampled_from(["n[01]", "3$", "("])),
    ),
    max_size=3,
)
_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), _NAMES, st.integers(0, 2), _MEMBERS),
        st.tuples(st.just("remove"), _NAMES),
        st.tuples(st.just("node"), st.sampled_from(["n0", "n1", "n2", "n3"]), st.sampled_from("xyz")),
        st.tuples(st.just("gone"), st.sampled_from(["n0", "n1", "n2", "n3"])),
        st.tuples(st.just("read")),
    ),
    max_size=20,
)


@given(changes=_CHANGES)
def test_an_index_that_follows_changes_equals_a_new_one(changes: list[tuple[Any, ...]]) -> None:
    cluster = Cluster()
    index = HyperNodeIndex(cluster)
    nodes: dict[str, Node] = {}
    hyper_nodes: dict[str, HyperNode] = {}
    for change in changes:
        match change:
            case ("set", name, tier, members):
                hyper_nodes[name] = hyper_node(name, tier, *members)
                index.set(hyper_nodes[name])
            case ("remove", name):
                hyper_nodes.pop(name, None)
                index.remove(name)
            case ("node", name, rack):
                nodes[name] = node(name, rack=rack)
                cluster.set_node(nodes[name])
            case ("gone", name) if name in nodes:
                del nodes[name]
                cluster.remove_node(name)
            case ("read",):
                index.refresh()
    assert nodes_of(index, cluster) == resolved(nodes.values(), *hyper_nodes.values())
