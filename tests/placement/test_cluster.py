"""The table of nodes: what is free when pods come, move and go, and nodes do."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Uid
from quorate.placement.cluster import Cluster, Hold
from quorate.placement.shapes import LARGEST
from tests.placement.given import node, shape
from tests.placement.happenings import PODS, Happening, PodDoes, do, happen, happenings, pods_do
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
    ("hold", "now", "then"),
    [
        pytest.param(Hold.USED, 3000, 3000, id="used: gone now and then"),
        pytest.param(Hold.RELEASING, 3000, 4000, id="releasing: back when the pod is gone"),
        pytest.param(Hold.PIPELINED, 4000, 3000, id="pipelined: takes nothing from now"),
    ],
)
def test_what_a_hold_takes(hold: Hold, now: int, then: int) -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.put(A, shape("cpu=1"), "n1", hold)
    assert (idle(cluster, "n1")["cpu"], future_idle(cluster, "n1")["cpu"]) == (now, then)
    cluster.take(A)
    assert (idle(cluster, "n1")["cpu"], future_idle(cluster, "n1")["cpu"]) == (4000, 4000)


def test_a_place_tells_how_to_put_the_pod_back() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.put(A, shape("cpu=1"), "n1", Hold.USED)
    assert cluster.move(A, Hold.RELEASING) is Hold.USED
    place = cluster.take(A)
    assert (place.node, place.hold) == ("n1", Hold.RELEASING)
    assert cluster.place(A) is None


def test_a_pod_counts_as_soon_as_its_node_is_known() -> None:
    cluster = Cluster()
    cluster.put(A, shape("cpu=1 gpu=1"), "n1", Hold.USED)
    cluster.set_node(node("n1 cpu=4 gpu=2"))
    assert idle(cluster, "n1") == {"cpu": 3000, "memory": 0, "pods": 109, "nvidia.com/gpu": 1}


def test_pods_outlive_their_node() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.put(A, shape("cpu=1"), "n1", Hold.USED)
    cluster.remove_node("n1")
    assert (cluster.total, cluster.total_used) == ({}, {})
    cluster.put(B, shape("cpu=1"), "n1", Hold.USED)
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
    cluster.put(A, shape("cpu=3"), "n1", Hold.USED)
    cluster.set_node(node("n1 cpu=2"))
    assert idle(cluster, "n1")["cpu"] == -1000


def test_totals_are_of_ready_nodes_cordoned_ones_included() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.set_node(node("n2 cpu=8", unschedulable=True))
    cluster.set_node(node("n3 cpu=16", ready=False))
    cluster.put(A, shape("cpu=1"), "n1", Hold.USED)
    cluster.put(B, shape("cpu=1"), "n3", Hold.RELEASING)
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
    cluster.put(A, shape("cpu=1"), "n1", Hold.USED)
    cluster.put(B, shape("cpu=3"), "n2", Hold.RELEASING)
    assert (cluster.total, cluster.total_used) == ({"cpu": 4000, "pods": 110}, {"cpu": 1000, "pods": 1})
    assert cluster.total_releasing == {}
    cluster.take(B)
    assert (cluster.total, cluster.total_used) == ({"cpu": 6000, "pods": 220}, {"cpu": 1000, "pods": 1})


def test_logs_tell_what_to_look_at_again() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.set_node(node("n2 cpu=4"))
    loads, facts = cluster.loads.end, cluster.facts.end
    cluster.put(A, shape("cpu=1"), "n2", Hold.USED)
    cluster.put(B, shape("cpu=1"), "n2", Hold.USED)
    cluster.set_node(node("n1 cpu=5"))
    assert (cluster.loads.since(loads), cluster.facts.since(facts)) == ([0, 1], [])
    cluster.set_node(node("n1 cpu=5", labels={"disk": "ssd"}))
    assert cluster.facts.since(facts) == [0]


def test_a_reader_far_behind_looks_at_everything() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    start = cluster.loads.end
    for _ in range(9_000):
        cluster.put(A, shape("cpu=1"), "n1", Hold.USED)
        cluster.take(A)
    assert cluster.loads.since(start) is None
    assert cluster.loads.since(cluster.loads.end) == []


def test_amounts_beyond_counting_do_not_wrap_around() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4 memory=1000Ei"))
    huge = shape("memory=1000Ei")
    for number in range(500):
        cluster.put(Uid(str(number)), huge, "n1", Hold.USED)
    assert idle(cluster, "n1")["memory"] == LARGEST - 500 * (LARGEST + 1)


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
                cluster.scored[:, index].tolist(),
                bool(cluster.ready[index]),
                dict(cluster.residents(index)),
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
            place = self.cluster.place(pod)
            if place is not None:
                cluster.put(pod, place.shape, place.node, place.hold)
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
