"""The table of nodes: what is free when pods come, move and go, and nodes do."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Uid
from quorate.placement.cluster import AllocationState, Cluster
from quorate.placement.shapes import MAX_AMOUNT
from tests.placement.builders import node, shape
from tests.placement.cluster_changes import PODS, Happening, PodDoes, do, happen, happenings, pods_do
from tests.search import examples

A, B = Uid("a"), Uid("b")


def idle(cluster: Cluster, name: str) -> dict[str, int]:
    return _amounts(cluster, name, {"allocatable": 1, "used": -1})


def future_idle(cluster: Cluster, name: str) -> dict[str, int]:
    return _amounts(cluster, name, {"allocatable": 1, "used": -1, "releasing": 1, "pipelined": -1})


def _amounts(cluster: Cluster, name: str, signs: dict[str, int]) -> dict[str, int]:
    index = cluster.index(name)
    assert index is not None, f"no node {name}"
    sums = [sign * getattr(cluster, matrix)[:, index] for matrix, sign in signs.items()]
    return {resource: int(amount) for resource, amount in zip(cluster.resources, sum(sums), strict=True)}


@pytest.mark.parametrize(
    ("state", "now", "then"),
    [
        pytest.param(AllocationState.USED, 3000, 3000, id="used: gone now and then"),
        pytest.param(AllocationState.RELEASING, 3000, 4000, id="releasing: back when the pod is gone"),
        pytest.param(AllocationState.PIPELINED, 4000, 3000, id="pipelined: takes nothing from now"),
    ],
)
def test_what_a_hold_takes(state: AllocationState, now: int, then: int) -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=1"), "n1", state)
    assert (idle(cluster, "n1")["cpu"], future_idle(cluster, "n1")["cpu"]) == (now, then)
    cluster.remove_pod(A)
    assert (idle(cluster, "n1")["cpu"], future_idle(cluster, "n1")["cpu"]) == (4000, 4000)


def test_a_place_tells_how_to_put_the_pod_back() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.USED)
    assert cluster.update_pod(A, AllocationState.RELEASING) is AllocationState.USED
    place = cluster.remove_pod(A)
    assert (place.node, place.state) == ("n1", AllocationState.RELEASING)
    assert cluster.allocation(A) is None


def test_a_pod_counts_as_soon_as_its_node_is_known() -> None:
    cluster = Cluster()
    cluster.add_pod(A, shape("cpu=1 gpu=1"), "n1", AllocationState.USED)
    cluster.set_node(node("n1 cpu=4 gpu=2"))
    assert idle(cluster, "n1") == {"cpu": 3000, "memory": 0, "pods": 109, "nvidia.com/gpu": 1}


def test_pods_outlive_their_node() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.USED)
    cluster.remove_node("n1")
    assert (cluster.total, cluster.total_used) == ({}, {})
    cluster.add_pod(B, shape("cpu=1"), "n1", AllocationState.USED)
    cluster.set_node(node("n1 cpu=4"))
    assert idle(cluster, "n1")["cpu"] == 2000


def test_a_vacant_index_is_taken_again() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.set_node(node("n2 cpu=8"))
    cluster.remove_node("n1")
    cluster.set_node(node("n3 cpu=2"))
    assert (cluster.index("n1"), cluster.index("n2"), cluster.index("n3")) == (None, 1, 0)
    assert idle(cluster, "n3")["cpu"] == 2000


def test_a_node_may_shrink_below_what_is_used() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=3"), "n1", AllocationState.USED)
    cluster.set_node(node("n1 cpu=2"))
    assert idle(cluster, "n1")["cpu"] == -1000


def test_totals_are_of_ready_nodes_cordoned_ones_included() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.set_node(node("n2 cpu=8", unschedulable=True))
    cluster.set_node(node("n3 cpu=16", ready=False))
    cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.USED)
    cluster.add_pod(B, shape("cpu=1"), "n3", AllocationState.RELEASING)
    assert cluster.total == {"cpu": 12_000, "pods": 220}
    assert cluster.total_used == {"cpu": 1000, "pods": 1}
    assert cluster.total_releasing == {}
    cluster.set_node(node("n3 cpu=16"))
    assert cluster.total == {"cpu": 28_000, "pods": 330}
    assert cluster.total_used == {"cpu": 2000, "pods": 2}
    assert cluster.total_releasing == {"cpu": 1000, "pods": 1}


def test_a_node_that_gave_away_more_than_it_has_is_in_no_total() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.set_node(node("n2 cpu=2"))
    cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.USED)
    cluster.add_pod(B, shape("cpu=3"), "n2", AllocationState.RELEASING)
    assert (cluster.total, cluster.total_used) == ({"cpu": 4000, "pods": 110}, {"cpu": 1000, "pods": 1})
    assert cluster.total_releasing == {}
    cluster.remove_pod(B)
    assert (cluster.total, cluster.total_used) == ({"cpu": 6000, "pods": 220}, {"cpu": 1000, "pods": 1})


def test_logs_tell_what_to_look_at_again() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.set_node(node("n2 cpu=4"))
    usage_changes, facts = cluster.usage_changes.end, cluster.node_changes.end
    cluster.add_pod(A, shape("cpu=1"), "n2", AllocationState.USED)
    cluster.add_pod(B, shape("cpu=1"), "n2", AllocationState.USED)
    cluster.set_node(node("n1 cpu=5"))
    assert (cluster.usage_changes.since(usage_changes), cluster.node_changes.since(facts)) == ([0, 1], [])
    cluster.set_node(node("n1 cpu=5", labels={"disk": "ssd"}))
    assert cluster.node_changes.since(facts) == [0]


def test_a_reader_far_behind_looks_at_everything() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    start = cluster.usage_changes.end
    for _ in range(9_000):
        cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.USED)
        cluster.remove_pod(A)
    assert cluster.usage_changes.since(start) is None
    assert cluster.usage_changes.since(cluster.usage_changes.end) == []


def test_amounts_beyond_counting_do_not_wrap_around() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4 memory=1000Ei"))
    huge = shape("memory=1000Ei")
    for number in range(500):
        cluster.add_pod(Uid(str(number)), huge, "n1", AllocationState.USED)
    assert idle(cluster, "n1")["memory"] == MAX_AMOUNT - 500 * (MAX_AMOUNT + 1)


# -- laws


@dataclass(frozen=True)
class World:
    """Facts that came in some order: what stays of them does not depend on it."""

    cluster: Cluster

    def observed(self) -> object:
        """Everything but indexes and the order of resources."""
        cluster = self.cluster
        nodes = {
            name: (
                {resource: amount for resource, amount in idle(cluster, name).items() if amount},
                {resource: amount for resource, amount in future_idle(cluster, name).items() if amount},
                cluster.non_zero_used[:, index].tolist(),
                bool(cluster.ready[index]),
                dict(cluster.pod_counts(index)),
            )
            for name in cluster.names()
            if (index := cluster.index(name)) is not None
        }
        return nodes, cluster.total, cluster.total_used, cluster.total_releasing

    def rebuilt(self) -> "World":
        """A table made anew of the same nodes and pods, in the order of their names."""
        cluster = Cluster()
        for name in sorted(self.cluster.names()):
            index = self.cluster.index(name)
            assert index is not None
            known = self.cluster.nodes[index]
            assert known is not None
            cluster.set_node(known)
        for pod in PODS:
            place = self.cluster.allocation(pod)
            if place is not None:
                cluster.add_pod(pod, place.shape, place.node, place.state)
        return World(cluster)


@given(happenings)
def test_the_table_equals_one_made_anew(history: list[Happening]) -> None:
    world = World(Cluster())
    for happening in history:
        happen(world.cluster, happening)
    assert world.observed() == world.rebuilt().observed()


@given(happenings, st.lists(pods_do, max_size=20))
@examples(60)
def test_moves_undone_backwards_restore_everything(history: list[Happening], trial: list[PodDoes]) -> None:
    world = World(Cluster())
    for happening in history:
        happen(world.cluster, happening)
    before = world.observed()
    undos = [do(world.cluster, what) for what in trial]
    for undo in reversed(undos):
        undo()
    assert world.observed() == before
