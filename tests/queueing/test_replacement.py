"""Hosts for the pods of a failed one: which are chosen, and why there are none."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import PodSetRequest, Profile, SliceLayer, TopologyRequest
from quorate.placement.topology.tree import DomainTree
from quorate.queueing.topology.replacement import Domains, replace_hosts
from tests.placement.topology.oracle import Asked, Domain, every_placement, in_slices, satisfies
from tests.placement.topology.test_assignment import POD, a_request, a_tree
from tests.placement.topology.test_laws import (
    LEVELS,
    Hosts,
    a_node,
    assert_slices,
    placed,
    requests,
    topology_of,
    trees,
)
from tests.placement.topology.trees import cluster_with
from tests.search import examples

# The failed host ``gone`` is not in the tree any more.
RACKS = {"b1": {"r1": {"x1": 2, "x2": 1}, "r2": {"x3": 1}}, "b2": {"r3": {"x4": 4}}}


def replaced(topology: TopologyRequest, **pods: int) -> Domains | str:
    """Return where the pods are that had places on the hosts ``pods``, of which ``gone`` failed."""
    domains = [((host,), count) for host, count in pods.items()]
    tree = a_tree(RACKS)
    for host, count in domains:
        if tree.leaf_of(host) is not None:
            tree.add_used(host, POD, count)
    request = a_request(sum(pods.values()), topology)
    return replace_hosts(Capacity(tree), request, domains, {"gone"}, Profile())


@pytest.mark.parametrize(
    ("topology", "pods", "want"),
    [
        pytest.param(
            TopologyRequest(required="rack"), {"gone": 1, "x2": 1}, {"x1": 1, "x2": 1}, id="in its rack"
        ),
        pytest.param(
            TopologyRequest(required="rack"), {"gone": 4}, {"x4": 4}, id="in any rack: nothing remains"
        ),
        pytest.param(
            TopologyRequest(required="rack"), {"gone": 4, "x2": 1},
            'topology "dc" allows to fit only 2 out of 4 pod(s). Total nodes: 4; excluded: '
            'resource "cpu": 1, topologyDomain: 2',
            id="its rack is full",
        ),
        pytest.param(
            TopologyRequest(unconstrained=True), {"gone": 4, "x2": 1}, {"x2": 1, "x4": 4}, id="anywhere"
        ),
        pytest.param(
            TopologyRequest(layers=(SliceLayer("rack", 2),)), {"gone": 1, "x2": 1}, {"x1": 1, "x2": 1},
            id="an incomplete slice",
        ),
        pytest.param(
            TopologyRequest(required="rack"), {"gone": 1, "lost": 1},
            "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the "
            "stale domain [lost]", id="another host has gone",
        ),
    ],
)  # fmt: skip
def test_replacement(topology: TopologyRequest, pods: dict[str, int], want: dict[str, int] | str) -> None:
    found = replaced(topology, **pods)
    assert (found if isinstance(found, str) else {values[-1]: count for values, count in found}) == want


def smaller_slices(pods: Mapping[Domain, int], asked: Asked) -> dict[tuple[int, int], Domain]:
    """Return the domain with the smaller last slice of each layer that has one."""
    result: dict[tuple[int, int], Domain] = {}
    for level, size in asked.layers:
        sums: Counter[Domain] = Counter()
        for host, number in pods.items():
            sums[host[: level + 1]] += number
        for domain, number in sums.items():
            if number % size:
                result[level, size] = domain
    return result


def keeps_ranks(
    asked: Asked, before: Mapping[Domain, int], healthy: Mapping[Domain, int], after: Mapping[Domain, int]
) -> bool:
    """Return True if a smaller slice of which pods still run stays the last one."""
    now = smaller_slices(after, asked)
    return all(
        now.get((level, size)) == domain
        for (level, size), domain in smaller_slices(before, asked).items()
        if sum(pods for host, pods in healthy.items() if host[: level + 1] == domain) % size
    )


TWO_BLOCKS = {("b0", "r0", f"h{number}"): 1 for number in range(3)} | {
    ("b1", "r0", f"h{number}"): 1 for number in (3, 4)
}
PARTS = {("b0", "r0", "h0"): 3, ("b0", "r0", "h1"): 1, ("b0", "r1", "h2"): 1}
IN_FOURS = {("b0", "r0", "a"): 4, ("b0", "r1", "b"): 3, ("b0", "r2", "c"): 0}


@given(
    trees(most=3),
    requests(most=7, whole=False, leaders=False),
    st.integers(0, 11),
    st.booleans(),
    st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
@example(TWO_BLOCKS, Asked(count=5, preferred=0, layers=((0, 2),)), 0, False, [0] * 12)
@example(PARTS, Asked(count=4, required=0, layers=((1, 6), (2, 3))), 1, True, [0] * 12)
@example(IN_FOURS, Asked(count=7, layers=((1, 4),)), 0, True, [0, 0, 4, *[0] * 9])
@examples(150)
@pytest.mark.no_cover
def test_pods_of_a_failed_host_are_placed_if_any_placement_beside_the_others_satisfies_the_request(
    hosts: Hosts, asked: Asked, number: int, is_gone: bool, freed: list[int]
) -> None:
    found = placed(hosts, asked)
    if found is None:
        return
    before = {host: pods for host, (pods, _) in found.items()}
    failed = list(before)[number % len(before)]
    healthy = {host: pods for host, pods in before.items() if host != failed}
    now = {host: cpu + more for (host, cpu), more in zip(hosts.items(), freed, strict=False)}
    if is_gone:
        del now[failed]
    nodes = [a_node(host, cpu) for host, cpu in now.items()]
    tree = DomainTree("dc", LEVELS, cluster_with(nodes), nodes)
    per_pod = {"cpu": asked.pod * 1000}
    for host, pods in healthy.items():
        tree.add_used((host[-1],), per_pod, pods)
    request = PodSetRequest(name="w", count=asked.count, per_pod=per_pod, topology=topology_of(asked))
    domains = [((host[-1],), pods) for host, pods in before.items()]
    outcome = replace_hosts(Capacity(tree), request, domains, {failed[-1]}, Profile(mixed=asked.mixed))
    if isinstance(outcome, str):
        left = {host: cpu - healthy.get(host, 0) * asked.pod for host, cpu in now.items()}
        missing = replace(asked, count=before[failed], layers=())
        for moved in every_placement(left, missing):
            both = {host: pods + healthy.get(host, 0) for host, pods in moved.items()}
            is_allowed = all(in_slices(both, level, size) for level, size in asked.layers)
            is_kept = keeps_ranks(asked, before, healthy, both)
            assert not (is_allowed and is_kept and satisfies(now, asked, both)), both
        return
    full = {host[-1]: host for host in now}
    after = {full[values[-1]]: pods for values, pods in outcome}
    assert_slices(after, asked)
    assert sum(after.values()) == asked.count
    assert all(pods * asked.pod <= now[host] for host, pods in after.items())
    assert all(after[host] >= pods for host, pods in healthy.items())
    assert asked.required is None or len({host[: asked.required + 1] for host in after}) == 1
    assert keeps_ranks(asked, before, healthy, after)
