"""Patterns in Go's syntax match what they would match there."""

import re

import pytest

from quorate.local.objects.crd.go_regexp import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "want"),
    [
        pytest.param("^[a-z]+$", "abc", True, id="plain"),
        pytest.param("^[a-z]+$", "abc\n", False, id="an end is no newline before the end"),
        pytest.param("^(?i)abc$", "ABC", True, id="flags anywhere"),
        pytest.param("^(a(?i)b)c$", "aBc", True, id="flags end with their group"),
        pytest.param("^(a(?i)b)c$", "aBC", False, id="flags do not outlive their group"),
        pytest.param("^(?i)(a|b)$", "B", True, id="flags hold in groups that follow"),
        pytest.param(r"^\d$", "٣", False, id="digits are ASCII"),
        pytest.param("^[[:alpha:]_]+$", "a_Z", True, id="POSIX classes"),
        pytest.param(r"^[\]$()]+$", "]$()", True, id="brackets are taken as they are"),
        pytest.param("^[]a]$", "]", True, id="a bracket first in brackets"),
        pytest.param(r"^\$\(\)$", "$()", True, id="escapes are taken as they are"),
        pytest.param(r"a\z", "a\n", False, id="the very end"),
    ],
)
def test_patterns(pattern: str, text: str, want: bool) -> None:
    assert bool(compile_pattern(pattern).search(text)) is want


@pytest.mark.parametrize("pattern", ["(", "a)", "[", "*", r"\pL"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(re.error):
        compile_pattern(pattern)
