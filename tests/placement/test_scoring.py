"""Node scores: the examples of the specification, and exactness for all integers."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import BinpackArguments, NodeOrderArguments
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.framework import RawScores
from quorate.placement.scoring import (
    SCORE_UNIT,
    ResourceColumns,
    Scoring,
    balanced_resource,
    binpack_scores,
    half_difference,
    least_requested,
    most_requested,
    normalized_scores,
    quotient,
    resource_scores,
)
from quorate.placement.shapes import MAX_AMOUNT, Shape, Shapes
from quorate.placement.vectors import Mask, Vector
from tests.placement.builders import node, quantities, shape

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def world(*lines: str) -> Cluster:
    """Parse ``n1 cpu=4 memory=8Gi - cpu=1 memory=2Gi``, a node and its used amounts, per line."""
    cluster = Cluster()
    for line in lines:
        described, _, used = line.partition(" - ")
        cluster.set_node(node(described))
        if used:
            cluster.add_pod(Uid(line), shape(used), described.split()[0], AllocationState.USED)
    return cluster


def columns(cluster: Cluster) -> ResourceColumns:
    count = sum(1 for _ in cluster.names())
    return ResourceColumns(
        *(m[:, :count] for m in (cluster.allocatable, cluster.used, cluster.pipelined, cluster.non_zero_used))
    )


def requested(cluster: Cluster, pod: Shape) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return columns(cluster).non_zero_used + np.array(pod.non_zero_request, np.int64)[:, None]


def rows(cluster: Cluster) -> dict[str, int]:
    return {resource: cluster.row(resource) for resource in cluster.resources}


def packed(weight: int = 1, cpu: int = 1, memory: int = 1, gpu: int = 0) -> BinpackArguments:
    return BinpackArguments(weight, {"cpu": cpu, "memory": memory, GPU: gpu})


def test_resource_scores_of_nodeorder() -> None:
    cluster, pod = world("n1 cpu=4 memory=8Gi - cpu=1 memory=2Gi"), shape("cpu=1 memory=1Gi")
    allocatable = columns(cluster).allocatable[:2]
    assert least_requested(requested(cluster, pod), allocatable).tolist() == [56]  # the mean of 50 and 62
    assert most_requested(requested(cluster, pod), allocatable).tolist() == [43]  # of 50 and 37
    assert balanced_resource(np.array([[2000], [3 << 30]]), allocatable).tolist() == [
        93
    ]  # 100 (1 - (0.5 - 0.375) / 2)


@pytest.mark.parametrize(
    ("line", "pod", "least", "most"),
    [
        pytest.param("n1 cpu=1 memory=1000Mi", "", 85, 15, id="a pod without requests has default ones"),
        pytest.param(
            "n1 cpu=1 memory=1Gi",
            "cpu=2 memory=2Gi",
            0,
            100,
            id="a request above allocatable counts as all of it",
        ),
        pytest.param(
            "n1 cpu=4", "cpu=1 memory=1Gi", 75, 25, id="a resource that the node lacks is not scored"
        ),
        pytest.param("n1", "cpu=1", 0, 0, id="a node without resources"),
        pytest.param(
            "n1 cpu=1 memory=1000Mi - pods=1", "", 70, 30, id="placed pods without requests have default ones"
        ),
    ],
)
def test_least_and_most_requested(line: str, pod: str, least: int, most: int) -> None:
    cluster = world(line)
    allocatable = columns(cluster).allocatable[:2]
    assert least_requested(requested(cluster, shape(pod)), allocatable).tolist() == [least]
    assert most_requested(requested(cluster, shape(pod)), allocatable).tolist() == [most]


@pytest.mark.parametrize(
    ("pod", "binpack", "want"),
    [
        pytest.param("cpu=1 memory=2Gi", packed(), [75.0, 25.0, 0.0], id="the example of the specification"),
        pytest.param("cpu=1 memory=2Gi", packed(weight=10), [750.0, 250.0, 0.0], id="a plugin weight"),
        pytest.param("cpu=1 memory=4Gi", packed(cpu=3), [81.25, 31.25, 0.0], id="a resource weight"),
        pytest.param("cpu=1 gpu=1", packed(cpu=0), [0.0, 0.0, 0.0], id="a resource without weight"),
        pytest.param("cpu=0 memory=2Gi", packed(), [75.0, 25.0, 25.0], id="a resource that is not requested"),
        pytest.param("gpu=1", packed(gpu=2), [0.0, 0.0, 0.0], id="a resource that no node has"),
        pytest.param("", packed(), [0.0, 0.0, 0.0], id="no request"),
    ],
)
def test_binpack(pod: str, binpack: BinpackArguments, want: list[float]) -> None:
    cluster = world(
        "n1 cpu=4 memory=8Gi - cpu=2 memory=4Gi", "n2 cpu=4 memory=8Gi", "n3 cpu=4 memory=8Gi - cpu=3500m"
    )
    cluster.row(GPU)
    scores = binpack_scores(binpack, shape(pod), rows(cluster), columns(cluster))
    assert [score / SCORE_UNIT for score in scores.tolist()] == want


def test_binpack_scores_devices_that_have_a_weight() -> None:
    cluster = world("n1 cpu=4 memory=8Gi gpu=8 - gpu=5", "n2 cpu=4 memory=8Gi")
    scores = binpack_scores(packed(gpu=2), shape("cpu=1 gpu=1"), rows(cluster), columns(cluster))
    assert scores.tolist() == [(25 + 2 * 75) * SCORE_UNIT // 3, 25 * SCORE_UNIT // 3]


def test_plugin_scores_are_weighted_and_added() -> None:
    cluster, pod = world("n1 cpu=4 memory=8Gi - cpu=1 memory=2Gi"), shape("cpu=1 memory=1Gi")
    order = NodeOrderArguments(least_requested=3, most_requested=5, balanced_resource=7)
    got = resource_scores(Scoring(order, packed(weight=2)), pod, rows(cluster), columns(cluster))
    assert got.tolist() == [(3 * 56 + 5 * 43 + 7 * 93) * SCORE_UNIT + 2 * 43_750_000]


def test_scores_include_pipelined_pods() -> None:
    cluster = world("n1 cpu=4 memory=8Gi - pods=1")
    cluster.add_pod(Uid("pipelined"), shape("cpu=2"), "n1", AllocationState.PIPELINED)
    wanted = requested(cluster, shape("cpu=1"))
    assert least_requested(wanted, columns(cluster).allocatable[:2]).tolist() == [(22 + 92) // 2]
    order = NodeOrderArguments(least_requested=0)
    assert resource_scores(
        Scoring(order, None), shape("cpu=1"), rows(cluster), columns(cluster)
    ).tolist() == [62 * SCORE_UNIT]
    assert resource_scores(Scoring(order, None), shape(""), rows(cluster), columns(cluster)).tolist() == [0]


@pytest.mark.parametrize(
    ("line", "pod", "points"),
    [
        pytest.param("n1 cpu=4 memory=8Gi gpu=4", "cpu=1 memory=2Gi gpu=1", 100, id="equal shares"),
        pytest.param("n1 cpu=4 memory=8Gi gpu=2", "cpu=1 gpu=2", 57, id="a quarter, nothing and all"),
        pytest.param("n1 cpu=4 memory=8Gi gpu=4 - gpu=1", "cpu=1 gpu=1", 79, id="devices in use count"),
        pytest.param("n1 cpu=4 memory=8Gi gpu=2 - gpu=2", "cpu=1", 87, id="not for a pod without devices"),
        pytest.param("n1 cpu=4 memory=8Gi", "cpu=1 gpu=1", 87, id="not on a node without devices"),
    ],
)
def test_balanced_resource_of_pods_with_devices(line: str, pod: str, points: int) -> None:
    """Volcano scores 100 (1 - the standard deviation of the shares of cpu, memory and GPUs)."""
    cluster, order = world(line), NodeOrderArguments(least_requested=0)
    got = resource_scores(Scoring(order, None), shape(pod), rows(cluster), columns(cluster))
    assert got.tolist() == [points * SCORE_UNIT]


@pytest.mark.parametrize(
    ("spec", "scored"),
    [
        pytest.param({"containers": ["cpu=1", "cpu=500m"]}, (1500, 400), id="two containers without memory"),
        pytest.param({"containers": ["cpu=1 memory=1Gi", ""]}, (1100, 1224), id="one without any request"),
        pytest.param(
            {"containers": ["cpu=1"], "initContainers": ["cpu=2", "memory=1Gi"]},
            (2000, 1024),
            id="init containers run one by one",
        ),
        pytest.param(
            {"containers": [""], "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
            (2000, 1024),
            id="a pod with requests of its own has no defaults",
        ),
        pytest.param({"containers": [""], "overhead": {"cpu": "1"}}, (1100, 200), id="with overhead"),
        pytest.param({"containers": ["cpu=0 memory=0"]}, (0, 0), id="a request of nothing is a request"),
    ],
)
def test_each_container_without_a_request_has_the_default_in_scores(
    spec: Json, scored: tuple[int, int]
) -> None:
    """In milli-cpus and MiB."""
    for kind in spec.keys() & {"containers", "initContainers"}:
        spec = spec | {
            kind: [
                {"name": f"{kind}-{at}", "resources": {"requests": quantities(text)}}
                for at, text in enumerate(spec[kind])
            ]
        }
    cpu, memory = Shapes().of(codec.convert(Pod, {"metadata": {"name": "a"}, "spec": spec})).non_zero_request
    assert (cpu, memory // 2**20) == scored


@dataclass
class FixedScorer:
    scores: Vector

    def score(self, among: Mask) -> Vector:
        return self.scores

    def at(self, indexes: Vector) -> "FixedScorer":
        return FixedScorer(self.scores[indexes])


@pytest.mark.parametrize(
    ("kind", "raw", "want"),
    [
        pytest.param("node_affinity", [10, 3, 0], [200, 60, 0], id="node affinity relative to the largest"),
        pytest.param("node_affinity", [0, 0, 0], [0, 0, 0], id="node affinity that no node matches"),
        pytest.param("taints", [0, 1, 3], [300, 201, 0], id="taints, truncated before they are inverted"),
        pytest.param("taints", [0, 0, 0], [300, 300, 300], id="taints that no node has"),
        pytest.param("pod_affinity", [-5, 0, 5], [0, 100, 200], id="pod affinity relative to the range"),
        pytest.param("pod_affinity", [4, 4, 4], [0, 0, 0], id="pod affinity with equal scores"),
        pytest.param("spread", [0, 2, 4], [200, 100, 0], id="spread, where fewer pods are better"),
        pytest.param("spread", [2, -1, 4], [200, 0, 100], id="spread outside all domains"),
        pytest.param("spread", [0, 0, 0], [200, 200, 200], id="spread without pods"),
        pytest.param("images", [0, 50, 100], [0, 50, 100], id="images, which are not normalized"),
    ],
)
def test_scores_are_normalized_over_the_nodes_of_the_choice(
    kind: str, raw: list[int], want: list[int]
) -> None:
    among = np.ones(4, np.bool_)
    among[3] = False  # its raw score is extreme, but it is not among the nodes of the choice
    whole = np.array([*raw, 1000])
    given: dict[str, Any] = {kind: FixedScorer(whole) if kind == "spread" else whole}
    scores = normalized_scores(NodeOrderArguments(), RawScores(**given), among)[:3]
    assert scores.tolist() == [score * SCORE_UNIT for score in want]


wholes = st.integers(1, MAX_AMOUNT) | st.integers(1, 64)


@st.composite
def shares(draw: st.DrawFn) -> tuple[int, int]:
    """Draw a part and the whole, of any size."""
    whole = draw(wholes)
    return draw(st.integers(0, whole) | st.sampled_from([0, whole // 2, whole])), whole


@example((29, 100), 100)  # 28.999999999999996 in floats
@given(shares(), st.sampled_from([100, 100 * SCORE_UNIT]))
def test_quotients_are_exact(pair: tuple[int, int], scale: int) -> None:
    part, whole = pair
    got = quotient(np.array([part]), np.array([whole]), scale)
    assert got.tolist() == [part * scale // whole]


@given(shares(), shares())
def test_balanced_resource_is_exact(cpu: tuple[int, int], memory: tuple[int, int]) -> None:
    arrays = [np.array([number]) for number in (*cpu, *memory)]
    exact = 50 * abs(Fraction(*cpu) - Fraction(*memory))
    assert half_difference(*arrays).tolist() == [ceil(exact)]
    requested, allocatable = np.array([[cpu[0]], [memory[0]]]), np.array([[cpu[1]], [memory[1]]])
    assert balanced_resource(requested, allocatable).tolist() == [floor(100 - exact)]


@given(st.integers(2**50, MAX_AMOUNT), st.integers(1, 100), st.integers(0, 3))
def test_balanced_resource_is_exact_where_floats_are_equal(whole: int, missing: int, less: int) -> None:
    """Two shares that are nearly one, of nearly equal large amounts."""
    cpu, memory = (whole - missing, whole), (whole - missing - less, whole - less)
    arrays = [np.array([number]) for number in (*cpu, *memory)]
    assert half_difference(*arrays).tolist() == [ceil(50 * abs(Fraction(*cpu) - Fraction(*memory)))]
