"""Which node a pod gets, and why it gets none."""

from collections.abc import Iterable

import pytest

from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import BinpackArguments, NodeOrderArguments
from quorate.placement.cluster import AllocationState, Cluster
from quorate.placement.diagnosis import Diagnosis, FilteredNodes, InsufficientResource
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.scoring import Scoring
from tests.placement.builders import node, shape
from tests.placement.fixed_constraints import Bar, Bars

SPREAD = Scoring(NodeOrderArguments(), None)
PACK = Scoring(None, BinpackArguments())
NAMES_ONLY = Scoring(None, None)
NOW, LATER = Capacity.IDLE, Capacity.FUTURE_IDLE


def cluster_of(*lines: str) -> Cluster:
    """``n1 cpu=4 | cpu=1 | releasing cpu=1``: a node and the pods there."""
    cluster = Cluster()
    for line in lines:
        has, *pods = line.split("|")
        cluster.set_node(node(has.strip()))
        for number, pod in enumerate(pods):
            state, amounts = AllocationState.USED, pod.strip()
            for one in (AllocationState.RELEASING, AllocationState.PIPELINED):
                if amounts.startswith(one.name.lower()):
                    state, amounts = one, amounts.removeprefix(one.name.lower()).strip()
            cluster.add_pod(Uid(f"{line}/{number}"), shape(amounts), has.split()[0], state)
    return cluster


def node_finder(cluster: Cluster, **bars: Bar) -> NodeFinder:
    return NodeFinder(cluster, Bars(cluster, bars), SPREAD)


@pytest.mark.parametrize(
    ("nodes", "scoring", "want"),
    [
        pytest.param(["n1 cpu=4 | cpu=2", "n2 cpu=4"], SPREAD, Choice("n2", NOW), id="the emptier node"),
        pytest.param(["n1 cpu=4 | cpu=2", "n2 cpu=4"], PACK, Choice("n1", NOW), id="or the fuller one"),
        pytest.param(["n2 cpu=4", "n10 cpu=4"], SPREAD, Choice("n10", NOW), id="of equals the first by name"),
        pytest.param(["n2 cpu=9", "n1 cpu=4"], NAMES_ONLY, Choice("n1", NOW), id="without scores, names"),
        pytest.param(
            ["n1 cpu=1 | releasing cpu=1", "n2 cpu=1 | cpu=1"], SPREAD, Choice("n1", LATER), id="room later"
        ),
        pytest.param(
            ["n1 cpu=9 | releasing cpu=9", "n2 cpu=1"], SPREAD, Choice("n2", NOW), id="room now beats a score"
        ),
        pytest.param(
            ["n1 cpu=2 | pipelined cpu=2", "n2 cpu=9 | cpu=8"],
            SPREAD,
            Choice("n2", NOW),
            id="idle room that was promised is none",
        ),
        pytest.param(
            ["n1 cpu=2 | releasing cpu=2 | pipelined cpu=1"],
            SPREAD,
            Choice("n1", LATER),
            id="a part promised",
        ),
    ],
)
def test_the_best_node(nodes: list[str], scoring: Scoring, want: Choice) -> None:
    cluster = cluster_of(*nodes)
    assert NodeFinder(cluster, Bars(cluster), scoring).best(shape("cpu=1")) == want


def test_a_nominated_node_is_taken_when_the_pod_can_be_there() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4 | releasing cpu=4", "n3 cpu=4 | cpu=4", "n4 cpu=4")
    found = node_finder(cluster, n4=Bar("away"))
    assert found.best(shape("cpu=1"), nominated="n2") == Choice("n2", LATER)
    for name in ("n3", "n4", "gone"):
        assert found.best(shape("cpu=1"), nominated=name) == Choice("n1", NOW)


def test_constraints_bar_nodes_for_now_or_for_good() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4", "n3 cpu=1")
    found = node_finder(cluster, n1=Bar("port", lasts=False), n2=Bar("taint"))
    assert found.best(shape("cpu=1")) == Choice("n3", NOW)
    assert found.best(shape("cpu=2")) == Choice("n1", LATER)
    assert [found.capacity_on(shape("cpu=2"), name) for name in ("n1", "n2", "n3", "n4")] == [
        LATER, None, None, None,
    ]  # fmt: skip


