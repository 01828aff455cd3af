"""Which node a pod gets, and why it gets none."""

from collections.abc import Iterable

import pytest

from quorate.api.meta import Uid
from quorate.api.scheduler_plugins import BinpackArguments, NodeOrderArguments
from quorate.placement.cluster import Cluster, Hold
from quorate.placement.rankings import Rankings
from quorate.placement.scoring import Scoring
from quorate.placement.stance import Moment
from quorate.placement.verdicts import Barred, Choice, NoRoom, Short
from tests.placement.bars import Bar, Bars
from tests.placement.given import node, shape

SPREAD = Scoring(NodeOrderArguments(), None)
PACK = Scoring(None, BinpackArguments())
NAMES_ONLY = Scoring(None, None)
NOW, LATER = Moment.NOW, Moment.LATER


def cluster_of(*lines: str) -> Cluster:
    """``n1 cpu=4 | cpu=1 | releasing cpu=1``: a node and the pods there."""
    cluster = Cluster()
    for line in lines:
        has, *pods = line.split("|")
        cluster.set_node(node(has.strip()))
        for number, pod in enumerate(pods):
            hold, amounts = Hold.USED, pod.strip()
            for one in (Hold.RELEASING, Hold.PIPELINED):
                if amounts.startswith(one.name.lower()):
                    hold, amounts = one, amounts.removeprefix(one.name.lower()).strip()
            cluster.put(Uid(f"{line}/{number}"), shape(amounts), has.split()[0], hold)
    return cluster


def rankings(cluster: Cluster, **bars: Bar) -> Rankings:
    return Rankings(cluster, Bars(cluster, bars), SPREAD)


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
    assert Rankings(cluster, Bars(cluster), scoring).best(shape("cpu=1")) == want


def test_a_nominated_node_is_taken_when_the_pod_can_be_there() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4 | releasing cpu=4", "n3 cpu=4 | cpu=4", "n4 cpu=4")
    found = rankings(cluster, n4=Bar("away"))
    assert found.best(shape("cpu=1"), nominated="n2") == Choice("n2", LATER)
    for name in ("n3", "n4", "gone"):
        assert found.best(shape("cpu=1"), nominated=name) == Choice("n1", NOW)


def test_constraints_bar_nodes_for_now_or_for_good() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4", "n3 cpu=1")
    found = rankings(cluster, n1=Bar("port", lasts=False), n2=Bar("taint"))
    assert found.best(shape("cpu=1")) == Choice("n3", NOW)
    assert found.best(shape("cpu=2")) == Choice("n1", LATER)
    assert [found.candidate(shape("cpu=2"), name) for name in ("n1", "n2", "n3", "n4")] == [
        LATER, None, None, None,
    ]  # fmt: skip


def test_a_node_that_gave_away_more_than_it_has_offers_nothing() -> None:
    cluster = cluster_of("n1 cpu=4 gpu=1 | gpu=1")
    cluster.set_node(node("n1 cpu=4"))
    found = rankings(cluster)
    verdict = found.best(shape("cpu=1"))
    assert isinstance(verdict, NoRoom)
    assert (verdict.overdrawn, verdict.nearest) == (1, "")
    assert list(found.in_score_order(shape("cpu=1"))) == []


def test_preferences_are_compared_among_those_with_room() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4 | cpu=1", "n3 cpu=4 | cpu=4")
    bars = Bars(cluster, node_affinity={"n2": 1, "n3": 100})
    assert Rankings(cluster, bars, SPREAD).best(shape("cpu=1")) == Choice("n2", NOW)
    assert Rankings(cluster, bars, PACK).best(shape("cpu=1")) == Choice("n2", NOW)
    little = Scoring(NodeOrderArguments(node_affinity=0), None)
    assert Rankings(cluster, bars, little).best(shape("cpu=1")) == Choice("n1", NOW)


def no_room(cluster: Cluster, wanted: str, **bars: Bar) -> NoRoom:
    verdict = rankings(cluster, **bars).best(shape(wanted))
    assert isinstance(verdict, NoRoom), f"there is room: {verdict}"
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
    assert no_room(cluster, "cpu=1 memory=1Gi", n4=taint, n5=taint, n6=port) == NoRoom(
        nodes=6,
        barred=(Barred("taint", 2), Barred("port", 1)),
        short=(
            Short("cpu", nodes=3, need=1000, by=500, at_most=4000),
            Short("memory", nodes=1, need=1 << 30, by=0, at_most=8 << 30),
        ),
        overdrawn=0,
        nearest="n3",
        possible=4,
    )


