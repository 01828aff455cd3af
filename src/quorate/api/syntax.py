"""Text formats of the Kubernetes API: names, label keys and values, durations, counts.

Sources: API conventions, "Names and Namespaces" and "Labels"; Go's ``time.ParseDuration``.
"""

import re
from functools import lru_cache
from typing import Final

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_QUALIFIED_PART: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def is_dns_label(text: str) -> bool:
    """Return True for a DNS-1123 label: lower case letters, digits and ``-``, at most 63."""
    return len(text) <= 63 and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Return True for a DNS-1123 subdomain (labels joined by dots, at most 253 characters).

    Most object names have this form.
    """
    return len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Return True for the key of a label, annotation or resource: ``cpu``, ``example.com/gpu``."""
    prefix, slash, name = text.rpartition("/")
    if slash and not _is_prefix(prefix):
        return False
    return len(name) <= 63 and _QUALIFIED_PART.fullmatch(name) is not None


def _is_prefix(text: str) -> bool:
    return len(text) <= 253 and _is_cached_subdomain(text)


@lru_cache(maxsize=256)  # keys have few different prefixes
def _is_cached_subdomain(text: str) -> bool:
    return is_dns_subdomain(text)


def is_label_value(text: str) -> bool:
    return not text or (len(text) <= 63 and _QUALIFIED_PART.fullmatch(text) is not None)


_NANOS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6,
    "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_MAX_NANOS: Final = 2**63 - 1  # 292 years
MAX_DURATION_S: Final = _MAX_NANOS / 10**9


class InvalidDuration(ValueError):
    """The value is not a duration; the caller adds the path of the field."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return f"{self.value!r} is not a duration (write 10m, 1h30m or 500ms)"


def parse_duration(text: str) -> float:
    """Return the seconds of ``10m``, ``1h30m`` or ``500ms`` as the nearest float.

    Fractions of a nanosecond are truncated. Raises ``InvalidDuration``, also above 292 years (Go's maximum).
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    nanos, position = 0, 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]):
            raise InvalidDuration(text)
        whole, fraction, unit = part[1] or "0", part[2] or "", _NANOS[part[3]]
        nanos += int(whole) * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        position = part.end()
        if nanos > _MAX_NANOS:
            raise InvalidDuration(text)
    if position == 0:
        raise InvalidDuration(text)
    return sign * nanos / 10**9


def format_duration(seconds: float) -> str:
    """Return whole seconds in Go's format: ``0s``, ``90s`` as ``1m30s``, ``1h0m5s``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


INT32_MAX: Final = 2**31 - 1
_DIGITS: Final = len(str(INT32_MAX))


_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def parse_boolean(text: str) -> bool | None:
    """Return the boolean in the notation of Go's ``strconv.ParseBool``; None: ``text`` has none."""
    return _BOOLEANS.get(text)


def positive_int32(text: str) -> int | None:
    """Return the positive int32 that ``text`` holds in ASCII digits, or None."""
    # Check the length first: parsing a long text of digits is slow or raises an error.
    if len(text) > _DIGITS or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if 0 < number <= INT32_MAX else None


def signed_int32(text: str) -> int | None:
    """Return the int32 that ``text`` holds in ASCII digits, with or without a sign, or None."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    if len(digits) > _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -INT32_MAX - 1 <= number <= INT32_MAX else None
