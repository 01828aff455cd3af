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


_NANOS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6,
    "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_LARGEST_NANOS: Final = 2**63 - 1  # some 292 years
LONGEST_S: Final = _LARGEST_NANOS / 10**9


class InvalidDuration(ValueError):
    """A value that is no duration; the caller adds the path of the field."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return f"{self.value!r} is not a duration (write 10m, 1h30m or 500ms)"


def parse_duration(text: str) -> float:
    """Seconds, the closest float to the exact value.  Below a nanosecond is cut off.

    Raises ``InvalidDuration``, also for what exceeds 292 years, which no implementation can hold.
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
        if nanos > _LARGEST_NANOS:
            raise InvalidDuration(text)
    if position == 0:
        raise InvalidDuration(text)
    return sign * nanos / 10**9


def format_duration(seconds: float) -> str:
    """Whole seconds as Go writes them: ``0s``, ``90s`` as ``1m30s``, ``1h0m5s``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


INT32_MAX: Final = 2**31 - 1
_DIGITS: Final = len(str(INT32_MAX))


def positive_int32(text: str) -> int | None:
    """The number that ``text`` writes in ASCII digits, if the API could store it and it is at least 1."""
    # The length first: a text of megabytes may consist of digits, and reading it would raise, or take long.
    if len(text) > _DIGITS or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if 0 < number <= INT32_MAX else None
