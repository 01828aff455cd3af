import pytest

from quorate.api.syntax import positive_int32


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
