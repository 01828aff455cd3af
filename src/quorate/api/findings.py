"""Validation findings: what is wrong with a field, as a value."""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

INVALID: Final = "FieldValueInvalid"
MISSING: Final = "is missing"  # begins the rule of an absent field, which has no value to show


class Finding(msgspec.Struct, frozen=True):
    """A field violates a rule; an empty path is the whole document.

    The text of ``rule`` completes "path: value ..." and says what value is allowed.
    """

    path: str
    value: object
    rule: str
    line: int = 0  # line in the source text, from 1; 0 if the object has no source text
    reason: str = INVALID  # machine-readable reason, if the rule has one of its own

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        shown = "" if self.value is None and self.rule.startswith(MISSING) else f"{quote_value(self.value)} "
        path = f"{self.path}: " if self.path else ""
        return f"{where}{path}{shown}{self.rule}"


_MAX_QUOTED_LENGTH = 80


def quote_value(value: object) -> str:
    """Return ``value`` for a message: text in quotes, other values as JSON, truncated when long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_QUOTED_LENGTH else f"{text[:_MAX_QUOTED_LENGTH]}..."


def format_findings(findings: Iterable[Finding]) -> str:
    """Return the findings, one per line, in order."""
    return "\n".join(str(finding) for finding in findings)


def child_path(path: str, key: str) -> str:
    """Return the path of a field: ``spec`` and ``name`` give ``spec.name``.

    A key with other characters than letters, digits, hyphens and underscores is bracketed:
    ``metadata.labels[example.com/a]``.
    """
    if not key.replace("-", "").replace("_", "").isalnum():
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key
