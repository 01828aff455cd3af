"""Quantities of built-in kinds as a real kube-apiserver answers them."""

import pytest

from quorate.api.quantity import InvalidQuantity
from quorate.local.objects.decoding import MILLI, quantity_error, stored_text

STORED = {
    "0": "0", "5": "5", "+5": "+5", "05": "05", "-5": "-5", " 5 ": "5", "": None, ".": "0", "+": "0",
    "k": "0", "Ti": "0", "Pi": None, "e-10": None, "1000": "1k", "100k": "100k", "1000k": "1M",
    "1000000": "1M", "0.1": "100m", ".5": "500m", "5.": "5.", "1.5": "1500m", "1.50": "1500m",
    "1.500": "1.500", "0.100": "100m", "1000m": "1", "500m": "500m", "1500m": "1500m", "1E3": "1E3",
    "1e3": "1e3", "1e1": "10", "12e-3": "12e-3", "1e-1": "100e-3", "1e-9": "1e-9", "1e-10": "1e-9",
    "1.5n": "2n", "0.0000000001": "1n", "1Ki": "1Ki", "1024": "1024", "1024Ki": "1Mi",
    "1023Ki": "1023Ki", "512Ki": "512Ki", "0.5Ki": "512", "1.5Ki": "1536", "1.3Ki": "1331200m",
    "0.1Ki": "102400m", "0.0001Ki": "102400u", "8Ei": "9223372036854775807",
    "-16Ei": "-9223372036854775807", "1E400": "10e399", "1E399": "1E399", "1e-400": "1e-9", "12E": "12E",
    "1E4294967296": "1E4294967296", "1e9223372036854775808": None,
    "9223372036854775808": "9223372036854775808", "999999999999999999999m": "999999999999999999999m",
    "1.9999999999": "2", "9.99999999999": "10", "1KI": None, "1 k": None, "0x10": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "stored"), STORED.items())
def test_stored_text(text: str, stored: str | None) -> None:
    if stored is None:
        with pytest.raises(InvalidQuantity):
            stored_text(text)
    else:
        assert stored_text(text) == stored
        assert stored_text(stored) == stored


def test_a_text_of_hundreds_of_kilobytes_is_rounded() -> None:
    assert stored_text("0." + "9" * 300_000) == "1"
    assert stored_text("7" * 300_000 + "." + "1" * 300_000).startswith("7" * 300_000 + "111111112n")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("1.5n", "1m"), ("1e-10", "1e-3"), ("0.0001Ki", "103m"), ("1.0001", "1001m"), ("1.500", "1.500"),
        ("7.99999999999Ei", "9223372036843246592954m"), ("12e-6", "1e-3"), ("1.3Ki", "1331200m"),
        ("1000000000000E", "1"), ("1" + "0" * 30, "1"),
    ],
)  # fmt: skip
def test_amounts_of_resources_are_rounded_up_to_thousandths(text: str, stored: str) -> None:
    """The last two are larger than every suffix: the server itself forgets the power of ten."""
    assert stored_text(text, MILLI) == stored


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Pi", "unable to parse numeric part of quantity"),
        ("e-10", "unable to parse numeric part of quantity"),
        ("1e9223372036854775808", "unable to parse quantity's suffix"),
        ("1kk", "unable to parse quantity's suffix"),
        (
            "1KI",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_error_messages_are_those_of_the_server(text: str, message: str) -> None:
    assert quantity_error(text) == message
