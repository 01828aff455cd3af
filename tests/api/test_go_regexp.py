"""Patterns match as in Go, in linear time."""

import pytest

from quorate.api.go_regexp import InvalidPattern, Pattern


@pytest.mark.parametrize(
    ("pattern", "text", "want"),
    [
        pytest.param("^[a-z]+$", "abc", True, id="plain"),
        pytest.param("^[a-z]+$", "abc\n", False, id="$ does not match before a final newline"),
        pytest.param("^(?i)abc$", "ABC", True, id="flags anywhere"),
        pytest.param("^(a(?i)b)c$", "aBc", True, id="flags end with their group"),
        pytest.param("^(a(?i)b)c$", "aBC", False, id="flags end at the end of their group"),
        pytest.param("^(?i)(a|b)$", "B", True, id="flags apply to nested groups"),
        pytest.param(r"^\d$", "٣", False, id="digits are ASCII"),
        pytest.param("^[[:alpha:]_]+$", "a_Z", True, id="POSIX classes"),
        pytest.param(r"^[\]$()]+$", "]$()", True, id="bracket expressions are kept"),
        pytest.param("^[]a]$", "]", True, id="a leading bracket in brackets"),
        pytest.param(r"^\$\(\)$", "$()", True, id="escapes are kept"),
        pytest.param(r"a\z", "a\n", False, id="\\z"),
        pytest.param(r"^\pL+$", "Straße", True, id="Unicode classes"),
        pytest.param("^(a+)+$", "a" * 100_000 + "!", False, id="nested repetition does not backtrack"),
    ],
)
def test_patterns(pattern: str, text: str, want: bool) -> None:
    assert (Pattern(pattern).search(text) is not None) is want


@pytest.mark.parametrize("pattern", ["(", "a)", "[", "*", "a**", "(?!a)", r"(a)\1", "a{1001}"])
def test_an_invalid_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        Pattern(pattern)
