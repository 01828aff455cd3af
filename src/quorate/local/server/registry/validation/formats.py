"""Names, keys and labels: the small grammars every object uses.  A rule yields what is wrong, in words."""

import re
from collections.abc import Iterator

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
SERVICE_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
ENVIRONMENT_NAME = re.compile(r"[\x20-\x3c\x3e-\x7e]+")
DOMAIN_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


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


def port_name(value: str) -> Iterator[str]:
    if len(value) > 15:
        yield "must be no more than 15 characters long"
    if not PORT_NAME.fullmatch(value):
        yield (
            "must contain only lower case letters, digits and single hyphens between them,"
            " and at least one letter"
        )


def data_key(value: str) -> Iterator[str]:
    """A key of a ConfigMap or a Secret, which becomes the name of a file."""
    if len(value) > 253:
        yield "must be no more than 253 bytes"
    if not DATA_KEY.fullmatch(value):
        yield "a valid key must consist of alphanumeric characters, '-', '_' or '.'"
    if value in (".", "..") or value.startswith(".."):
        yield "must not be '.' nor start with '..'"


def environment_name(value: str) -> Iterator[str]:
    if not ENVIRONMENT_NAME.fullmatch(value):
        yield "must consist only of printable ASCII characters other than '='"


def domain_path(value: str) -> Iterator[str]:
    """``example.com/controller``: who is responsible for an object."""
    domain, slash, path = value.partition("/")
    if not (domain and slash and path):
        yield 'must be a domain-prefixed path (such as "acme.io/foo")'
        return
    yield from subdomain(domain)
    if not DOMAIN_PATH.fullmatch(path):
        yield "the path may only consist of the characters that the path of an address may have"
