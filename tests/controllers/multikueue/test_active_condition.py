"""The condition Active of MultiKueue checks, with Kueue's reasons and messages."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.kueue import AdmissionCheck
from quorate.api.kueue.multikueue import MultiKueueCluster, MultiKueueConfig
from quorate.controllers.multikueue.connection.check_controller import active_condition

VALID = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}


def a_check(parameters: dict[str, str] | None) -> AdmissionCheck:
    spec = {"controllerName": "kueue.x-k8s.io/multikueue"} | (
        {} if parameters is None else {"parameters": parameters}
    )
    return codec.convert(AdmissionCheck, {"metadata": {"name": "remote", "generation": 7}, "spec": spec})


def a_config(*clusters: str) -> MultiKueueConfig:
    return codec.convert(MultiKueueConfig, {"metadata": {"name": "config"}, "spec": {"clusters": clusters}})


def a_cluster(status: str) -> MultiKueueCluster:
    active = {"type": "Active", "status": status, "reason": "Any"}
    document: dict[str, Any] = {"metadata": {"name": "any"}, "status": {"conditions": [active]}}
    return codec.convert(MultiKueueCluster, document)


@pytest.mark.parametrize(
    ("clusters", "want"),
    [
        ({"a": "True", "b": "True"}, "True Active: The admission check is active"),
        ({"a": "True", "b": "False"}, "True SomeActiveClusters: Inactive clusters: [b]"),
        ({"b": "True"}, "True SomeActiveClusters: Missing clusters: [a]"),
        ({"a": "Unknown"}, "False NoUsableClusters: Missing clusters: [b], Inactive clusters: [a]"),
        ({}, "False NoUsableClusters: Missing clusters: [a b]"),
    ],
)
def test_a_check_is_active_with_one_active_cluster(clusters: dict[str, str], want: str) -> None:
    named = {name: a_cluster(status) for name, status in clusters.items()}
    active = active_condition(a_check(VALID), {"config": a_config("a", "b")}, named, 1_000.0)
    assert f"{active.status} {active.reason}: {active.message}" == want
    assert active.observed_generation == 7


@pytest.mark.parametrize(
    ("parameters", "want"),
    [
        (VALID, 'MultiKueueConfig.kueue.x-k8s.io "config" not found'),
        (None, "missing parameters reference"),
        (VALID | {"name": ""}, "empty name: bad parameters reference"),
        (VALID | {"apiGroup": "x"}, 'wrong group "x", expecting "kueue.x-k8s.io": bad parameters reference'),
        (VALID | {"kind": "X"}, 'wrong kind "X", expecting "MultiKueueConfig": bad parameters reference'),
    ],
)
def test_without_its_configuration_a_check_is_not_active(
    parameters: dict[str, str] | None, want: str
) -> None:
    active = active_condition(a_check(parameters), {}, {}, 1_000.0)
    assert (active.status, active.reason) == ("False", "BadConfig")
    assert active.message == f"Cannot load the AdmissionChecks parameters: {want}"