def test_a_node_that_gave_away_more_than_it_has_offers_nothing() -> None:
    cluster = cluster_of("n1 cpu=4 gpu=1 | gpu=1")
    cluster.set_node(node("n1 cpu=4"))
    found = node_finder(cluster)
    verdict = found.best(shape("cpu=1"))
    assert isinstance(verdict, Diagnosis)
    assert (verdict.overcommitted, verdict.nearest_node) == (1, "")
    assert list(found.nodes_by_score(shape("cpu=1"))) == []


def test_preferences_are_compared_among_those_with_room() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4 | cpu=1", "n3 cpu=4 | cpu=4")
    bars = Bars(cluster, node_affinity={"n2": 1, "n3": 100})
    assert NodeFinder(cluster, bars, SPREAD).best(shape("cpu=1")) == Choice("n2", NOW)
    assert NodeFinder(cluster, bars, PACK).best(shape("cpu=1")) == Choice("n2", NOW)
    little = Scoring(NodeOrderArguments(node_affinity=0), None)
    assert NodeFinder(cluster, bars, little).best(shape("cpu=1")) == Choice("n1", NOW)


def diagnosis(cluster: Cluster, wanted: str, **bars: Bar) -> Diagnosis:
    verdict = node_finder(cluster, **bars).best(shape(wanted))
    assert isinstance(verdict, Diagnosis), f"there is room: {verdict}"
    return verdict


def test_a_refusal_counts_nodes_by_reason_and_names_the_nearest_node() -> None:
    cluster = cluster_of(
        "n1 cpu=4 memory=8Gi | cpu=4",
        "n2 cpu=4 memory=8Gi | cpu=3500m memory=8Gi",
        "n3 cpu=2 memory=8Gi | cpu=1500m",
        "n4 cpu=9 memory=9Gi",
        "n5 cpu=9 memory=9Gi",
        "n6 cpu=9 memory=9Gi",
    )
    taint, port = Bar("taint"), Bar("port", lifted_by_eviction=True)
    assert diagnosis(cluster, "cpu=1 memory=1Gi", n4=taint, n5=taint, n6=port) == Diagnosis(
        nodes=6,
        filtered=(FilteredNodes("taint", 2), FilteredNodes("port", 1)),
        insufficient=(
            InsufficientResource("cpu", nodes=3, need=1000, by=500, at_most=4000),
            InsufficientResource("memory", nodes=1, need=1 << 30, by=0, at_most=8 << 30),
        ),
        overcommitted=0,
        nearest_node="n3",
        feasible_when_empty=4,
    )


@pytest.mark.parametrize(
    ("wanted", "never_fits"),
    [
        pytest.param("cpu=4 memory=1Gi", False, id="a node is large enough"),
        pytest.param("cpu=4 memory=8Gi", True, id="one has the cpu, the other the memory"),
        pytest.param("gpu=1", True, id="no node has any"),
        pytest.param("cpu=9", True, id="the only node that has so much is barred for good"),
    ],
)
def test_never_is_told_from_not_now(wanted: str, never_fits: bool) -> None:
    cluster = cluster_of("n1 cpu=4 memory=1Gi | cpu=4", "n2 cpu=1 memory=8Gi | cpu=1", "n3 cpu=16 memory=1Gi")
    assert diagnosis(cluster, wanted, n3=Bar("taint")).never_fits is never_fits


def test_no_nodes_at_all() -> None:
    verdict = diagnosis(Cluster(), "cpu=1")
    assert verdict == Diagnosis(
        nodes=0, filtered=(), insufficient=(), overcommitted=0, nearest_node="", feasible_when_empty=0
    )


def test_a_refusal_follows_the_cluster() -> None:
    cluster = cluster_of("n1 cpu=4 | cpu=4")
    found, wanted = node_finder(cluster), shape("cpu=1")
    assert found.diagnosis(wanted).insufficient[0].by == 1000
    assert found.diagnosis(wanted) is found.diagnosis(wanted)
    cluster.remove_pod(Uid("n1 cpu=4 | cpu=4/0"))
    cluster.add_pod(Uid("a"), shape("cpu=3500m"), "n1", AllocationState.USED)
    assert found.diagnosis(wanted).insufficient[0].by == 500


