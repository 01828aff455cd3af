"""Roles of pods."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.controllers.pods.roles import role_hash

BARE: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


def test_the_role_hash_is_the_one_of_kueue() -> None:
    assert role_hash(BARE) == "dc85db45"  # a pod of one container in Kueue 0.19


def test_a_pod_in_an_admission_review_has_the_role_that_kueue_computes() -> None:
    """The API server has added a priority and two tolerations before."""
    lost = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    added = {"priority": 0, "tolerations": [{"key": key, **lost} for key in keys]}
    assert (
        role_hash({"containers": [{"name": "c", "image": "pause", "resources": {}}], **added}) == "bf90803c"
    )
    assert role_hash({**BARE, **added}) == "4b0469f7"


@pytest.mark.parametrize(
    "other",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        {"priority": 1},
        {"runtimeClassName": "kata"},
        {"resources": {"requests": {"cpu": "2"}}},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        {"containers": [*BARE["containers"], {"name": "d"}]},
        {"initContainers": [{"name": "i"}]},
    ],
    ids=str,
)
def test_fields_that_a_scheduler_reads_change_the_role(other: dict[str, Any]) -> None:
    assert role_hash({**BARE, **other}) != role_hash(BARE)


@pytest.mark.parametrize(
    "other",
    [
        {"schedulingGates": [{"name": "any"}]},
        {
            "containers": [
                {**BARE["containers"][0], "name": "x", "image": "y", "ports": [{"containerPort": 80}]}
            ]
        },
        {"nodeSelector": {}},
    ],
    ids=str,
)
def test_other_fields_do_not_change_the_role(other: dict[str, Any]) -> None:
    assert role_hash({**BARE, **other}) == role_hash(BARE)


def test_a_quantity_can_be_a_number_with_a_fraction() -> None:
    def role(cpu: Any) -> str:
        return role_hash({"containers": [{"resources": {"requests": {"cpu": cpu}}}]})

    assert role(codec.decode(dict[str, Any], b'{"cpu": 0.5}')["cpu"]) == role(0.5)


def test_the_order_of_fields_does_not_matter() -> None:
    one = {**BARE, "tolerations": [{"key": "a", "operator": "Exists"}], "nodeSelector": {"x": "1", "y": "2"}}
    other = {
        "nodeSelector": {"y": "2", "x": "1"},
        "tolerations": [{"operator": "Exists", "key": "a"}],
        **BARE,
    }
    assert role_hash(one) == role_hash(other)
