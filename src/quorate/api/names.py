"""The shapes of names the Kubernetes API accepts (API conventions, "Names and Namespaces", "Labels")."""

import re
from typing import Final

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_QUALIFIED_PART: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def is_dns_label(text: str) -> bool:
    """A DNS-1123 label: lower case letters, digits and ``-``, at most 63."""
    return len(text) <= 63 and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """DNS-1123 labels joined by dots, at most 253 characters: the name of most objects."""
    return len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """The key of a label, of an annotation or of a resource: ``cpu``, ``example.com/gpu``."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and _QUALIFIED_PART.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    return not text or (len(text) <= 63 and _QUALIFIED_PART.fullmatch(text) is not None)
