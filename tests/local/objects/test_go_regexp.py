"""Translated Go patterns match as in Go."""

import re

import pytest

from quorate.local.objects.crd.go_regexp import compile_pattern


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
    ],
)
def test_patterns(pattern: str, text: str, want: bool) -> None:
    assert bool(compile_pattern(pattern).search(text)) is want


@pytest.mark.parametrize("pattern", ["(", "a)", "[", "*", r"\pL"])
def test_an_invalid_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(re.error):
        compile_pattern(pattern)
