"""Durations have Go's syntax and are exact; counts are positive int32."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.syntax import InvalidDuration, format_duration, parse_duration, positive_int32


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("0", 0.0),
        ("-0", 0.0),
        ("0s", 0.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("2.s", 2.0),
        ("-1m", -60.0),
        ("+1m", 60.0),
        ("1h0m0.1s", 3600.1),
        ("7us", 7e-6),
        ("7µs", 7e-6),
        ("3ns", 3e-9),
        ("0.9ns", 0.0),
        ("9223372036854775807ns", 9223372036.854775807),
    ],
)
def test_parse_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "10", "m", "-", ".", ".s", "10 m", "1d", "5min", "1m-2s", "٣s", "300000000h", "1h 2m", "1e3s"],
)
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(InvalidDuration, match="is not a duration") as refusal:
        parse_duration(text)
    assert refusal.value.value == text


@given(st.integers(0, 10**5), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_parts_add_up(hours: int, minutes: int, seconds: int, millis: int) -> None:
    whole_ms = ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis
    assert parse_duration(f"{hours}h{minutes}m{seconds}s{millis}ms") == whole_ms / 1000
    assert parse_duration(f"{whole_ms}ms") == whole_ms / 1000


@given(st.integers(0, 10**9))
def test_format_duration_is_the_inverse_of_parse_duration(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (90.9, "1m30s"), (3605, "1h0m5s")])
def test_format_duration_uses_go_s_format(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1", 1),
        ("0012", 12),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("0", None),
        ("-1", None),
        ("+1", None),
        ("", None),
        ("٣", None),
        ("1e3", None),
        ("9" * 5000, None),
    ],
)
def test_positive_int32(text: str, want: int | None) -> None:
    assert positive_int32(text) == want
