"""Amounts of nodes as pods are added, updated and removed, and nodes are set and removed."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Uid
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.audit import audit_cluster
from quorate.placement.cluster.nodes import ABSENT
from quorate.placement.cluster.occupants import AllocationState, HeldPlace
from quorate.placement.shapes import MAX_AMOUNT
from tests.placement.builders import GPU, node, shape
from tests.placement.cluster_changes import (
    OWNERS,
    PLACES,
    PODS,
    Change,
    Hold,
    PodChange,
    apply_change,
    change_pod,
    histories,
    hold,
    holds,
    pod_changes,
)
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
    ("state", "idle_cpu", "future_idle_cpu"),
    [
        pytest.param(AllocationState.USED, 3000, 3000, id="a used request is in neither"),
        pytest.param(AllocationState.RELEASING, 3000, 4000, id="a releasing request is in future idle"),
        pytest.param(AllocationState.PIPELINED, 4000, 3000, id="a pipelined request is in idle"),
    ],
)
def test_idle_amounts_by_allocation_state(
    state: AllocationState, idle_cpu: int, future_idle_cpu: int
) -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=1"), "n1", state)
    assert (idle(cluster, "n1")["cpu"], future_idle(cluster, "n1")["cpu"]) == (idle_cpu, future_idle_cpu)
    cluster.remove_pod(A)
    assert (idle(cluster, "n1")["cpu"], future_idle(cluster, "n1")["cpu"]) == (4000, 4000)


def test_removing_a_pod_returns_its_allocation() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.USED)
    assert cluster.update_pod(A, AllocationState.RELEASING) is AllocationState.USED
    allocation = cluster.remove_pod(A)
    assert (allocation.node, allocation.state) == ("n1", AllocationState.RELEASING)
    assert cluster.occupants.get(A) is None


def test_a_pod_of_an_unknown_node_counts_once_the_node_is_set() -> None:
    cluster = Cluster()
    cluster.add_pod(A, shape("cpu=1 gpu=1"), "n1", AllocationState.USED)
    cluster.set_node(node("n1 cpu=4 gpu=2"))
    assert idle(cluster, "n1") == {"cpu": 3000, "memory": 0, "pods": 109, "nvidia.com/gpu": 1, ABSENT: 0}


def test_pods_remain_when_their_node_is_removed() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.USED)
    cluster.remove_node("n1")
    assert (cluster.total, cluster.total_used) == ({}, {})
    cluster.add_pod(B, shape("cpu=1"), "n1", AllocationState.USED)
    cluster.set_node(node("n1 cpu=4"))
    assert idle(cluster, "n1")["cpu"] == 2000


def test_a_vacant_index_is_assigned_again() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.set_node(node("n2 cpu=8"))
    cluster.remove_node("n1")
    cluster.set_node(node("n3 cpu=2"))
    assert (cluster.index("n1"), cluster.index("n2"), cluster.index("n3")) == (None, 1, 0)
    assert idle(cluster, "n3")["cpu"] == 2000


def test_allocatable_may_become_less_than_used() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=3"), "n1", AllocationState.USED)
    cluster.set_node(node("n1 cpu=2"))
    assert idle(cluster, "n1")["cpu"] == -1000


def test_totals_cover_ready_nodes_including_cordoned_ones() -> None:
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


def test_pods_that_exceed_a_node_use_nothing_of_the_others() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.set_node(node("n2 cpu=4 gpu=2"))
    for number in range(3):
        cluster.add_pod(Uid(f"gpu/{number}"), shape("cpu=1 gpu=1"), "n2", AllocationState.USED)
    cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.USED)
    cluster.add_pod(B, shape("cpu=3 example.com/tpu=1"), "n2", AllocationState.RELEASING)
    assert cluster.total == {"cpu": 8000, "pods": 220, GPU: 2}
    assert cluster.total_used == {"cpu": 5000, "pods": 5, GPU: 2}
    assert cluster.total_releasing == {"cpu": 1000, "pods": 1}  # of 3 cpu: the other pods use 3 of 4
    cluster.remove_pod(B)
    assert cluster.total_used == {"cpu": 4000, "pods": 4, GPU: 2}
    cluster.update_pod(Uid("gpu/0"), AllocationState.RELEASING)
    assert cluster.total_releasing == {"cpu": 1000, "pods": 1}  # its device was lost
    cluster.update_pod(Uid("gpu/1"), AllocationState.RELEASING)
    assert cluster.total_releasing == {"cpu": 2000, "pods": 2, GPU: 1}


def test_change_logs_contain_the_changed_indexes() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.set_node(node("n2 cpu=4"))
    usage, nodes = cluster.usage_changes.end, cluster.node_changes.end
    cluster.add_pod(A, shape("cpu=1"), "n2", AllocationState.USED)
    cluster.add_pod(B, shape("cpu=1"), "n2", AllocationState.USED)
    cluster.set_node(node("n1 cpu=5"))
    assert (cluster.usage_changes.since(usage), cluster.node_changes.since(nodes)) == ([0, 1], [])
    cluster.set_node(node("n1 cpu=5", labels={"disk": "ssd"}))
    assert cluster.node_changes.since(nodes) == [0]


@pytest.mark.large
def test_a_reader_behind_the_retained_log_updates_everything() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    start = cluster.usage_changes.end
    for _ in range(9_000):
        cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.USED)
        cluster.remove_pod(A)
    assert cluster.usage_changes.since(start) is None
    assert cluster.usage_changes.since(cluster.usage_changes.end) == []


def test_excessive_amounts_do_not_wrap_around() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4 memory=1000Ei"))
    huge = shape("memory=1000Ei")
    for number in range(500):
        cluster.add_pod(Uid(str(number)), huge, "n1", AllocationState.USED)
    assert idle(cluster, "n1")["memory"] == MAX_AMOUNT - 500 * (MAX_AMOUNT + 1)


def test_a_bound_pod_that_asks_for_more_than_everything_fills_every_node() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=8"))
    cluster.set_node(node("n2 cpu=1E400"))
    assert idle(cluster, "n2")["cpu"] == MAX_AMOUNT
    for name, pod in (("n1", A), ("n2", B)):
        cluster.add_pod(pod, shape("cpu=1E400"), name, AllocationState.USED)
        assert idle(cluster, name)["cpu"] < 0
    assert cluster.total_used["cpu"] == cluster.total["cpu"]


@pytest.mark.parametrize("state", list(AllocationState))
@pytest.mark.parametrize("known_first", [True, False])
def test_no_number_of_huge_pods_makes_a_node_look_free(state: AllocationState, known_first: bool) -> None:
    cluster = Cluster()
    other, huge = node("n1 cpu=1E400 memory=8Gi"), shape("cpu=1E400 gpu=1")
    if known_first:
        cluster.set_node(other)
    cluster.add_pod(A, shape("memory=1Gi"), "n1", AllocationState.USED)
    for number in range(2_000):  # more than 1024 wrap around 64 bits
        cluster.add_pod(Uid(str(number)), huge, "n1", state)
    if not known_first:
        cluster.set_node(other)
    if state is not AllocationState.PIPELINED:
        assert idle(cluster, "n1")["cpu"] < 0
        assert cluster.total_used["cpu"] == cluster.total["cpu"] == MAX_AMOUNT
    if state is not AllocationState.RELEASING:
        assert future_idle(cluster, "n1")["cpu"] < 0
    for number in range(2_000):
        cluster.remove_pod(Uid(str(number)))
    assert idle(cluster, "n1")["memory"] == 7 * 2**30
    assert cluster.total_used == {"memory": 2**30, "pods": 1}


# Properties


@dataclass(frozen=True)
class World:
    """A cluster; its observable state must not depend on the order of changes."""

    cluster: Cluster

    def observed(self) -> object:
        """Return everything except indexes and the order of resources."""
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
        rooms = {
            owner: (room.pods, room.amounts)
            for owner in OWNERS
            if owner is not None and (room := cluster.room_of(owner)).pods
        }
        return nodes, rooms, cluster.total, cluster.total_used, cluster.total_releasing

    def rebuilt(self) -> "World":
        """Return a new cluster of the same nodes and pods, added in order of name."""
        cluster = Cluster()
        for name in sorted(self.cluster.names()):
            index = self.cluster.index(name)
            assert index is not None
            node = self.cluster.nodes[index]
            assert node is not None
            cluster.set_node(node)
        for pod in PODS:
            allocation = self.cluster.occupants.get(pod)
            if allocation is not None:
                cluster.add_pod(pod, allocation.shape, allocation.node, allocation.state)
        for place in PLACES:
            held = self.cluster.occupants.get(place)
            if isinstance(held, HeldPlace):
                cluster.hold(place, held.shape, held.node, held.pods, held.owner)
        return World(cluster)


@given(histories)
def test_a_changed_cluster_equals_a_new_one(history: list[Change]) -> None:
    world = World(Cluster())
    for change in history:
        apply_change(world.cluster, change)
    assert world.observed() == world.rebuilt().observed()
    assert not any(audit_cluster(world.cluster))


@given(histories, st.lists(pod_changes | holds, max_size=20))
@examples(60)
def test_undoing_changes_in_reverse_order_restores_the_state(
    history: list[Change], trial: list[PodChange | Hold]
) -> None:
    world = World(Cluster())
    for change in history:
        apply_change(world.cluster, change)
    before = world.observed()
    undos = [
        hold(world.cluster, change) if isinstance(change, Hold) else change_pod(world.cluster, change)
        for change in trial
    ]
    for undo in reversed(undos):
        undo()
    assert world.observed() == before


@given(histories)
@examples(60)
def test_a_held_place_has_one_owner(history: list[Change]) -> None:
    """What it is held for last: no other owner has a part of it, and all it had is gone with the owner."""
    cluster = Cluster()
    for change in history:
        apply_change(cluster, change)
    last = {change.place: change for change in history if isinstance(change, Hold)}
    for owner in ("first", "second"):
        places = [place for place, change in last.items() if change.owner == owner and change.pods]
        assert sorted(map(str, cluster.room_of(owner).places)) == sorted(places)
        cluster.release_all(owner)
        assert not any(cluster.occupants.get(place) for place in places)
    assert not any(audit_cluster(cluster))


@given(histories, histories)
@examples(60)
def test_what_changes_during_a_recount_is_no_difference(
    history: list[Change], meanwhile: list[Change]
) -> None:
    cluster = Cluster()
    for change in history:
        apply_change(cluster, change)
    recount = audit_cluster(cluster, slice_size=1)
    for change in meanwhile:
        assert not next(recount, ())
        apply_change(cluster, change)
    assert not any(recount)


@pytest.mark.parametrize("drift", ["used", "count", "room"])
def test_the_recount_finds_sums_that_differ(drift: str) -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=1"), "n1", AllocationState.RELEASING)
    cluster.hold("place", shape("cpu=1"), "n1", 2, "owner")
    assert not any(audit_cluster(cluster))
    match drift:
        case "used":
            cluster.used[0, 0] += 1
        case "count":
            cluster.occupants[A].node = "n2"
        case "room":
            cluster.room_of("owner").count(shape("cpu=1"), 1)
    assert any(audit_cluster(cluster))


def test_many_resources_of_a_node_copy_the_matrices_once() -> None:
    many = " ".join(f"example.com/r{number}=1" for number in range(500))
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    before = cluster.rows_version
    cluster.set_node(node(f"n2 cpu=4 {many}"))
    assert cluster.rows_version == before + 1
    assert idle(cluster, "n2")["example.com/r7"] == 1


def test_resources_that_no_node_has_take_no_rows() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    rows = len(cluster.resources)
    for number in range(100):
        cluster.request(shape(" ".join(f"example.com/r{number}-{at}=1" for at in range(50))))
    cluster.add_pod(A, shape("cpu=1 example.com/a=2 example.com/b=3"), "n1", AllocationState.USED)
    assert len(cluster.resources) == rows
    assert (cluster.request(shape("example.com/c=1")) > cluster.allocatable.max(axis=1)).any()
    assert idle(cluster, "n1") == {"cpu": 3000, "memory": 0, "pods": 109, ABSENT: -3}


def test_a_resource_of_a_later_node_counts_for_the_pods_that_requested_it() -> None:
    cluster = Cluster()
    cluster.set_node(node("n1 cpu=4"))
    cluster.add_pod(A, shape("cpu=1 gpu=2 example.com/other=5"), "n1", AllocationState.USED)
    cluster.set_node(node("n2 cpu=4 gpu=8"))
    assert idle(cluster, "n1") == {"cpu": 3000, "memory": 0, "pods": 109, "nvidia.com/gpu": -2, ABSENT: -5}
    cluster.set_node(node("n1 cpu=4 gpu=2"))
    cluster.set_node(node("n3 example.com/other=5"))
    assert idle(cluster, "n1")[ABSENT] == 0
    cluster.remove_pod(A)
    assert cluster.total_used == {}
    assert (cluster.used == 0).all()
