"""The node chosen for a pod, and the diagnosis if there is none."""

from collections.abc import Iterable

import pytest

from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import BinpackArguments, NodeOrderArguments
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.diagnosis import Diagnosis, FilteredNodes, InsufficientResource
from quorate.placement.failures import FilterFailure, Remedy
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.scoring import Scoring
from tests.placement.builders import GPU, node, shape
from tests.placement.fixed_constraints import UNRESOLVABLE, FixedConstraints

SPREAD = Scoring(NodeOrderArguments(), None)
PACK = Scoring(None, BinpackArguments())
NAMES_ONLY = Scoring(None, None)
IDLE, FUTURE_IDLE = Capacity.IDLE, Capacity.FUTURE_IDLE
RESOLVABLE = FilterFailure(Remedy.PREEMPTION, "port in use")


def cluster_of(*lines: str) -> Cluster:
    """Parse ``n1 cpu=4 | cpu=1 | releasing cpu=1``, a node and its pods, per line."""
    cluster = Cluster()
    for line in lines:
        described, *pods = line.split("|")
        cluster.set_node(node(described.strip()))
        for number, pod in enumerate(pods):
            state, amounts = AllocationState.USED, pod.strip()
            for one in (AllocationState.RELEASING, AllocationState.PIPELINED):
                if amounts.startswith(one.name.lower()):
                    state, amounts = one, amounts.removeprefix(one.name.lower()).strip()
            cluster.add_pod(Uid(f"{line}/{number}"), shape(amounts), described.split()[0], state)
    return cluster


def finder(cluster: Cluster, **rejected: FilterFailure) -> NodeFinder:
    return NodeFinder(cluster, FixedConstraints(cluster, rejected), SPREAD)


@pytest.mark.parametrize(
    ("nodes", "scoring", "want"),
    [
        pytest.param(["n1 cpu=4 | cpu=2", "n2 cpu=4"], SPREAD, Choice("n2", IDLE), id="the least used node"),
        pytest.param(
            ["n1 cpu=4 | cpu=2", "n2 cpu=4"],
            PACK,
            Choice("n1", IDLE),
            id="or the most used one, with binpack",
        ),
        pytest.param(
            ["n2 cpu=4", "n10 cpu=4"], SPREAD, Choice("n10", IDLE), id="the first by name of equal scores"
        ),
        pytest.param(
            ["n2 cpu=9", "n1 cpu=4"],
            NAMES_ONLY,
            Choice("n1", IDLE),
            id="without score plugins the first by name",
        ),
        pytest.param(
            ["n1 cpu=1 | releasing cpu=1", "n2 cpu=1 | cpu=1"],
            SPREAD,
            Choice("n1", FUTURE_IDLE),
            id="future idle capacity",
        ),
        pytest.param(
            ["n1 cpu=9 | releasing cpu=9", "n2 cpu=1"],
            SPREAD,
            Choice("n2", IDLE),
            id="idle capacity comes before a higher score",
        ),
        pytest.param(
            ["n1 cpu=2 | pipelined cpu=2", "n2 cpu=9 | cpu=8"],
            SPREAD,
            Choice("n2", IDLE),
            id="idle capacity taken by a pipelined pod",
        ),
        pytest.param(
            ["n1 cpu=2 | releasing cpu=2 | pipelined cpu=1"],
            SPREAD,
            Choice("n1", FUTURE_IDLE),
            id="releasing capacity partly taken by a pipelined pod",
        ),
    ],
)
def test_best(nodes: list[str], scoring: Scoring, want: Choice) -> None:
    cluster = cluster_of(*nodes)
    assert NodeFinder(cluster, FixedConstraints(cluster), scoring).best(shape("cpu=1")) == want


def test_a_feasible_nominated_node_is_chosen() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4 | releasing cpu=4", "n3 cpu=4 | cpu=4", "n4 cpu=4")
    found = finder(cluster, n4=UNRESOLVABLE)
    assert found.best(shape("cpu=1"), nominated="n2") == Choice("n2", FUTURE_IDLE)
    for name in ("n3", "n4", "gone"):
        assert found.best(shape("cpu=1"), nominated=name) == Choice("n1", IDLE)


