"""Amounts are formatted as in the API, or rounded down in a larger unit if they have many digits."""

import pytest

from quorate.api.quantity import parse_quantity
from quorate.inspect.formatting import format_quantity, format_resources, plural


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("4424Mi", "4424Mi", id="unchanged"),
        pytest.param("500m", "500m"),
        pytest.param("16858Mi", "16858Mi", id="five digits are unchanged"),
        pytest.param("0", "0"),
        pytest.param("109056Ki", "106Mi", id="six digits are rounded"),
        pytest.param("13254000690", "12640Mi", id="eleven digits are rounded"),
    ],
)
def test_format_quantity(written: str, shown: str) -> None:
    assert format_quantity(parse_quantity(written)) == shown


def test_format_resources_and_plural() -> None:
    assert (
        format_resources({"memory": parse_quantity("1Gi"), "cpu": parse_quantity("2")}) == "cpu 2, memory 1Gi"
    )
    assert format_resources({}) == "nothing"
    assert (plural(1, "pod"), plural(2, "pod"), plural(0, "pod")) == ("1 pod", "2 pods", "0 pods")
