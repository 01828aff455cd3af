"""Taints, tolerations, the cordon and readiness."""

from typing import Any

import pytest

from quorate.placement.framework import Capacity
from tests.placement.filters.world import World, node, pod

GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
EVICTING = {"key": "gpu", "value": "a100", "effect": "NoExecute"}
SPOT = {"key": "spot", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "want"),
    [
        pytest.param([], "gpu: a100", id="no toleration"),
        pytest.param([{"key": "gpu", "value": "a100"}], None, id="no operator is Equal"),
        pytest.param([{"key": "gpu", "operator": "Equal", "value": "t4"}], "gpu: a100", id="another value"),
        pytest.param([{"key": "gpu", "operator": "Exists"}], None, id="any value"),
        pytest.param([{"operator": "Exists"}], None, id="any key"),
        pytest.param([{"key": "cpu", "operator": "Exists"}], "gpu: a100", id="another key"),
        pytest.param([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}], None, id="its effect"),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}], "gpu: a100", id="another effect"
        ),
        pytest.param(
            [{"key": "gpu", "operator": "Gt", "value": "1"}], "gpu: a100", id="comparing is off in 1.36"
        ),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}], None, id="for a time is enough"
        ),
    ],
)
def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(
    tolerations: list[dict[str, Any]], want: str | None
) -> None:
    world = World(node("n", taints=[GPU]))
    reasons = world.reasons(pod("p", tolerations=tolerations))
    assert reasons == ({} if want is None else {"n": f"node(s) had untolerated taint {{{want}}}"})


def test_the_first_taint_that_is_not_tolerated_is_named() -> None:
    world = World(node("n", taints=[{"key": "soft", "effect": "PreferNoSchedule"}, GPU, SPOT]))
    tolerant = pod("p", tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert world.reasons(tolerant) == {"n": "node(s) had untolerated taint {spot: }"}


def test_taints_that_evict_keep_away_too() -> None:
    world = World(node("n", taints=[EVICTING]), "other")
    assert world.passing(pod("p")) == "other"


def test_each_taint_counts_for_itself() -> None:
    world = World(node("a", taints=[GPU]), node("b", taints=[GPU]), node("c", taints=[SPOT]), "d")
    statuses = world.filter_result(pod("p")).failure_counts(Capacity.IDLE, world.known())
    assert [(failure.reason, count) for failure, count in statuses] == [
        ("node(s) had untolerated taint {gpu: a100}", 2),
        ("node(s) had untolerated taint {spot: }", 1),
    ]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {"n": "node(s) were unschedulable"}, id="a cordon keeps away"),
        pytest.param(
            {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
            {},
            id="it is tolerated like a taint",
        ),
    ],
)
def test_cordoned_nodes(spec: dict[str, Any], want: dict[str, str]) -> None:
    assert World(node("n", unschedulable=True)).reasons(pod("p", **spec)) == want


def test_nodes_that_are_not_ready_take_nobody() -> None:
    world = World(node("n", ready=False))
    everything = [{"operator": "Exists"}]
    assert world.reasons(pod("p", tolerations=everything)) == {"n": "node(s) were not ready"}


def test_no_eviction_lifts_a_taint_or_a_cordon() -> None:
    world = World(node("a", taints=[GPU]), node("b", unschedulable=True), node("c", ready=False))
    assert world.filter_result(pod("p")).unresolvable[world.known()].all()


@pytest.mark.parametrize(
    ("given", "permanent"),
    [
        pytest.param({"taints": [GPU]}, True, id="a taint that an administrator gave"),
        pytest.param(
            {"taints": [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]},
            False,
            id="a taint that tells of a state",
        ),
        pytest.param({"unschedulable": True}, False, id="a cordon"),
        pytest.param({"ready": False}, False, id="a node that is not ready"),
        pytest.param({"unschedulable": True, "taints": [GPU]}, True, id="a cordon before a taint"),
    ],
)
def test_what_waiting_does_not_help(given: dict[str, Any], permanent: bool) -> None:
    world = World(node("n", **given))
    assert world.filter_result(pod("p")).permanent[world.known()].tolist() == [permanent]


def test_discouraging_taints_are_counted() -> None:
    soft = {"key": "old", "effect": "PreferNoSchedule"}
    softer = {"key": "slow", "value": "very", "effect": "PreferNoSchedule"}
    world = World(node("a", taints=[soft, softer]), node("b", taints=[softer]), "c")
    assert world.measure(pod("p"), "taints") == {"a": 2, "b": 1, "c": 0}
    slow = [{"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"}]
    assert world.measure(pod("q", tolerations=slow), "taints") == {"a": 1, "b": 0, "c": 0}
    hard = [{"key": "slow", "operator": "Exists", "effect": "NoSchedule"}]
    assert world.measure(pod("r", tolerations=hard), "taints") == {"a": 2, "b": 1, "c": 0}


def test_without_discouraging_taints_there_is_nothing_to_compare() -> None:
    assert World(node("n", taints=[GPU])).filter_result(pod("p")).raw_scores.taints is None
