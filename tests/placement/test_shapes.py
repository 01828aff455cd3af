"""Which pods are of one shape."""

from typing import Any

import pytest

from quorate.api.core import NodeSelector
from quorate.placement.filters.volumes.filters import VolumeRequirements
from quorate.placement.shapes import MAX_AMOUNT, Shapes
from tests.placement.builders import pod

ZONE = "topology.kubernetes.io/zone"


def near(**selector: str) -> dict[str, Any]:
    """The spec of a pod that wants to be in a zone with pods that have the labels."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": selector}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def apart(*, keys: list[str], **selector: str) -> dict[str, Any]:
    """The spec of a pod that is spread over zones among pods with the labels and its values of ``keys``."""
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
        pytest.param(near(app="db"), id="affinity"),
        pytest.param(apart(keys=[], app="db"), id="spread"),
        pytest.param({"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}, id="host port"),
        pytest.param({"containers": [{"image": "registry/other"}]}, id="image"),
        pytest.param({"overhead": {"cpu": "1m"}}, id="overhead"),
    ],
)
def test_what_decides_where_a_pod_goes_is_part_of_its_shape(spec: dict[str, Any]) -> None:
    shapes = Shapes()
    assert shapes.of(pod("a")) is not shapes.of(pod("b", **spec))


def test_what_does_not_decide_is_not() -> None:
    shapes = Shapes()
    plain = shapes.of(pod("a cpu=1"))
    assert shapes.of(pod("b cpu=1", namespace="other", labels={"job": "b"}, priority=7)) is plain


def test_volumes_tie_pods_to_nodes() -> None:
    shapes = Shapes()
    assert shapes.of(pod("a"), VolumeRequirements(bound=(NodeSelector(),))) is not shapes.of(pod("a"))


def test_labels_and_namespaces_count_once_a_selector_asks_for_them() -> None:
    shapes = Shapes()
    before = shapes.generation
    shapes.of(pod("a", **near(app="db")))
    assert shapes.generation == before + 1
    mine = shapes.of(pod("b", labels={"app": "db", "job": "b"}))
    assert mine.labels == {"app": "db"}
    assert mine is shapes.of(pod("c", labels={"app": "db", "job": "c"}))
    assert mine is not shapes.of(pod("d", labels={"app": "web"}))
    assert mine is not shapes.of(pod("b", labels={"app": "db"}, namespace="other"))
    assert shapes.generation == before + 1


def test_keys_whose_values_a_pod_adds_itself_count_too() -> None:
    shapes = Shapes()
    shapes.of(pod("a", **apart(keys=["pod-template-hash"], app="db")))
    assert shapes.of(pod("b", labels={"pod-template-hash": "7f"})).labels == {"pod-template-hash": "7f"}


def test_a_selector_of_all_asks_for_namespaces() -> None:
    shapes = Shapes()
    shapes.of(pod("a", **near()))
    assert shapes.of(pod("b")).namespace == "default"


def test_nothing_is_larger_than_can_be_calculated_with() -> None:
    assert Shapes().of(pod("a memory=1000Ei")).amounts["memory"] == MAX_AMOUNT + 1


@pytest.mark.parametrize(
    ("requests", "non_zero_request"),
    [
        ("", (100, 200 << 20)),
        ("cpu=2", (2000, 200 << 20)),
        ("memory=1Gi", (100, 1 << 30)),
        ("cpu=0 memory=0", (0, 0)),
    ],
)
def test_pods_that_name_nothing_count_in_scores(requests: str, non_zero_request: tuple[int, int]) -> None:
    assert Shapes().of(pod(f"a {requests}")).non_zero_request == non_zero_request