def test_a_filter_rejects_nodes_at_idle_or_at_any_capacity() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4", "n3 cpu=1")
    rejected = {"n1": RESOLVABLE, "n2": UNRESOLVABLE}
    constraints = FixedConstraints(cluster, rejected, until_released=[RESOLVABLE])
    found = NodeFinder(cluster, constraints, SPREAD)
    assert found.best(shape("cpu=1")) == Choice("n3", IDLE)
    assert found.best(shape("cpu=2")) == Choice("n1", FUTURE_IDLE)
    assert [found.capacity_on(shape("cpu=2"), name) for name in ("n1", "n2", "n3", "n4")] == [
        FUTURE_IDLE, None, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("left", ["n1 cpu=4 gpu=1", "n1 cpu=4"], ids=["one device", "the last device"])
def test_a_node_that_lost_a_device_takes_pods_that_request_none(left: str) -> None:
    cluster = cluster_of("n1 cpu=4 gpu=2 | gpu=1 | gpu=1")
    cluster.set_node(node(left))
    found = finder(cluster)
    assert found.best(shape("cpu=4")) == Choice("n1", IDLE)
    refusal = found.best(shape("cpu=1 gpu=1"))
    assert isinstance(refusal, Diagnosis)
    at_most = int("gpu" in left)
    assert refusal.insufficient == (InsufficientResource(GPU, 1, 1, at_most, overcommitted=1),)
    assert list(found.nodes_by_score(shape("gpu=1"))) == ["n1"]  # a pod with a device can be preempted
    assert found.fits(shape("gpu=1"), "n1", {GPU: 2}) is (at_most == 1)


def test_scores_are_normalized_over_the_candidates() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4 | cpu=1", "n3 cpu=4 | cpu=4")
    constraints = FixedConstraints(cluster, node_affinity={"n2": 1, "n3": 100})
    assert NodeFinder(cluster, constraints, SPREAD).best(shape("cpu=1")) == Choice("n2", IDLE)
    assert NodeFinder(cluster, constraints, PACK).best(shape("cpu=1")) == Choice("n2", IDLE)
    without_affinity = Scoring(NodeOrderArguments(node_affinity=0), None)
    assert NodeFinder(cluster, constraints, without_affinity).best(shape("cpu=1")) == Choice("n1", IDLE)


def diagnosis(cluster: Cluster, request: str, **rejected: FilterFailure) -> Diagnosis:
    found = finder(cluster, **rejected).best(shape(request))
    assert isinstance(found, Diagnosis), f"the pod fits: {found}"
    return found


def test_a_diagnosis_counts_nodes_by_reason() -> None:
    cluster = cluster_of(
        "n1 cpu=4 memory=8Gi | cpu=4",
        "n2 cpu=4 memory=8Gi | cpu=3500m memory=8Gi",
        "n3 cpu=2 memory=8Gi | cpu=1500m",
        "n4 cpu=9 memory=9Gi",
        "n5 cpu=9 memory=9Gi",
        "n6 cpu=9 memory=9Gi",
    )
    assert diagnosis(
        cluster, "cpu=1 memory=1Gi", n4=UNRESOLVABLE, n5=UNRESOLVABLE, n6=RESOLVABLE
    ) == Diagnosis(
        nodes=6,
        filtered=(FilteredNodes("rejected for good", 2), FilteredNodes("port in use", 1)),
        insufficient=(
            InsufficientResource("cpu", nodes=3, need=1000, at_most=4000),
            InsufficientResource("memory", nodes=1, need=1 << 30, at_most=8 << 30),
        ),
        feasible_when_empty=4,
    )


@pytest.mark.parametrize(
    ("amounts", "never_fits"),
    [
        pytest.param("cpu=4 memory=1Gi", False, id="a node is large enough"),
        pytest.param("cpu=4 memory=8Gi", True, id="one node has the cpu, the other the memory"),
        pytest.param("gpu=1", True, id="no node has the resource"),
        pytest.param("cpu=9", True, id="a filter rejects the only node that is large enough"),
    ],
)
def test_a_diagnosis_distinguishes_never_from_not_now(amounts: str, never_fits: bool) -> None:
    cluster = cluster_of("n1 cpu=4 memory=1Gi | cpu=4", "n2 cpu=1 memory=8Gi | cpu=1", "n3 cpu=16 memory=1Gi")
    assert diagnosis(cluster, amounts, n3=UNRESOLVABLE).never_fits is never_fits


def test_diagnosis_without_nodes() -> None:
    assert diagnosis(Cluster(), "cpu=1") == Diagnosis(
        nodes=0, filtered=(), insufficient=(), feasible_when_empty=0
    )


def test_a_diagnosis_is_cached_until_the_cluster_changes() -> None:
    cluster = cluster_of("n1 cpu=4 | cpu=4")
    found, wanted = finder(cluster), shape("cpu=1")
    assert found.diagnose(wanted).insufficient[0].nodes == 1
    assert found.diagnose(wanted) is found.diagnose(wanted)
    cluster.remove_pod(Uid("n1 cpu=4 | cpu=4/0"))
    cluster.add_pod(Uid("a"), shape("cpu=2"), "n1", AllocationState.USED)
    assert not found.diagnose(wanted).insufficient


def test_nodes_to_preempt_on_by_score() -> None:
    cluster = cluster_of("n1 cpu=4 | cpu=4", "n2 cpu=4 | cpu=2", "n3 cpu=4 | cpu=2", "n4 cpu=9", "n5 cpu=9")
    found = finder(cluster, n4=UNRESOLVABLE, n5=RESOLVABLE)
    assert list(found.nodes_by_score(shape("cpu=1"))) == ["n5", "n2", "n3", "n1"]


def freed(text: str) -> dict[str, int]:
    return dict(shape(text).amounts)


def test_a_pod_fits_with_the_amounts_that_preemption_frees() -> None:
    found = finder(cluster_of("n1 cpu=4 | cpu=3 | releasing cpu=1", "n2 cpu=4"))
    wanted = shape("cpu=2")
    assert not found.fits(wanted, "n1")
    assert found.fits(wanted, "n1", freed("cpu=1"))
    assert not found.fits(shape("gpu=1"), "n1", freed("cpu=9"))
    assert found.fits(wanted, "n2")
    assert not found.fits(wanted, "gone")


def changes(cluster: Cluster) -> Iterable[None]:
    """Apply one change after the other to ``n1 cpu=4``, ``n2 cpu=4``."""
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


def test_the_best_node_follows_changes_of_the_cluster() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4")
    found, wanted = finder(cluster), shape("cpu=1")
    bests = [found.best(wanted), *(found.best(wanted) for _ in changes(cluster))]
    assert [best.node for best in bests if isinstance(best, Choice)] == [
        "n1",
        "n2",
        "n1",
        "n2",
        "n1",
        "n0",
        "n0",
    ]


def test_a_node_added_and_removed_between_queries_changes_nothing() -> None:
    cluster = cluster_of("n1 cpu=4 | cpu=4", "n2 cpu=4")
    found, wanted = finder(cluster), shape("cpu=1")
    for _ in range(2):
        assert found.best(wanted) == Choice("n2", IDLE)
        cluster.set_node(node("n3 cpu=9"))
        cluster.remove_node("n3")


def test_the_chosen_node_may_be_removed_before_the_next_query() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=8 memory=9Gi")
    found, wanted = finder(cluster), shape("cpu=3")
    assert found.best(wanted) == Choice("n2", IDLE)
    cluster.remove_node("n2")
    assert found.best(wanted, nominated="n2") == Choice("n1", IDLE)
    cluster.set_node(node("n2 cpu=9 memory=9Gi"))
    assert found.best(wanted, nominated="gone") == Choice("n2", IDLE)


def test_a_removed_chosen_node_is_not_confused_with_another_at_its_position() -> None:
    """The last node by name is removed and the order of names updated between two queries."""
    cluster = cluster_of("n1 cpu=2", "n2 cpu=8")
    found, wanted = finder(cluster), shape("cpu=3")
    assert found.best(wanted) == Choice("n2", IDLE)
    cluster.remove_node("n2")
    assert isinstance(found.best(wanted, nominated="n1"), Diagnosis)


def test_more_shapes_than_rankings_are_retained() -> None:
    cluster = cluster_of("n1 cpu=4", "n2 cpu=4 | cpu=1")
    found = finder(cluster)
    wanted = [shape(f"cpu={milli}m") for milli in range(1, 300)]
    for _ in range(2):
        assert {found.best(one) for one in wanted} == {Choice("n1", IDLE)}
