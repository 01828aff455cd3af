"""What is written about claims before their pod is bound."""

from typing import Any

import pytest

from quorate.placement.filters.volumes.binding import DynamicProvisioning, StaticBinding, volume_bindings
from tests.placement.filters.volumes.test_requirements import (
    LOCAL,
    claim,
    class_,
    in_zone,
    using,
    volume,
    world,
)
from tests.placement.filters.world import World, node

FREE = {"phase": "Available", "storageClassName": "slow"}


def waiting(name: str, **more: Any) -> Any:
    return claim(name, phase="Pending", storageClassName="slow", **more)


def steps(there: World, *claims: str, zone: str = "1") -> list[str]:
    """``keep v for data``, ``make data on n``, ``none for data``."""
    said = []
    for step in volume_bindings(using(*claims), node(f"n zone={zone}"), there.storage):
        match step:
            case StaticBinding():
                said.append(f"keep {step.volume.metadata.name} for {step.claim.metadata.name}")
            case DynamicProvisioning():
                said.append(f"make {step.claim.metadata.name} on {step.node}")
            case _:
                said.append(f"none for {step.claim.metadata.name}")
    return said


@pytest.mark.parametrize(
    ("things", "want"),
    [
        pytest.param([waiting("data"), class_("slow")], ["make data on n"], id="one is made"),
        pytest.param(
            [waiting("data"), class_("slow"), volume("v", **FREE)], ["keep v for data"], id="or one taken"
        ),
        pytest.param(
            [waiting("data"), class_("slow"), volume("v", **FREE, **in_zone("2"))],
            ["make data on n"],
            id="but not one of another zone",
        ),
        pytest.param(
            [
                waiting("data"),
                class_("slow"),
                volume("large", **FREE, capacity={"storage": "20Gi"}),
                volume("small", **FREE, capacity={"storage": "15Gi"}),
            ],
            ["keep small for data"],
            id="the smallest that suits",
        ),
        pytest.param([waiting("data"), class_("slow", LOCAL)], ["none for data"], id="somebody was faster"),
        pytest.param([claim("data", "v"), volume("v")], [], id="it is bound"),
        pytest.param(
            [waiting("data", annotations={"volume.kubernetes.io/selected-node": "n"}), class_("slow")],
            [],
            id="one is being made",
        ),
        pytest.param(
            [
                waiting("data"),
                class_("slow"),
                volume("v", storageClassName="slow", claimRef={"namespace": "default", "name": "data"}),
            ],
            [],
            id="one is kept for it",
        ),
    ],
)
def test_a_claim_that_waits_for_its_pod(things: list[Any], want: list[str]) -> None:
    assert steps(world(*things), "data") == want


def test_small_claims_choose_first_and_no_volume_is_kept_twice() -> None:
    there = world(
        waiting("large", resources={"requests": {"storage": "12Gi"}}),
        waiting("small", resources={"requests": {"storage": "10Gi"}}),
        class_("slow", LOCAL),
        volume("v", **FREE, capacity={"storage": "12Gi"}),
        volume("w", **FREE, capacity={"storage": "11Gi"}),
    )
    assert steps(there, "large", "small") == ["keep w for small", "keep v for large"]
    there.storage.remove_volume("w")
    assert steps(there, "large", "small") == ["keep v for small", "none for large"]