def test_where_to_evict() -> None:
    cluster = cluster_of("n1 cpu=4 | cpu=4", "n2 cpu=4 | cpu=2", "n3 cpu=4 | cpu=2", "n4 cpu=9", "n5 cpu=9")
    found = node_finder(cluster, n4=Bar("taint"), n5=Bar("port", lifted_by_eviction=True))
    assert list(found.nodes_by_score(shape("cpu=1"))) == ["n5", "n2", "n3", "n1"]


def freed(text: str) -> dict[str, int]:
    return dict(shape(text).amounts)


def test_room_when_others_are_gone() -> None:
    found = node_finder(cluster_of("n1 cpu=4 | cpu=3 | releasing cpu=1", "n2 cpu=4"))
    wanted = shape("cpu=2")
    assert not found.fits(wanted, "n1")
    assert found.fits(wanted, "n1", freed("cpu=1"))
    assert not found.fits(shape("gpu=1"), "n1", freed("cpu=9"))
    assert found.fits(wanted, "n2")
    assert not found.fits(wanted, "gone")


def moves(cluster: Cluster) -> Iterable[None]:
    """One thing after the other happens to ``n1 cpu=4``, ``n2 cpu=4``."""
    cluster.add_pod(Uid("a"), shape("cpu=1"), "n1", AllocationState.USED)
    yield
    cluster.add_pod(Uid("b"), shape("cpu=2"), "n2", AllocationState.USED)
    yield
    cluster.remove_node("n1")
    yield
    cluster.set_node(node("n1 cpu=8"))
    yield
    cluster.set_node(node("n0 cpu=8 gpu=1"))
    yield
    cluster.remove_pod(Uid("b"))
    yield


def test_a_ranking_follows_the_cluster() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4")
    found, wanted = node_finder(cluster), shape("cpu=1")
    bests = [found.best(wanted), *(found.best(wanted) for _ in moves(cluster))]
    assert [best.node for best in bests if isinstance(best, Choice)] == [
        "n1",
        "n2",
        "n1",
        "n2",
        "n1",
        "n0",
        "n0",
    ]


def test_a_node_that_comes_and_goes_between_questions_changes_nothing() -> None:
    cluster = cluster_of("n1 cpu=4 | cpu=4", "n2 cpu=4")
    found, wanted = node_finder(cluster), shape("cpu=1")
    for _ in range(2):
        assert found.best(wanted) == Choice("n2", NOW)
        cluster.set_node(node("n3 cpu=9"))
        cluster.remove_node("n3")


def test_the_chosen_node_may_be_gone_when_the_next_one_is_asked_for() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=8 memory=9Gi")
    found, wanted = node_finder(cluster), shape("cpu=3")
    assert found.best(wanted) == Choice("n2", NOW)
    cluster.remove_node("n2")
    assert found.best(wanted, nominated="n2") == Choice("n1", NOW)
    cluster.set_node(node("n2 cpu=9 memory=9Gi"))
    assert found.best(wanted, nominated="gone") == Choice("n2", NOW)


def test_a_chosen_node_is_not_taken_for_another_in_its_place() -> None:
    """The last one goes away, and the order of names is mended, between one question and the next."""
    cluster = cluster_of("n1 cpu=2", "n2 cpu=8")
    found, wanted = node_finder(cluster), shape("cpu=3")
    assert found.best(wanted) == Choice("n2", NOW)
    cluster.remove_node("n2")
    assert isinstance(found.best(wanted, nominated="n1"), Diagnosis)


def test_many_shapes_are_ranked_in_turn() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4 | cpu=1")
    found = node_finder(cluster)
    wanted = [shape(f"cpu={milli}m") for milli in range(1, 300)]
    for _ in range(2):
        assert {found.best(one) for one in wanted} == {Choice("n1", NOW)}
