"""Hosts for the pods of a failed one: which are chosen, and why there are none."""

import pytest

from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import Profile, SliceLayer, TopologyRequest
from quorate.queueing.topology.replacement import Domains, replace_hosts
from tests.placement.topology.test_assignment import POD, a_request, a_tree

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
