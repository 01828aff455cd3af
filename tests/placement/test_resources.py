"""Resource amounts: conversion of quantities, and each of Volcano's comparisons with its special cases."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core import Container, PodSpec, ResourceRequirements
from quorate.api.core.pod import Pod
from quorate.api.quantity import parse_quantity
from quorate.placement.resources import (
    DimensionDefault,
    greater_partly,
    in_base_units,
    is_empty,
    less_equal,
    less_equal_partly,
    maximum,
    minimum,
    minus,
    placed_pod_amounts,
    plus,
    pod_amounts,
    resource_names,
)

GIB = 1 << 30
GPU = "nvidia.com/gpu"


def amounts(text: str) -> dict[str, int]:
    """Parse ``cpu=1500m gpu=2``, quantities as a manifest has them."""
    pairs = (entry.split("=") for entry in text.split())
    return in_base_units({GPU if name == "gpu" else name: parse_quantity(value) for name, value in pairs})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("cpu=1500m memory=2Gi", {"cpu": 1500, "memory": 2 * GIB}, id="milli-cpus and bytes"),
        pytest.param("pods=3 gpu=2", {"pods": 3, GPU: 2}, id="whole pods and devices"),
        pytest.param("gpu=0", {GPU: 0}, id="a zero amount is kept"),
        pytest.param("cpu=1.00005", {"cpu": 1000}, id="less than a tenth of a milli-cpu is dropped"),
        pytest.param("cpu=1.0001", {"cpu": 1001}, id="a tenth of a milli-cpu is one"),
        pytest.param("cpu=0.00005", {"cpu": 0}, id="a negligible amount is zero"),
        pytest.param("memory=1500m", {"memory": 2}, id="bytes are rounded up"),
        pytest.param(
            "count/jobs.batch=7 requests.cpu=1 limits.memory=1", {}, id="resources that only quotas count"
        ),
        pytest.param("requests.nvidia.com/gpu=2", {}, id="a device under its quota name"),
        pytest.param("configmaps=7 storage=1Gi", {}, id="resources that nodes do not have"),
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


def test_pod_amounts_are_the_effective_request_plus_overhead_and_one_pod() -> None:
    spec = PodSpec(
        containers=(container("cpu=1 memory=1Gi"), container("cpu=500m")),
        init_containers=(container("cpu=2"), container("memory=3Gi")),
        overhead={"cpu": parse_quantity("100m")},
    )
    assert pod_amounts(spec) == {"cpu": 2100, "memory": 3 * GIB, "pods": 1}


def test_a_sidecar_adds_to_the_containers() -> None:
    spec = PodSpec(
        containers=(container("cpu=1"),),
        init_containers=(container("cpu=500m", restart="Always"), container("cpu=2")),
    )
    assert pod_amounts(spec) == {"cpu": 2500, "pods": 1}


def test_a_container_resized_in_place_takes_the_larger_amounts() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}, {"name": "b"}]}
    spec["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}
    ]
    statuses = [
        {"name": "b", "allocatedResources": {"cpu": "500m"}, "resources": {"requests": {"cpu": "1"}}},
        {"name": "a", "allocatedResources": {"cpu": "9"}},  # counts beside actual amounts only
    ]
    held = {"containerStatuses": statuses}
    held["initContainerStatuses"] = [{"name": "s", "allocatedResources": {"memory": "2Gi"}, "resources": {}}]
    pod = codec.convert(Pod, {"metadata": {}, "spec": spec, "status": held})
    assert placed_pod_amounts(pod) == {"cpu": 3000, "memory": 2 * GIB, "pods": 1}


def test_amounts_of_a_best_effort_pod_are_empty() -> None:
    assert is_empty(pod_amounts(PodSpec(containers=(container(""),))))
    assert is_empty({"cpu": 0, "pods": 1})
    assert not is_empty({GPU: 1})


@pytest.mark.parametrize(
    ("left", "right", "default", "want"),
    [
        pytest.param(
            "cpu=1.00005", "cpu=1", DimensionDefault.ZERO, True, id="less than a tenth of a unit is dropped"
        ),
        pytest.param("cpu=1001m", "cpu=1", DimensionDefault.ZERO, False, id="one unit is compared"),
        pytest.param("cpu=1 gpu=1", "cpu=2", DimensionDefault.ZERO, False, id="an absent scalar is zero"),
        pytest.param(
            "cpu=1 gpu=0", "cpu=2", DimensionDefault.ZERO, True, id="zero is at most an absent scalar"
        ),
        pytest.param(
            "cpu=1 gpu=1",
            "cpu=2",
            DimensionDefault.INFINITY,
            True,
            id="an absent scalar on the right is infinite",
        ),
        pytest.param(
            "cpu=1",
            "cpu=2 gpu=1",
            DimensionDefault.INFINITY,
            False,
            id="an absent scalar on the left is infinite",
        ),
        pytest.param(
            "cpu=1", "cpu=2 gpu=1", DimensionDefault.ZERO, True, id="an absent scalar on the left is zero"
        ),
        pytest.param(
            "memory=1", "cpu=2", DimensionDefault.INFINITY, False, id="absent memory on the right is zero"
        ),
        pytest.param(
            "cpu=1", "cpu=2 memory=1", DimensionDefault.INFINITY, True, id="absent memory on the left is zero"
        ),
    ],
)
def test_less_equal(left: str, right: str, default: DimensionDefault, want: bool) -> None:
    assert less_equal(amounts(left), amounts(right), default) is want


Comparison = Callable[[dict[str, int], dict[str, int], dict[str, int]], bool]


@pytest.mark.parametrize(
    ("compare", "left", "right", "requested", "want"),
    [
        pytest.param(
            less_equal_partly,
            "cpu=9 memory=1",
            "cpu=4 memory=2",
            "cpu=1 memory=1",
            True,
            id="one resource is at most",
        ),
        pytest.param(
            less_equal_partly, "cpu=9", "cpu=4", "cpu=1 memory=1", False, id="zero on both sides is ignored"
        ),
        pytest.param(
            less_equal_partly, "cpu=9 pods=1", "cpu=4 pods=2", "cpu=1 pods=1", False, id="pods are ignored"
        ),
        pytest.param(
            less_equal_partly, "cpu=9", "cpu=4 gpu=1", "gpu=1", True, id="zero is at most a positive amount"
        ),
        pytest.param(
            greater_partly, "cpu=5 gpu=2", "cpu=5 gpu=1", "cpu=1 gpu=1", True, id="a scalar exceeds"
        ),
        pytest.param(greater_partly, "gpu=2", "cpu=5", "gpu=1", False, id="an absent scalar is ignored"),
        pytest.param(greater_partly, "gpu=2", "gpu=0", "gpu=1", True, id="a positive scalar exceeds zero"),
        pytest.param(greater_partly, "cpu=2", "cpu=0", "cpu=1", False, id="zero cpu is ignored"),
        pytest.param(
            greater_partly, "cpu=2", "cpu=1", "gpu=1", False, id="a resource outside the request is ignored"
        ),
        pytest.param(greater_partly, "pods=2", "pods=1", "pods=1", False, id="pods are ignored when greater"),
    ],
)
def test_comparisons_of_requested_resources(
    compare: Comparison, left: str, right: str, requested: str, want: bool
) -> None:
    assert compare(amounts(left), amounts(right), amounts(requested)) is want


def test_minimum_keeps_or_clears_scalars_that_the_limit_does_not_name() -> None:
    have, limit = amounts("cpu=8 memory=4Gi gpu=4"), amounts("cpu=4 memory=8Gi")
    assert minimum(have, limit, DimensionDefault.INFINITY) == amounts("cpu=4 memory=4Gi gpu=4")
    assert minimum(have, limit, DimensionDefault.ZERO) == amounts("cpu=4 memory=4Gi gpu=0")
    assert minimum(have, {}, DimensionDefault.INFINITY) == amounts("cpu=0 memory=0 gpu=4")


def test_maximum_covers_the_resources_of_both_sides() -> None:
    assert maximum(amounts("cpu=1 gpu=4"), amounts("cpu=2 memory=3")) == amounts("cpu=2 gpu=4 memory=3")


def test_resource_names_are_those_with_a_positive_amount() -> None:
    assert resource_names(amounts("memory=1 gpu=0 cpu=1m")) == ["cpu", "memory"]


some_amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", GPU]), st.integers(0, 9))


@given(some_amounts, some_amounts)
def test_sums_and_differences_are_inverse(left: dict[str, int], right: dict[str, int]) -> None:
    assert less_equal(left, plus(left, right))
    assert less_equal(minus(plus(left, right), right), left)
