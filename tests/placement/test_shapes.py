"""Which pods have the same shape."""

from typing import Any
from weakref import ref

import pytest
from msgspec.structs import replace

from quorate.api.core import NodeSelector, ResourceRequirements
from quorate.api.core.pod import ContainerStatus, PodStatus
from quorate.api.interning import CACHE_BYTES
from quorate.api.quantity import Quantity
from quorate.placement.claim_requirements import VolumeRequirements
from quorate.placement.shapes import MAX_AMOUNT, Shapes, is_distinguished
from tests.placement.builders import pod

ZONE = "topology.kubernetes.io/zone"


def with_affinity(**selector: str) -> dict[str, Any]:
    """Return the spec of a pod with required affinity by zone to pods with the labels."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": selector}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def with_spread(*, keys: list[str], **selector: str) -> dict[str, Any]:
    """Return the spec of a pod that is spread over zones with pods of equal labels and ``keys``."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": selector}, "matchLabelKeys": keys}
    return {"topologySpreadConstraints": [term]}


def test_equal_pods_have_one_shape() -> None:
    shapes = Shapes()
    assert shapes.of(pod("a cpu=1 memory=1Gi")) is shapes.of(pod("b cpu=1000m memory=1024Mi"))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, id="node selector"),
        pytest.param({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, id="tolerations"),
        pytest.param(with_affinity(app="db"), id="affinity"),
        pytest.param(with_spread(keys=[], app="db"), id="spread"),
        pytest.param({"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}, id="host port"),
        pytest.param({"containers": [{"image": "registry/other"}]}, id="image"),
        pytest.param({"overhead": {"cpu": "1m"}}, id="overhead"),
    ],
)
def test_pods_that_differ_in_what_filters_read_have_different_shapes(spec: dict[str, Any]) -> None:
    shapes = Shapes()
    assert shapes.of(pod("a")) is not shapes.of(pod("b", **spec))


def test_pods_that_differ_only_in_other_fields_have_one_shape() -> None:
    shapes = Shapes()
    plain = shapes.of(pod("a cpu=1"))
    assert shapes.of(pod("b cpu=1", namespace="other", labels={"job": "b"}, priority=7)) is plain


def test_pods_of_one_spec_have_different_shapes_while_one_is_resized() -> None:
    shapes, small, resized = Shapes(), pod("a cpu=1"), pod("b cpu=1")
    actual = ResourceRequirements(requests={"cpu": Quantity.of_units(2)})
    running = (ContainerStatus(name="main", resources=actual),)
    resized = replace(resized, status=PodStatus(container_statuses=running))
    assert small.spec is resized.spec
    assert [shapes.of(each).amounts["cpu"] for each in (small, resized, small)] == [1000, 2000, 1000]


def test_pods_with_different_volume_requirements_have_different_shapes() -> None:
    shapes = Shapes()
    assert shapes.of(pod("a"), VolumeRequirements(bound=(NodeSelector(),))) is not shapes.of(pod("a"))


def test_shapes_include_labels_and_namespace_once_a_selector_reads_them() -> None:
    shapes = Shapes()
    before = shapes.generation
    shapes.of(pod("a", **with_affinity(app="db")))
    assert shapes.generation == before + 1
    mine = shapes.of(pod("b", labels={"app": "db", "job": "b"}))
    assert mine.labels == {"app": "db"}
    assert mine is shapes.of(pod("c", labels={"app": "db", "job": "c"}))
    assert mine is not shapes.of(pod("d", labels={"app": "web"}))
    assert mine is not shapes.of(pod("b", labels={"app": "db"}, namespace="other"))
    assert shapes.generation == before + 1


def test_shapes_include_labels_of_match_label_keys() -> None:
    shapes = Shapes()
    shapes.of(pod("a", **with_spread(keys=["pod-template-hash"], app="db")))
    assert shapes.of(pod("b", labels={"pod-template-hash": "7f"})).labels == {"pod-template-hash": "7f"}


def test_an_empty_selector_reads_the_namespace() -> None:
    shapes = Shapes()
    shapes.of(pod("a", **with_affinity()))
    assert shapes.of(pod("b")).namespace == "default"


@pytest.mark.parametrize("amount", ["1000Ei", "1E400", "1e2147483647", "9" * 5000])
def test_amounts_are_limited(amount: str) -> None:
    assert Shapes().of(pod(f"a memory={amount}")).amounts["memory"] == MAX_AMOUNT + 1


@pytest.mark.parametrize(
    ("requests", "non_zero_request"),
    [
        ("", (100, 200 << 20)),
        ("cpu=2", (2000, 200 << 20)),
        ("memory=1Gi", (100, 1 << 30)),
        ("cpu=0 memory=0", (0, 0)),
    ],
)
def test_pods_without_requests_have_default_ones_in_scores(
    requests: str, non_zero_request: tuple[int, int]
) -> None:
    assert Shapes().of(pod(f"a {requests}")).non_zero_request == non_zero_request


def test_the_spec_of_a_pod_that_is_gone_is_not_kept() -> None:
    shapes = Shapes()
    uncached = "x" * CACHE_BYTES  # decoded pods of this size share nothing with others
    large = pod("a", nodeSelector={"disk": uncached})
    first, spec = shapes.of(large), ref(large.spec)
    assert shapes.of(large) is first
    del large
    assert spec() is None
    assert shapes.of(pod("a", nodeSelector={"disk": uncached})) is first


def test_only_pods_with_a_label_that_selectors_begin_to_read_get_another_shape() -> None:
    shapes = Shapes()
    pods = {name: pod(name, labels={name: "1", "all": "1"}) for name in ("app", "job", "x")}
    before = {name: shapes.of(each) for name, each in pods.items()}
    assert len(set(map(id, before.values()))) == 1
    assert shapes.take_added_keys() == set()

    shapes.of(pod("first", **with_affinity(app="1")))
    assert shapes.take_added_keys() is None  # the namespace matters from now on
    before = {name: shapes.of(each) for name, each in pods.items()}

    shapes.of(pod("second", **with_spread(keys=["job"], other="1")))
    added = shapes.take_added_keys()
    assert added == {"job", "other"}
    changed = {name for name, each in pods.items() if shapes.of(each) is not before[name]}
    assert changed == {name for name, each in pods.items() if is_distinguished(each.metadata.labels, added)}
    assert changed == {"job"}


def test_label_keys_of_selectors_that_are_gone_are_forgotten() -> None:
    shapes = Shapes()
    for number in range(600):
        shapes.of(pod("a", **with_affinity(**{f"key-{number}-{at}": "1" for at in range(2)})))
    assert shapes.has_unused_keys
    lasting = pod("b", **with_affinity(app="1"))
    shapes.retain_keys([lasting.spec])
    assert not shapes.has_unused_keys
    shapes.take_added_keys()
    shapes.of(lasting)
    assert shapes.take_added_keys() == set()
    shapes.of(pod("c", **with_affinity(**{"key-0-0": "1"})))
    assert shapes.take_added_keys() == {"key-0-0"}
