"""Names, labels and quantities: the small grammars every object uses."""

import re
from collections.abc import Iterator

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
SERVICE_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def _regex_note(example: str, regex: str) -> str:
    return f"(e.g. {example}, regex used for validation is '{regex}')"


def subdomain(value: str) -> Iterator[str]:
    if len(value) > 253:
        yield "must be no more than 253 bytes"
    if not SUBDOMAIN.fullmatch(value):
        yield (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
            " and must start and end with an alphanumeric character "
            + _regex_note("'example.com'", r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
        )


def label(value: str) -> Iterator[str]:
    if len(value) > 63:
        yield "must be no more than 63 bytes"
    if not LABEL.fullmatch(value):
        yield (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must"
            " start and end with an alphanumeric character "
            + _regex_note("'my-name',  or '123-abc'", "[a-z0-9]([-a-z0-9]*[a-z0-9])?")
        )


def service_label(value: str) -> Iterator[str]:
    if len(value) > 63:
        yield "must be no more than 63 bytes"
    if not SERVICE_LABEL.fullmatch(value):
        yield (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
            " alphabetic character, and end with an alphanumeric character "
            + _regex_note("'my-name',  or 'abc-123'", "[a-z]([-a-z0-9]*[a-z0-9])?")
        )


def path_segment(value: str) -> Iterator[str]:
    if value in (".", ".."):
        yield f"may not be '{value}'"
    for character in "/%":
        if character in value:
            yield f"may not contain '{character}'"


def qualified(value: str) -> Iterator[str]:
    """A label key: ``name`` or ``example.com/name``."""
    prefix, slash, name = value.rpartition("/")
    if slash and not prefix:
        yield "prefix part must be non-empty"
    if "/" in prefix:
        yield (
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.'"
            " with an optional DNS subdomain prefix and '/'"
        )
        return
    if prefix:
        yield from (f"prefix part {finding}" for finding in subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    elif len(name) > 63:
        yield "name part must be no more than 63 bytes"
    if not QUALIFIED_PART.fullmatch(name):
        yield (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with"
            " an alphanumeric character "
            + _regex_note(
                "'MyName',  or 'my.name',  or '123-abc'", "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
            )
        )


def label_value(value: str) -> Iterator[str]:
    if len(value) > 63:
        yield "must be no more than 63 bytes"
    if not LABEL_VALUE.fullmatch(value):
        yield (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
            " and must start and end with an alphanumeric character "
            + _regex_note(
                "'MyValue',  or 'my_value',  or '12345'", "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
            )
        )
