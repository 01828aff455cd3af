"""Bindings of claims that are written before their pod is bound."""

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


def unbound(name: str, **more: Any) -> Any:
    return claim(name, phase="Pending", storageClassName="slow", **more)


def bindings(world: World, *claims: str, zone: str = "1") -> list[str]:
    """Return ``bind v to data``, ``provision data on n``, ``none for data``."""
    described = []
    for binding in volume_bindings(using(*claims), node(f"n zone={zone}"), world.storage):
        match binding:
            case StaticBinding():
                described.append(f"bind {binding.volume.metadata.name} to {binding.claim.metadata.name}")
            case DynamicProvisioning():
                described.append(f"provision {binding.claim.metadata.name} on {binding.node}")
            case _:
                described.append(f"none for {binding.claim.metadata.name}")
    return described


@pytest.mark.parametrize(
    ("things", "want"),
    [
        pytest.param([unbound("data"), class_("slow")], ["provision data on n"], id="no matching volume"),
        pytest.param(
            [unbound("data"), class_("slow"), volume("v", **FREE)], ["bind v to data"], id="a matching volume"
        ),
        pytest.param(
            [unbound("data"), class_("slow"), volume("v", **FREE, **in_zone("2"))],
            ["provision data on n"],
            id="a volume in another zone",
        ),
        pytest.param(
            [
                unbound("data"),
                class_("slow"),
                volume("large", **FREE, capacity={"storage": "20Gi"}),
                volume("small", **FREE, capacity={"storage": "15Gi"}),
            ],
            ["bind small to data"],
            id="the smallest of two matching volumes",
        ),
        pytest.param(
            [unbound("data"), class_("slow", LOCAL)], ["none for data"], id="no volume and no provisioner"
        ),
        pytest.param([claim("data", "v"), volume("v")], [], id="a bound claim"),
        pytest.param(
            [unbound("data", annotations={"volume.kubernetes.io/selected-node": "n"}), class_("slow")],
            [],
            id="a claim with a selected node",
        ),
        pytest.param(
            [
                unbound("data"),
                class_("slow"),
                volume("v", storageClassName="slow", claimRef={"namespace": "default", "name": "data"}),
            ],
            [],
            id="a volume reserved for the claim",
        ),
    ],
)
def test_bindings_of_one_claim(things: list[Any], want: list[str]) -> None:
    assert bindings(world(*things), "data") == want


def test_small_claims_choose_first_and_no_volume_is_bound_twice() -> None:
    storage = world(
        unbound("large", resources={"requests": {"storage": "12Gi"}}),
        unbound("small", resources={"requests": {"storage": "10Gi"}}),
        class_("slow", LOCAL),
        volume("v", **FREE, capacity={"storage": "12Gi"}),
        volume("w", **FREE, capacity={"storage": "11Gi"}),
    )
    assert bindings(storage, "large", "small") == ["bind w to small", "bind v to large"]
    storage.storage.remove_volume("w")
    assert bindings(storage, "large", "small") == ["bind v to small", "none for large"]
