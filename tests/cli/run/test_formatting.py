"""Amounts are shown as they are written, unless nobody could read that."""

import pytest

from quorate.api.quantity import parse_quantity
from quorate.cli.run.formatting import format_quantity, format_resources, plural


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("4424Mi", "4424Mi", id="as written"),
        pytest.param("500m", "500m"),
        pytest.param("16858Mi", "16858Mi", id="five digits can be read"),
        pytest.param("0", "0"),
        pytest.param("109056Ki", "106Mi", id="six cannot"),
        pytest.param("13254000690", "12640Mi", id="nor eleven"),
    ],
)
def test_readable(written: str, shown: str) -> None:
    assert format_quantity(parse_quantity(written)) == shown


def test_in_words() -> None:
    assert (
        format_resources({"memory": parse_quantity("1Gi"), "cpu": parse_quantity("2")}) == "cpu 2, memory 1Gi"
    )
    assert format_resources({}) == "nothing"
    assert (plural(1, "pod"), plural(2, "pod"), plural(0, "pod")) == ("1 pod", "2 pods", "0 pods")
