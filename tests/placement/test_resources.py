"""Amounts by resource: how quantities are read, and each comparison of the specification, with its quirks."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core import Container, PodSpec, ResourceRequirements
from quorate.api.core.scheduling import Pod
from quorate.api.quantity import parse_quantity
from quorate.placement.resources import (
    Missing,
    amounts_held,
    difference,
    exceeded,
    future_idle,
    in_base_units,
    is_empty,
    less_equal,
    less_equal_where,
    maximum,
    minimum,
    minus,
    named,
    plus,
    pod_amounts,
    some_greater_where,
    some_less_equal_where,
    times,
)

GIB = 1 << 30
GPU = "nvidia.com/gpu"


def amounts(text: str) -> dict[str, int]:
    """``cpu=1500m gpu=2``: what a manifest would say, read."""
    pairs = (entry.split("=") for entry in text.split())
    return in_base_units({GPU if name == "gpu" else name: parse_quantity(value) for name, value in pairs})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("cpu=1500m memory=2Gi", {"cpu": 1500, "memory": 2 * GIB}, id="milli-cpus and bytes"),
        pytest.param("pods=3 gpu=2", {"pods": 3, GPU: 2}, id="whole pods and devices"),
        pytest.param("gpu=0", {GPU: 0}, id="named as nothing is still named"),
        pytest.param("cpu=1.00005", {"cpu": 1000}, id="less than a tenth of a milli-cpu is dropped"),
        pytest.param("cpu=1.0001", {"cpu": 1001}, id="a tenth of a milli-cpu is one"),
        pytest.param("cpu=0.00005", {"cpu": 0}, id="next to nothing is nothing"),
        pytest.param("memory=1500m", {"memory": 2}, id="bytes are rounded up"),
        pytest.param("count/jobs.batch=7 requests.cpu=1 limits.memory=1", {}, id="what only quotas count"),
        pytest.param("requests.nvidia.com/gpu=2", {}, id="a quota's name of a device"),
        pytest.param("configmaps=7 storage=1Gi", {}, id="what nodes do not have"),
        pytest.param(
            "ephemeral-storage=1Gi hugepages-2Mi=4Mi attachable-volumes-csi-x=3",
            {"ephemeral-storage": GIB, "hugepages-2Mi": 4 << 20, "attachable-volumes-csi-x": 3},
            id="scalars without a slash",
        ),
    ],
)
def test_quantities_in_base_units(text: str, want: dict[str, int]) -> None:
    assert amounts(text) == want


def container(requests: str, restart: str = "") -> Container:
    quantities = {name: parse_quantity(value) for name, value in (e.split("=") for e in requests.split())}
    return Container(resources=ResourceRequirements(requests=quantities), restart_policy=restart)


def test_a_pod_takes_its_largest_moment_its_overhead_and_one_place() -> None:
    spec = PodSpec(
        containers=(container("cpu=1 memory=1Gi"), container("cpu=500m")),
        init_containers=(container("cpu=2"), container("memory=3Gi")),
        overhead={"cpu": parse_quantity("100m")},
    )
    assert pod_amounts(spec) == {"cpu": 2100, "memory": 3 * GIB, "pods": 1}


def test_a_sidecar_runs_beside_the_containers() -> None:
    spec = PodSpec(
        containers=(container("cpu=1"),),
        init_containers=(container("cpu=500m", restart="Always"), container("cpu=2")),
    )
    assert pod_amounts(spec) == {"cpu": 2500, "pods": 1}


def test_a_container_that_is_resized_in_place_holds_the_larger_amounts() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}, {"name": "b"}]}
    spec["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}
    ]
    statuses = [
        {"name": "b", "allocatedResources": {"cpu": "500m"}, "resources": {"requests": {"cpu": "1"}}},
        {"name": "a", "allocatedResources": {"cpu": "1"}},
    ]
    held = {"containerStatuses": statuses}
    held["initContainerStatuses"] = [{"name": "s", "allocatedResources": {"memory": "2Gi"}}]
    pod = codec.convert(Pod, {"metadata": {}, "spec": spec, "status": held})
    assert amounts_held(pod) == {"cpu": 3000, "memory": 2 * GIB, "pods": 1}


def test_best_effort_asks_for_nothing_but_a_place() -> None:
    assert is_empty(pod_amounts(PodSpec(containers=(container(""),))))
    assert is_empty({"cpu": 0, "pods": 1})
    assert not is_empty({GPU: 1})


@pytest.mark.parametrize(
    ("left", "right", "missing", "want"),
    [
        pytest.param("cpu=1.00005", "cpu=1", Missing.ZERO, True, id="a tenth of a unit is tolerated"),
        pytest.param("cpu=1001m", "cpu=1", Missing.ZERO, False, id="a unit is not"),
        pytest.param("cpu=1 gpu=1", "cpu=2", Missing.ZERO, False, id="a missing scalar is nothing"),
        pytest.param("cpu=1 gpu=0", "cpu=2", Missing.ZERO, True, id="and nothing fits into nothing"),
        pytest.param("cpu=1 gpu=1", "cpu=2", Missing.INFINITY, True, id="or without limit"),
        pytest.param("cpu=1", "cpu=2 gpu=1", Missing.INFINITY, False, id="on the left too"),
        pytest.param("cpu=1", "cpu=2 gpu=1", Missing.ZERO, True, id="not where missing is nothing"),
        pytest.param("memory=1", "cpu=2", Missing.INFINITY, False, id="memory is never without limit"),
        pytest.param("cpu=1", "cpu=2 memory=1", Missing.INFINITY, True, id="not on the left either"),
    ],
)
def test_less_equal(left: str, right: str, missing: Missing, want: bool) -> None:
    assert less_equal(amounts(left), amounts(right), missing) is want


Comparison = Callable[[dict[str, int], dict[str, int], dict[str, int]], bool]


@pytest.mark.parametrize(
    ("compare", "left", "right", "asked", "want"),
    [
        pytest.param(less_equal_where, "cpu=9 memory=1", "cpu=4 memory=2", "memory=1", True, id="only asked"),
        pytest.param(less_equal_where, "cpu=9", "cpu=4", "cpu=1", False, id="asked and more"),
        pytest.param(less_equal_where, "cpu=9", "cpu=4", "cpu=0", True, id="asked for as nothing"),
        pytest.param(less_equal_where, "pods=9", "pods=4", "pods=1", True, id="pods are not compared"),
        pytest.param(less_equal_where, "gpu=1", "cpu=4", "gpu=1", False, id="a missing scalar is nothing"),
        pytest.param(
            some_less_equal_where, "cpu=9 memory=1", "cpu=4 memory=2", "cpu=1 memory=1", True, id="one"
        ),
        pytest.param(some_less_equal_where, "cpu=9", "cpu=4", "cpu=1 memory=1", False, id="both nothing"),
        pytest.param(some_less_equal_where, "cpu=9 pods=1", "cpu=4 pods=2", "cpu=1 pods=1", False, id="pods"),
        pytest.param(some_less_equal_where, "cpu=9", "cpu=4 gpu=1", "gpu=1", True, id="none of some"),
        pytest.param(some_greater_where, "cpu=5 gpu=2", "cpu=5 gpu=1", "cpu=1 gpu=1", True, id="a scalar"),
        pytest.param(some_greater_where, "gpu=2", "cpu=5", "gpu=1", False, id="a scalar that is not named"),
        pytest.param(some_greater_where, "gpu=2", "gpu=0", "gpu=1", True, id="a scalar named as nothing"),
        pytest.param(some_greater_where, "cpu=2", "cpu=0", "cpu=1", False, id="cpu named as nothing"),
        pytest.param(some_greater_where, "cpu=2", "cpu=1", "gpu=1", False, id="not asked for"),
        pytest.param(some_greater_where, "pods=2", "pods=1", "pods=1", False, id="pods never"),
    ],
)
def test_comparisons_of_what_is_asked_for(
    compare: Comparison, left: str, right: str, asked: str, want: bool
) -> None:
    assert compare(amounts(left), amounts(right), amounts(asked)) is want


def test_without_any_scalar_on_the_left_scalars_are_not_compared() -> None:
    assert less_equal_where({"cpu": 1}, {GPU: -1}, {GPU: 1})
    assert not less_equal_where({"cpu": 1, "pods": 1}, {GPU: -1}, {GPU: 1})


def test_minimum_keeps_or_clears_what_the_limit_does_not_name() -> None:
    have, limit = amounts("cpu=8 memory=4Gi gpu=4"), amounts("cpu=4 memory=8Gi")
    assert minimum(have, limit, Missing.INFINITY) == amounts("cpu=4 memory=4Gi gpu=4")
    assert minimum(have, limit, Missing.ZERO) == amounts("cpu=4 memory=4Gi gpu=0")
    assert minimum(have, {}, Missing.INFINITY) == amounts("cpu=0 memory=0 gpu=4")


def test_maximum_is_over_the_resources_of_both() -> None:
    assert maximum(amounts("cpu=1 gpu=4"), amounts("cpu=2 memory=3")) == amounts("cpu=2 gpu=4 memory=3")


def test_exceeded_is_never_below_nothing() -> None:
    left, right = amounts("cpu=4 memory=1Gi gpu=1"), amounts("cpu=1 memory=2Gi")
    assert exceeded(left, right) == amounts("cpu=3 memory=0 gpu=1")
    assert difference(left, right) == (amounts("cpu=3 memory=0 gpu=1"), amounts("cpu=0 memory=1Gi gpu=0"))


def test_future_idle() -> None:
    got = future_idle(amounts("cpu=1 memory=1Gi"), amounts("cpu=2"), amounts("cpu=1 memory=1Gi"))
    assert got == amounts("cpu=2 memory=0")


def test_named_are_those_of_which_there_is_something() -> None:
    assert named(amounts("memory=1 gpu=0 cpu=1m")) == ["cpu", "memory"]


some_amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", GPU]), st.integers(0, 9))


@given(some_amounts, some_amounts)
def test_laws_of_sums_and_differences(left: dict[str, int], right: dict[str, int]) -> None:
    assert less_equal(left, plus(left, right))
    assert less_equal(minus(plus(left, right), right), left)
    assert less_equal(left, plus(right, exceeded(left, right)))
    assert less_equal(left, right) == (not any(exceeded(left, right).values()))
    more, less = difference(left, right)
    assert plus(left, less) == plus(right, more)
    assert times(left, 2) == plus(left, left)
