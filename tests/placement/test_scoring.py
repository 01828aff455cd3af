"""What nodes score: the specification's examples, and exactness wherever integers can be."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import BinpackArguments, NodeOrderArguments
from quorate.placement.cluster import AllocationState, Cluster
from quorate.placement.framework import RawScores
from quorate.placement.scoring import (
    SCORE_UNIT,
    ResourceColumns,
    Scoring,
    balanced,
    binpack_points,
    half_difference,
    least_requested,
    most_requested,
    normalized_score,
    quotient,
    resource_score,
)
from quorate.placement.shapes import MAX_AMOUNT, Shape
from quorate.placement.vectors import Mask, Vector
from tests.placement.builders import node, shape

GPU = "nvidia.com/gpu"


def world(*lines: str) -> Cluster:
    """Nodes and what is used of them: ``n1 cpu=4 memory=8Gi - cpu=1 memory=2Gi``."""
    cluster = Cluster()
    for line in lines:
        has, _, used = line.partition(" - ")
        cluster.set_node(node(has))
        if used:
            cluster.add_pod(Uid(line), shape(used), has.split()[0], AllocationState.USED)
    return cluster


def load(cluster: Cluster) -> ResourceColumns:
    count = sum(1 for _ in cluster.names())
    return ResourceColumns(
        *(m[:, :count] for m in (cluster.allocatable, cluster.used, cluster.pipelined, cluster.non_zero_used))
    )


def wanted(cluster: Cluster, pod: Shape) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return load(cluster).non_zero_request + np.array(pod.non_zero_request, np.int64)[:, None]


def rows(cluster: Cluster) -> dict[str, int]:
    return {resource: cluster.row(resource) for resource in cluster.resources}


def packed(weight: int = 1, cpu: int = 1, memory: int = 1, gpu: int = 0) -> BinpackArguments:
    return BinpackArguments(weight, {"cpu": cpu, "memory": memory, GPU: gpu})


def test_the_parts_of_nodeorder_that_look_at_room() -> None:
    cluster, pod = world("n1 cpu=4 memory=8Gi - cpu=1 memory=2Gi"), shape("cpu=1 memory=1Gi")
    has = load(cluster).allocatable[:2]
    assert least_requested(wanted(cluster, pod), has).tolist() == [56]  # the mean of 50 and 62
    assert most_requested(wanted(cluster, pod), has).tolist() == [43]  # of 50 and 37
    assert balanced(np.array([[2000], [3 << 30]]), has).tolist() == [93]  # 100 (1 - (0.5 - 0.375) / 2)


@pytest.mark.parametrize(
    ("line", "pod", "least", "most"),
    [
        pytest.param("n1 cpu=1 memory=1000Mi", "", 85, 15, id="a pod that names nothing counts"),
        pytest.param("n1 cpu=1 memory=1Gi", "cpu=2 memory=2Gi", 0, 100, id="more than there is is all of it"),
        pytest.param("n1 cpu=4", "cpu=1 memory=1Gi", 75, 25, id="what a node has nothing of is not judged"),
        pytest.param("n1", "cpu=1", 0, 0, id="a node that has nothing"),
        pytest.param(
            "n1 cpu=1 memory=1000Mi - pods=1", "", 70, 30, id="those who are there name nothing either"
        ),
    ],
)
def test_least_and_most_requested(line: str, pod: str, least: int, most: int) -> None:
    cluster = world(line)
    has = load(cluster).allocatable[:2]
    assert least_requested(wanted(cluster, shape(pod)), has).tolist() == [least]
    assert most_requested(wanted(cluster, shape(pod)), has).tolist() == [most]


@pytest.mark.parametrize(
    ("pod", "binpack", "want"),
    [
        pytest.param("cpu=1 memory=2Gi", packed(), [75.0, 25.0, 0.0], id="the example"),
        pytest.param("cpu=1 memory=2Gi", packed(weight=10), [750.0, 250.0, 0.0], id="a weight of the score"),
        pytest.param("cpu=1 memory=4Gi", packed(cpu=3), [81.25, 31.25, 0.0], id="cpu counts three times"),
        pytest.param("cpu=1 gpu=1", packed(cpu=0), [0.0, 0.0, 0.0], id="a resource without weight"),
        pytest.param("cpu=0 memory=2Gi", packed(), [75.0, 25.0, 25.0], id="what is not requested"),
        pytest.param("gpu=1", packed(gpu=2), [0.0, 0.0, 0.0], id="what no node has"),
        pytest.param("", packed(), [0.0, 0.0, 0.0], id="nothing requested"),
    ],
)
def test_binpack(pod: str, binpack: BinpackArguments, want: list[float]) -> None:
    cluster = world(
        "n1 cpu=4 memory=8Gi - cpu=2 memory=4Gi", "n2 cpu=4 memory=8Gi", "n3 cpu=4 memory=8Gi - cpu=3500m"
    )
    cluster.row(GPU)
    points = binpack_points(binpack, shape(pod), rows(cluster), load(cluster))
    assert [point / SCORE_UNIT for point in points.tolist()] == want


def test_binpack_counts_devices_when_told_to() -> None:
    cluster = world("n1 cpu=4 memory=8Gi gpu=8 - gpu=5", "n2 cpu=4 memory=8Gi")
    points = binpack_points(packed(gpu=2), shape("cpu=1 gpu=1"), rows(cluster), load(cluster))
    assert points.tolist() == [(25 + 2 * 75) * SCORE_UNIT // 3, 25 * SCORE_UNIT // 3]


def test_parts_are_weighted_and_added() -> None:
    cluster, pod = world("n1 cpu=4 memory=8Gi - cpu=1 memory=2Gi"), shape("cpu=1 memory=1Gi")
    order = NodeOrderArguments(least_requested=3, most_requested=5, balanced_resource=7)
    got = resource_score(Scoring(order, packed(weight=2)), pod, rows(cluster), load(cluster))
    assert got.tolist() == [(3 * 56 + 5 * 43 + 7 * 93) * SCORE_UNIT + 2 * 43_750_000]


def test_balance_counts_who_was_promised_a_place_and_nobody_who_names_nothing() -> None:
    cluster = world("n1 cpu=4 memory=8Gi - pods=1")
    cluster.add_pod(Uid("promised"), shape("cpu=2"), "n1", AllocationState.PIPELINED)
    order = NodeOrderArguments(least_requested=0)
    assert resource_score(Scoring(order, None), shape("cpu=1"), rows(cluster), load(cluster)).tolist() == [
        62 * SCORE_UNIT
    ]
    assert resource_score(Scoring(order, None), shape(""), rows(cluster), load(cluster)).tolist() == [0]


@dataclass
class Measured:
    crowd: Vector

    def measure(self, among: Mask) -> Vector:
        return self.crowd

    def at(self, indexes: Vector) -> "Measured":
        return Measured(self.crowd[indexes])


@pytest.mark.parametrize(
    ("kind", "measure", "want"),
    [
        pytest.param("node_affinity", [10, 3, 0], [200, 60, 0], id="node affinity: of the largest"),
        pytest.param("node_affinity", [0, 0, 0], [0, 0, 0], id="node affinity: nobody matches"),
        pytest.param("taints", [0, 1, 3], [300, 201, 0], id="taints: none is best, cut before it is turned"),
        pytest.param("taints", [0, 0, 0], [300, 300, 300], id="taints: nobody has any"),
        pytest.param("pod_affinity", [-5, 0, 5], [0, 100, 200], id="pod affinity: between the extremes"),
        pytest.param("pod_affinity", [4, 4, 4], [0, 0, 0], id="pod affinity: all the same"),
        pytest.param("spread", [0, 2, 4], [200, 100, 0], id="spread: the fewer the better"),
        pytest.param("spread", [2, -1, 4], [200, 0, 100], id="spread: outside of all domains"),
        pytest.param("spread", [0, 0, 0], [200, 200, 200], id="spread: nobody there yet"),
        pytest.param("images", [0, 50, 100], [0, 50, 100], id="images: points already"),
    ],
)
def test_preferences_by_comparing_the_nodes_of_a_choice(
    kind: str, measure: list[int], want: list[int]
) -> None:
    among = np.ones(4, np.bool_)
    among[3] = False  # its measure is far out, but the choice is not between it and the others
    whole = np.array([*measure, 1000])
    given: dict[str, Any] = {kind: Measured(whole) if kind == "spread" else whole}
    points = normalized_score(NodeOrderArguments(), RawScores(**given), among)[:3]
    assert points.tolist() == [point * SCORE_UNIT for point in want]


wholes = st.integers(1, MAX_AMOUNT) | st.integers(1, 64)


@st.composite
def shares(draw: st.DrawFn) -> tuple[int, int]:
    """A part and the whole, of any size."""
    whole = draw(wholes)
    return draw(st.integers(0, whole) | st.sampled_from([0, whole // 2, whole])), whole


@given(shares(), st.sampled_from([100, 100 * SCORE_UNIT]))
def test_quotients_are_exact(pair: tuple[int, int], scale: int) -> None:
    part, whole = pair
    got = quotient(np.array([part]), np.array([whole]), scale)
    assert got.tolist() == [part * scale // whole]


@given(shares(), shares())
def test_balance_is_exact(cpu: tuple[int, int], memory: tuple[int, int]) -> None:
    arrays = [np.array([number]) for number in (*cpu, *memory)]
    exact = 50 * abs(Fraction(*cpu) - Fraction(*memory))
    assert half_difference(*arrays).tolist() == [ceil(exact)]
    taken, has = np.array([[cpu[0]], [memory[0]]]), np.array([[cpu[1]], [memory[1]]])
    assert balanced(taken, has).tolist() == [floor(100 - exact)]


@given(st.integers(2**50, MAX_AMOUNT), st.integers(1, 100), st.integers(0, 3))
def test_balance_is_exact_where_floats_are_equal(whole: int, missing: int, less: int) -> None:
    """All but a few of very many, and all but as few of a few less."""
    cpu, memory = (whole - missing, whole), (whole - missing - less, whole - less)
    arrays = [np.array([number]) for number in (*cpu, *memory)]
    assert half_difference(*arrays).tolist() == [ceil(50 * abs(Fraction(*cpu) - Fraction(*memory)))]
