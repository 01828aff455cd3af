"""What claims take of the capacities of devices."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.device_claims import DeviceCapacity
from quorate.api.quantity import parse_quantity
from quorate.placement.filters.devices.quantities import capacity_charge

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("policy", "requested", "want"),
    [
        ({}, "", "80Gi"),
        ({}, "20Gi", "20Gi"),
        ({}, "81Gi", "None"),
        ({"default": "10Gi"}, "", "10Gi"),
        ({"default": "10Gi"}, "0", "0"),
        ({"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]}, "15Gi", "20Gi"),
        ({"default": "10Gi", "validValues": ["10Gi", "20Gi", "40Gi"]}, "50Gi", "None"),
        ({"validRange": {"min": "5Gi", "max": "80Gi", "step": "5Gi"}}, "12Gi", "15Gi"),
        ({"validRange": {"min": "5Gi", "max": "80Gi", "step": "5Gi"}}, "1Gi", "5Gi"),
        ({"validRange": {"min": "5Gi", "max": "12Gi", "step": "5Gi"}}, "11Gi", "None"),
        ({"validRange": {"min": "5Gi", "max": "12Gi"}}, "11Gi", "11Gi"),
    ],
)
def test_a_request_of_a_capacity_is_rounded_up_as_the_device_publishes(
    policy: Json, requested: str, want: str
) -> None:
    amount = parse_quantity(requested) if requested else None
    capacity = codec.convert(DeviceCapacity, {"value": "80Gi", "requestPolicy": policy})
    charged = capacity_charge(capacity, amount)
    assert str(charged) == want
