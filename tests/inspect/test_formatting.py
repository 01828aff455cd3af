"""Amounts are formatted as in the API, or rounded down in a larger unit if they have many digits."""

import pytest

from quorate.api.quantity import parse_quantity
from quorate.inspect.formatting import (
    amount_cells,
    amount_columns,
    format_duration,
    format_quantity,
    format_resources,
    in_one_unit,
    plural,
)


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


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (("4", "12"), ["4", "12"]),
        (("500m", "2"), ["500m", "2000m"]),
        (("500m", "12"), ["0.5", "12"]),
        (("1Gi", "1536Mi", "0"), ["1Gi", "1.5Gi", "0Gi"]),
        (("100Ki", "64Gi"), ["0.1Gi", "64Gi"]),
        ((), []),
    ],
)
def test_the_amounts_of_a_column_have_one_unit(written: tuple[str, ...], shown: list[str]) -> None:
    assert in_one_unit([parse_quantity(text) for text in written]) == shown


def test_the_amounts_of_a_resource_have_one_unit_in_all_rows() -> None:
    rows = [
        ("memory", (parse_quantity("16Gi"), None)),
        ("cpu", (parse_quantity("4"), parse_quantity("1500m"))),
        ("memory", (parse_quantity("0"), parse_quantity("512Mi"))),
        ("cpu", (parse_quantity("1"), None)),
    ]
    assert amount_cells(rows) == [["16Gi", ""], ["4000m", "1500m"], ["0Gi", "0.5Gi"], ["1000m", ""]]


def test_amounts_are_shown_beside_their_totals() -> None:
    used = {"cpu": parse_quantity("500m")}, {"memory": parse_quantity("1Gi")}
    totals = {"cpu": parse_quantity("4"), "example.com/gpu": parse_quantity("0")}, None
    assert amount_columns(used, totals) == (
        ["CPU", "MEMORY"], [["500m/4000m", "0Gi/0Gi"], ["0m", "1Gi"]],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0s"),
        (59.9, "59s"),
        (252, "4m12s"),
        (725, "12m"),
        (10_440, "2h54m"),
        (7_200, "2h"),
        (273_600, "3d4h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown
