"""What is wrong with a field, as a value: everything that validates answers with these."""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

ROOT: Final = "."  # how messages name a document as a whole


INVALID: Final = "FieldValueInvalid"


class Finding(msgspec.Struct, frozen=True):
    """One field breaks one rule, which completes the sentence "path: value ..." and says what would do."""

    path: str
    value: object
    rule: str
    line: int = 0  # in the text it was read from, counted from 1; 0 when it came from elsewhere
    reason: str = INVALID  # the word by which programs know the rule, of those that have one

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.path or ROOT}: {quote_value(self.value)} {self.rule}"


_MAX_QUOTED_LENGTH = 80


def quote_value(value: object) -> str:
    """``value`` as a message quotes it: text in quotes, the rest as JSON, cut when long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_QUOTED_LENGTH else f"{text[:_MAX_QUOTED_LENGTH]}..."


def format_findings(findings: Iterable[Finding]) -> str:
    """The findings one per line, in the order they were made."""
    return "\n".join(str(finding) for finding in findings)


def child_path(path: str, key: str) -> str:
    """The path of a field: ``spec`` and ``name`` give ``spec.name``; what is no word is bracketed."""
    if not key.replace("-", "").replace("_", "").isalnum():
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key