@pytest.mark.parametrize(
    ("wanted", "never"),
    [
        pytest.param("cpu=4 memory=1Gi", False, id="a node is large enough"),
        pytest.param("cpu=4 memory=8Gi", True, id="one has the cpu, the other the memory"),
        pytest.param("gpu=1", True, id="no node has any"),
        pytest.param("cpu=9", True, id="the only node that has so much is barred for good"),
    ],
)
def test_never_is_told_from_not_now(wanted: str, never: bool) -> None:
    cluster = cluster_of("n1 cpu=4 memory=1Gi | cpu=4", "n2 cpu=1 memory=8Gi | cpu=1", "n3 cpu=16 memory=1Gi")
    assert no_room(cluster, wanted, n3=Bar("taint")).never is never


def test_no_nodes_at_all() -> None:
    verdict = no_room(Cluster(), "cpu=1")
    assert verdict == NoRoom(nodes=0, barred=(), short=(), overdrawn=0, nearest="", possible=0)


def test_a_refusal_follows_the_cluster() -> None:
    cluster = cluster_of("n1 cpu=4 | cpu=4")
    found, wanted = rankings(cluster), shape("cpu=1")
    assert found.no_room(wanted).short[0].by == 1000
    assert found.no_room(wanted) is found.no_room(wanted)
    cluster.take(Uid("n1 cpu=4 | cpu=4/0"))
    cluster.put(Uid("a"), shape("cpu=3500m"), "n1", Hold.USED)
    assert found.no_room(wanted).short[0].by == 500


def test_where_to_evict() -> None:
    cluster = cluster_of("n1 cpu=4 | cpu=4", "n2 cpu=4 | cpu=2", "n3 cpu=4 | cpu=2", "n4 cpu=9", "n5 cpu=9")
    found = rankings(cluster, n4=Bar("taint"), n5=Bar("port", lifted_by_eviction=True))
    assert list(found.in_score_order(shape("cpu=1"))) == ["n5", "n2", "n3", "n1"]


def freed(text: str) -> dict[str, int]:
    return dict(shape(text).amounts)


def test_room_when_others_are_gone() -> None:
    found = rankings(cluster_of("n1 cpu=4 | cpu=3 | releasing cpu=1", "n2 cpu=4"))
    wanted = shape("cpu=2")
    assert not found.has_room(wanted, "n1")
    assert found.has_room(wanted, "n1", freed("cpu=1"))
    assert not found.has_room(shape("gpu=1"), "n1", freed("cpu=9"))
    assert found.has_room(wanted, "n2")
    assert not found.has_room(wanted, "gone")


def moves(cluster: Cluster) -> Iterable[None]:
    """One thing after the other happens to ``n1 cpu=4``, ``n2 cpu=4``."""
    cluster.put(Uid("a"), shape("cpu=1"), "n1", Hold.USED)
    yield
    cluster.put(Uid("b"), shape("cpu=2"), "n2", Hold.USED)
    yield
    cluster.remove_node("n1")
    yield
    cluster.set_node(node("n1 cpu=8"))
    yield
    cluster.set_node(node("n0 cpu=8 gpu=1"))
    yield
    cluster.take(Uid("b"))
    yield


def test_a_ranking_follows_the_cluster() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4")
    found, wanted = rankings(cluster), shape("cpu=1")
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
    found, wanted = rankings(cluster), shape("cpu=1")
    for _ in range(2):
        assert found.best(wanted) == Choice("n2", NOW)
        cluster.set_node(node("n3 cpu=9"))
        cluster.remove_node("n3")


def test_the_chosen_node_may_be_gone_when_the_next_one_is_asked_for() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=8 memory=9Gi")
    found, wanted = rankings(cluster), shape("cpu=3")
    assert found.best(wanted) == Choice("n2", NOW)
    cluster.remove_node("n2")
    assert found.best(wanted, nominated="n2") == Choice("n1", NOW)
    cluster.set_node(node("n2 cpu=9 memory=9Gi"))
    assert found.best(wanted, nominated="gone") == Choice("n2", NOW)


def test_a_chosen_node_is_not_taken_for_another_in_its_place() -> None:
    """The last one goes away, and the order of names is mended, between one question and the next."""
    cluster = cluster_of("n1 cpu=2", "n2 cpu=8")
    found, wanted = rankings(cluster), shape("cpu=3")
    assert found.best(wanted) == Choice("n2", NOW)
    cluster.remove_node("n2")
    assert isinstance(found.best(wanted, nominated="n1"), NoRoom)


def test_many_shapes_are_ranked_in_turn() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4 | cpu=1")
    found = rankings(cluster)
    wanted = [shape(f"cpu={milli}m") for milli in range(1, 300)]
    for _ in range(2):
        assert {found.best(one) for one in wanted} == {Choice("n1", NOW)}
