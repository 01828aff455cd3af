"""Quantities are exact, ordered as rational numbers, and print canonically."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.quantity import LARGEST, NANOS, Form, InvalidQuantity, Quantity, parse_quantity

SCALES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
    "e3": Fraction(1000), "E-2": Fraction(1, 100), "e+6": Fraction(10**6),
}  # fmt: skip


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """Generate the text of a quantity, with its value from an independent parser."""
    digits = draw(st.integers(0, 10**12))
    decimals = draw(st.integers(0, 6))
    sign = draw(st.sampled_from(["", "-", "+"]))
    suffix = draw(st.sampled_from(sorted(SCALES)))
    padded = str(digits).rjust(decimals + 1, "0")
    number = f"{padded[:-decimals]}.{padded[-decimals:]}" if decimals else padded
    value = Fraction(digits, 10**decimals) * SCALES[suffix]
    if suffix.endswith("i"):
        value = min(value, Fraction(2**63 - 1))
    value *= -1 if sign == "-" else 1
    return f"{sign}{number}{suffix}", value


def rounded_away_from_zero(value: Fraction) -> int:
    nanos = abs(value) * NANOS
    whole = -(-nanos.numerator // nanos.denominator)
    return whole if value >= 0 else -whole


@given(written())
def test_parsing_is_exact(case: tuple[str, Fraction]) -> None:
    text, value = case
    assert parse_quantity(text).nanos == rounded_away_from_zero(value)


@given(written())
def test_formatting_is_exact_and_canonical(case: tuple[str, Fraction]) -> None:
    quantity = parse_quantity(case[0])
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(written(), written())
def test_order_is_that_of_rational_numbers(one: tuple[str, Fraction], two: tuple[str, Fraction]) -> None:
    a, b = (rounded_away_from_zero(value) for _, value in (one, two))
    left, right = parse_quantity(one[0]), parse_quantity(two[0])
    assert (left < right, left == right, left > right) == (a < b, a == b, a > b)


@pytest.mark.parametrize(
    ("text", "canonical", "units", "milli"),
    [
        pytest.param("1", "1", 1, 1000, id="a plain number"),
        pytest.param("0.1", "100m", 1, 100, id="a fraction becomes milli, units round up"),
        pytest.param("8429Mi", "8429Mi", 8838447104, 8838447104000, id="mebibytes stay"),
        pytest.param("1024Mi", "1Gi", 2**30, 2**30 * 1000, id="the largest exact suffix wins"),
        pytest.param("1023Ki", "1023Ki", 1023 * 1024, 1023 * 1024 * 1000, id="never a fraction"),
        pytest.param("512", "512", 512, 512000, id="below 1024 a binary amount is plain"),
        pytest.param("0.5Ki", "512", 512, 512000, id="a binary fraction below 1024 is plain"),
        pytest.param("1e3", "1e3", 1000, 10**6, id="exponents stay exponents"),
        pytest.param("12E", "12E", 12 * 10**18, 12 * 10**21, id="E alone is exa"),
        pytest.param("-1Ei", "-1Ei", -(2**60), -(2**60) * 1000, id="negative where legal"),
        pytest.param("0.0000000001", "1n", 1, 1, id="finer than nano rounds up to nano"),
        pytest.param("-0.0000000001", "-1n", 0, 0, id="rounding away from zero below a nano"),
        pytest.param("0Gi", "0", 0, 0, id="zero has no suffix"),
        pytest.param("9223372036854775808", "9223372036854775808", 2**63, 2**63 * 1000, id="past 64 bits"),
        pytest.param("16Ei", "9223372036854775807", 2**63 - 1, (2**63 - 1) * 1000, id="binary fits 64 bits"),
        pytest.param("-8.1Ei", "-9223372036854775807", 1 - 2**63, (1 - 2**63) * 1000, id="negative ones too"),
        pytest.param("1E400", "10e99", 10**100, 10**103, id="a large exponent is as much as can be"),
        pytest.param("-1E400", "-10e99", -(10**100), -(10**103), id="or as little"),
        pytest.param("1E-400", "1e-9", 1, 1, id="a small exponent is as little as can be asked for"),
        pytest.param("1E2147483647", "10e99", 10**100, 10**103, id="the largest exponent"),
        pytest.param("1E4294967297", "10", 10, 10**4, id="the lower 32 bits of an exponent count"),
        pytest.param("1.5E-2147483648", "10e99", 10**100, 10**103, id="which overflow with a fraction"),
        pytest.param("1e" + "0" * 100_000 + "3", "1e3", 1000, 10**6, id="an exponent with many zeros"),
        pytest.param("0." + "0" * 300_000 + "1", "1n", 1, 1, id="a long fraction"),
        pytest.param("0." + "9" * 300_000 + "Ki", "1Ki", 1024, 1024 * 1000, id="a long binary fraction"),
        pytest.param(" 4 ", "4", 4, 4000, id="with spaces"),
        pytest.param(".", "0", 0, 0, id="a missing number is zero"),
        pytest.param("Ti", "0", 0, 0, id="also before a suffix"),
    ],
)  # fmt: skip
def test_quantity(text: str, canonical: str, units: int, milli: int) -> None:
    quantity = parse_quantity(text)
    assert (str(quantity), quantity.units, quantity.milli) == (canonical, units, milli)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "4 cores",
        "1.5.2",
        "--1",
        "1KI",
        "Pi",
        "e-10",
        "1e",
        "0x10",
        "1mi",
        "٣",
        True,
        1.5,
        None,
        "1e9223372036854775808",
    ],
)
def test_an_invalid_quantity_is_rejected(value: object) -> None:
    with pytest.raises(InvalidQuantity) as refusal:
        parse_quantity(value)  # type: ignore[arg-type]
    assert str(refusal.value) == f"{value!r} is not a quantity (write 4, 500m or 16Gi)"


def test_a_very_long_text_is_truncated_in_the_message() -> None:
    with pytest.raises(InvalidQuantity) as refusal:
        parse_quantity("9" * 5000 + "x")
    assert len(str(refusal.value)) < 120


@pytest.mark.parametrize("suffix", ["", "Ei", "m", "e400"])
def test_hundreds_of_thousands_of_digits_are_as_much_as_can_be(suffix: str) -> None:
    most = parse_quantity("9" * 300_000 + suffix)
    assert most == (parse_quantity("8Ei") if suffix == "Ei" else Quantity(LARGEST))
    assert parse_quantity(str(most)) == most


@given(st.integers(-2 * LARGEST, 2 * LARGEST), st.sampled_from(Form))
def test_the_text_of_every_sum_is_read_as_that_sum(nanos: int, form: Form) -> None:
    total = Quantity(nanos, form)
    assert parse_quantity(str(total)) == total
    assert abs((total * 2**31 + total).nanos) <= LARGEST


@given(written(), written())
def test_equal_amounts_have_equal_hashes_and_sums_are_exact(
    one: tuple[str, Fraction], two: tuple[str, Fraction]
) -> None:
    left, right = parse_quantity(one[0]), parse_quantity(two[0])
    assert (left + right - right) == left
    assert hash(left + right) == hash(right + left)
    assert (left * 3).nanos == left.nanos * 3
    assert bool(left) is (left.nanos != 0)


@given(written())
def test_leading_zeros_change_nothing(case: tuple[str, Fraction]) -> None:
    text = case[0]
    sign = text[0] if text[0] in "+-" else ""
    longer = parse_quantity(f"{sign}{'0' * 30}{text.removeprefix(sign)}")
    assert (longer.nanos, longer.form) == (parse_quantity(text).nanos, parse_quantity(text).form)


@given(written())
def test_base_units_round_up(case: tuple[str, Fraction]) -> None:
    """A request for a fraction of a unit counts as a whole unit."""
    quantity = parse_quantity(case[0])
    for amount, per_unit in ((quantity.units, NANOS), (quantity.milli, NANOS // 1000)):
        assert (amount - 1) * per_unit < quantity.nanos <= amount * per_unit


NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
CUSTOM = rf"[+-]?{NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{NUMBER})?"


# What a kube-apiserver does with a text in a field of a built-in kind, and in one of a definition with the
# pattern of quantities that controller-gen writes.
@pytest.mark.parametrize(
    ("text", "built_in", "custom"),
    [
        ("1e1.5", False, True), ("0e1.5", False, True), ("1E1.5", False, True), ("1e+1.5", False, True),
        ("1e.5", False, True), ("1e1.", False, True), ("1e1.0", False, True), ("70e.71", False, True),
        ("1e9223372036854775808", False, True), ("1e-9223372036854775809", False, True),
        ("1e9223372036854775807", True, True), ("1e4294967296", True, True), ("1.", True, True),
        (".5", True, True), ("+1", True, True), ("-0", True, True), ("1.e3", True, True), (".1n", True, True),
        ("+", True, False), ("-", True, False), (".", True, False), ("+.k", True, False), ("n", True, False),
        (" 1", True, False), ("1 ", True, False), ("\u20031", True, False), ("", False, False),
        ("\t1", False, False), ("1\n", False, False), ("\x1f1", False, False), ("1\x1c", False, False),
        ("Pi", False, False), ("e-10", False, False), ("1e", False, False), ("1e+", False, False),
        ("1Ee1", False, False), ("1mm", False, False), ("1ki", False, False), ("1K", False, False),
        ("+-1", False, False), ("1_0", False, False), ("0x1", False, False), ("1e٣", False, False),
    ],
)  # fmt: skip
def test_odd_forms_are_read_exactly_where_a_built_in_kind_stores_them(
    text: str, built_in: bool, custom: bool
) -> None:
    """What a custom resource has beyond these is no amount: such an object is set aside."""
    try:
        parse_quantity(text)
    except InvalidQuantity:
        assert not built_in
    else:
        assert built_in
    assert (re.fullmatch(CUSTOM, text, re.ASCII) is not None) is custom
