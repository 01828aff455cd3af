"""Placement of pod sets in small topologies: examples, and laws that an exhaustive search confirms."""

from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core.scheduling import Node
from quorate.api.kueue.topology import HOSTNAME
from quorate.placement.topology.assignment import place
from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import PodSetRequest, Profile, SliceLayer, TopologyRequest
from quorate.placement.topology.search import GroupPlacement, PlacementFailure
from quorate.placement.topology.tree import DomainTree
from tests.placement.topology.trees import tree_with

LEVELS = ("block", "rack", HOSTNAME)
POD = {"cpu": 1000, "pods": 1}


def a_node(name: str, cpu: int, **labels: str) -> Node:
    return codec.convert(
        Node,
        {
            "metadata": {"name": name, "labels": {HOSTNAME: name, **labels}},
            "status": {"allocatable": {"cpu": str(cpu), "pods": "10"}},
        },
    )


def a_tree(racks: Mapping[str, Mapping[str, Mapping[str, int]]]) -> DomainTree:
    """Return the tree of hosts with their cpus, by block and rack."""
    nodes = [
        a_node(host, cpu, block=block, rack=rack)
        for block, by_rack in racks.items()
        for rack, hosts in by_rack.items()
        for host, cpu in hosts.items()
    ]
    return tree_with(LEVELS, nodes)


def a_request(count: int, topology: TopologyRequest) -> PodSetRequest:
    return PodSetRequest(name="main", count=count, per_pod=POD, topology=topology)


def placed(tree: DomainTree, request: PodSetRequest, profile: Profile = Profile()) -> dict[str, int] | str:  # noqa: B008
    found = place(Capacity(tree), request, profile=profile)
    if isinstance(found, PlacementFailure):
        return found.text
    return {tree.recorded_values(each.leaf)[0]: each.pods for each in found.workers}


ALL_ROOM = {"x1": 2, "x2": 1, "x3": 4, "x4": 2, "y1": 3}
TWO_BLOCKS = {"b1": {"r1": {"x1": 2, "x2": 1}, "r2": {"x3": 4, "x4": 2}}, "b2": {"r1": {"y1": 3}}}


@pytest.mark.parametrize(
    ("count", "topology", "want"),
    [
        pytest.param(3, TopologyRequest(required="rack"), {"x1": 2, "x2": 1}, id="the smallest rack"),
        pytest.param(5, TopologyRequest(required="rack"), {"x3": 4, "x4": 1}, id="the only large rack"),
        pytest.param(
            7,
            TopologyRequest(required="rack"),
            'topology "dc" allows to fit only 6 out of 7 pod(s)',
            id="no rack is large enough",
        ),
        pytest.param(7, TopologyRequest(preferred="rack"), {"x1": 2, "x2": 1, "x3": 4}, id="one block"),
        pytest.param(12, TopologyRequest(preferred="rack"), ALL_ROOM, id="both blocks"),
        pytest.param(2, TopologyRequest(unconstrained=True), {"x1": 2}, id="the least free that suffices"),
        pytest.param(
            6,
            TopologyRequest(required="block", layers=(SliceLayer("rack", 3),)),
            {"x3": 4, "x4": 2},
            id="two slices in one rack",
        ),
        pytest.param(1, TopologyRequest(required="zone"), "no requested topology level: zone", id="no level"),
        pytest.param(
            2,
            TopologyRequest(required="rack", layers=(SliceLayer("block", 2),)),
            "podset slice topology block is above the podset topology rack",
            id="slices above the pods",
        ),
    ],
)
def test_places(count: int, topology: TopologyRequest, want: dict[str, int] | str) -> None:
    assert placed(a_tree(TWO_BLOCKS), a_request(count, topology)) == want


def test_hosts_are_excluded_once_each_and_named_in_the_refusal() -> None:
    tree = tree_with(
        (HOSTNAME,),
        [
            a_node("small", 0),
            a_node("other", 8, disk="hdd"),
            codec.convert(
                Node,
                {
                    "metadata": {"name": "tainted", "labels": {HOSTNAME: "tainted", "disk": "hdd"}},
                    "spec": {"taints": [{"key": "busy", "effect": "NoSchedule"}]},
                },
            ),
        ],
    )
    request = PodSetRequest(
        name="main",
        count=1,
        per_pod=POD,
        topology=TopologyRequest(required=HOSTNAME),
        node_selector={"disk": "ssd"},
    )
    assert placed(tree, request) == (
        'topology "dc" doesn\'t allow to fit any of 1 pod(s). Total nodes: 3; excluded: nodeSelector: 2, '
        'taint "busy:NoSchedule": 1'
    )


def test_a_topology_without_nodes_has_no_domains() -> None:
    tree = tree_with(LEVELS, [])
    assert (
        placed(tree, a_request(1, TopologyRequest(required="rack"))) == "no topology domains at level: rack"
    )


def test_a_leader_takes_room_beside_the_workers() -> None:
    tree = a_tree({"b": {"r": {"h1": 2, "h2": 3}}})
    leader = PodSetRequest(name="leader", count=1, per_pod={"cpu": 2000, "pods": 1})
    workers = a_request(3, TopologyRequest(required="rack", group="g"))
    found = place(Capacity(tree), workers, leader, profile=Profile())
    assert isinstance(found, GroupPlacement)
    assert [(tree.recorded_values(each.leaf)[0], each.pods) for each in found.leader] == [("h2", 1)]
    workers_at = [(tree.recorded_values(each.leaf)[0], each.pods) for each in found.workers]
    assert workers_at == [("h1", 2), ("h2", 1)]


def test_balanced_placement_gives_every_rack_the_same_share() -> None:
    tree = a_tree({"b": {"r1": {"h1": 6}, "r2": {"h2": 6}}})
    request = a_request(8, TopologyRequest(preferred="rack"))
    assert placed(tree, request) == {"h1": 6, "h2": 2}
    assert placed(tree, request, Profile(balanced=True)) == {"h1": 4, "h2": 4}


sizes = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=3)
trees = st.lists(sizes, min_size=1, max_size=2)


def tree_of(blocks: Sequence[Sequence[Sequence[int]]]) -> tuple[DomainTree, dict[str, tuple[int, int, int]]]:
    """Return a tree, and by host its block, rack and cpus."""
    hosts = {
        f"h{block}{rack}{host}": (block, rack, cpu)
        for block, racks in enumerate(blocks)
        for rack, cpus in enumerate(racks)
        for host, cpu in enumerate(cpus)
    }
    nodes = [a_node(name, cpu, block=f"b{b}", rack=f"r{r}") for name, (b, r, cpu) in hosts.items()]
    return tree_with(LEVELS, nodes), hosts


@given(blocks=trees, count=st.integers(1, 12), level=st.sampled_from(LEVELS), size=st.integers(1, 3))
def test_a_required_request_is_placed_if_any_domain_can_hold_it(
    blocks: Sequence[Sequence[Sequence[int]]], count: int, level: str, size: int
) -> None:
    """The slices, if any, are of racks, of pods that may be on several hosts; the last may be smaller.

    The smaller slice needs room for its own pods, in a domain with no slice after it.
    """
    tree, hosts = tree_of(blocks)
    layers = (SliceLayer("rack", size),) if size > 1 and level != HOSTNAME else ()
    found = placed(tree, a_request(count, TopologyRequest(required=level, layers=layers)))

    def key(host: str) -> tuple[object, ...]:
        block, rack, _ = hosts[host]
        return {"block": (block,), "rack": (block, rack), HOSTNAME: (host,)}[level]

    whole, rest = divmod(count, size if layers else 1)
    slices: dict[object, int] = {}  # of racks before
    holding: set[object] = set()
    for domain, rack in product({key(h) for h in hosts}, sorted({hosts[h][:2] for h in hosts})):
        free = sum(hosts[h][2] for h in hosts if key(h) == domain and hosts[h][:2] == rack)
        before = slices.get(domain, 0)
        if free >= rest and before + (free - rest) // (size if layers else 1) >= whole:
            holding.add(domain)
        slices[domain] = before + free // (size if layers else 1)
    if not holding:
        assert isinstance(found, str)
        return
    assert isinstance(found, dict), found
    assert sum(found.values()) == count
    assert all(0 < pods <= hosts[host][2] for host, pods in found.items())
    assert len({key(host) for host in found}) == 1
    if layers:
        by_rack: dict[object, int] = {}
        for host, pods in found.items():
            by_rack[hosts[host][:2]] = by_rack.get(hosts[host][:2], 0) + pods
        last = max(by_rack, key=str)  # in the order of the leaves, which is that of the ranks of pods
        assert all((pods - count * (rack == last)) % size == 0 for rack, pods in by_rack.items())


@given(blocks=trees, count=st.integers(1, 20))
def test_a_preferred_request_uses_the_least_number_of_domains_of_its_level(
    blocks: Sequence[Sequence[Sequence[int]]], count: int
) -> None:
    """One rack if one is large enough, else one block, else as few blocks as possible."""
    tree, hosts = tree_of(blocks)
    found = placed(tree, a_request(count, TopologyRequest(preferred="rack")))
    racks, in_blocks = ({} for _ in range(2))  # type: dict[tuple[int, int], int], dict[int, int]
    for block, rack, cpu in hosts.values():
        racks[block, rack] = racks.get((block, rack), 0) + cpu
        in_blocks[block] = in_blocks.get(block, 0) + cpu
    if sum(in_blocks.values()) < count:
        assert isinstance(found, str)
        return
    assert isinstance(found, dict), found
    assert sum(found.values()) == count
    used_racks, used_blocks = {hosts[host][:2] for host in found}, {hosts[host][0] for host in found}
    if max(racks.values()) >= count:
        assert len(used_racks) == 1
    largest = sorted(in_blocks.values(), reverse=True)
    fewest = next(number for number in range(1, len(largest) + 1) if sum(largest[:number]) >= count)
    assert len(used_blocks) == fewest


@given(blocks=trees, count=st.integers(1, 20))
def test_an_unconstrained_request_is_placed_if_there_is_room(
    blocks: Sequence[Sequence[Sequence[int]]], count: int
) -> None:
    tree, hosts = tree_of(blocks)
    found = placed(tree, a_request(count, TopologyRequest(unconstrained=True)))
    assert isinstance(found, dict) == (sum(cpu for _, _, cpu in hosts.values()) >= count)
