"""Taints and tolerations, cordoned nodes and readiness."""

from typing import Any

import pytest

from quorate.placement.framework import Capacity
from tests.placement.filters.world import World, node, pod

GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
NO_EXECUTE = {"key": "gpu", "value": "a100", "effect": "NoExecute"}
SPOT = {"key": "spot", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "want"),
    [
        pytest.param([], "gpu: a100", id="no toleration"),
        pytest.param([{"key": "gpu", "value": "a100"}], None, id="the default operator is Equal"),
        pytest.param([{"key": "gpu", "operator": "Equal", "value": "t4"}], "gpu: a100", id="another value"),
        pytest.param([{"key": "gpu", "operator": "Exists"}], None, id="any value"),
        pytest.param([{"operator": "Exists"}], None, id="any key"),
        pytest.param([{"key": "cpu", "operator": "Exists"}], "gpu: a100", id="another key"),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}], None, id="the same effect"
        ),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], "gpu: a100", id="another effect"
        ),
        pytest.param(
            [{"key": "gpu", "operator": "Gt", "value": "1"}], "gpu: a100", id="Gt is disabled in 1.36"
        ),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}], None, id="a limited toleration"
        ),
    ],
)
def test_an_untolerated_taint_rejects_the_node(tolerations: list[dict[str, Any]], want: str | None) -> None:
    world = World(node("n", taints=[GPU]))
    reasons = world.reasons(pod("p", tolerations=tolerations))
    assert reasons == ({} if want is None else {"n": f"node(s) had untolerated taint {{{want}}}"})


def test_the_reason_names_the_first_untolerated_taint() -> None:
    world = World(node("n", taints=[{"key": "soft", "effect": "PreferNoSchedule"}, GPU, SPOT]))
    tolerating = pod("p", tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert world.reasons(tolerating) == {"n": "node(s) had untolerated taint {spot: }"}


def test_taints_with_no_execute_reject_nodes() -> None:
    world = World(node("n", taints=[NO_EXECUTE]), "other")
    assert world.passing(pod("p")) == "other"


def test_each_taint_is_a_failure_of_its_own() -> None:
    world = World(node("a", taints=[GPU]), node("b", taints=[GPU]), node("c", taints=[SPOT]), "d")
    counts = world.filter_result(pod("p")).failure_counts(Capacity.IDLE, world.existing())
    assert [(failure.reason, count) for failure, count in counts] == [
        ("node(s) had untolerated taint {gpu: a100}", 2),
        ("node(s) had untolerated taint {spot: }", 1),
    ]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {"n": "node(s) were unschedulable"}, id="a cordoned node is rejected"),
        pytest.param(
            {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
            {},
            id="its taint is tolerated",
        ),
    ],
)
def test_cordoned_nodes(spec: dict[str, Any], want: dict[str, str]) -> None:
    assert World(node("n", unschedulable=True)).reasons(pod("p", **spec)) == want


def test_nodes_that_are_not_ready_are_rejected() -> None:
    world = World(node("n", ready=False))
    everything = [{"operator": "Exists"}]
    assert world.reasons(pod("p", tolerations=everything)) == {"n": "node(s) were not ready"}


def test_preemption_cannot_resolve_taints_cordons_or_readiness() -> None:
    world = World(node("a", taints=[GPU]), node("b", unschedulable=True), node("c", ready=False))
    assert world.filter_result(pod("p")).unresolvable[world.existing()].all()


@pytest.mark.parametrize(
    ("given", "permanent"),
    [
        pytest.param({"taints": [GPU]}, True, id="a taint of an administrator"),
        pytest.param(
            {"taints": [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]},
            False,
            id="a taint for a node condition",
        ),
        pytest.param({"unschedulable": True}, False, id="a cordoned node"),
        pytest.param({"ready": False}, False, id="a node that is not ready"),
        pytest.param({"unschedulable": True, "taints": [GPU]}, True, id="a taint of a cordoned node"),
    ],
)
def test_permanent_failures(given: dict[str, Any], permanent: bool) -> None:
    world = World(node("n", **given))
    assert world.filter_result(pod("p")).permanent[world.existing()].tolist() == [permanent]


def test_prefer_no_schedule_taints_are_counted() -> None:
    old = {"key": "old", "effect": "PreferNoSchedule"}
    slow = {"key": "slow", "value": "very", "effect": "PreferNoSchedule"}
    world = World(node("a", taints=[old, slow]), node("b", taints=[slow]), "c")
    assert world.raw_score(pod("p"), "taints") == {"a": 2, "b": 1, "c": 0}
    tolerations = [{"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"}]
    assert world.raw_score(pod("q", tolerations=tolerations), "taints") == {"a": 1, "b": 0, "c": 0}
    other_effect = [{"key": "slow", "operator": "Exists", "effect": "NoSchedule"}]
    assert world.raw_score(pod("r", tolerations=other_effect), "taints") == {"a": 2, "b": 1, "c": 0}


def test_without_prefer_no_schedule_taints_there_are_no_scores() -> None:
    assert World(node("n", taints=[GPU])).filter_result(pod("p")).raw_scores.taints is None
