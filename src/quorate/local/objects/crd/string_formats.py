"""String formats of schemas; unlisted formats are not checked."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime

_DURATION = re.compile(
    r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
    r"((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*|[+-]?0"
)
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_HOSTNAME = re.compile(
    r"(?=.{1,253}\.?$)[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*\.?"
)


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _date_time(text: str) -> object:
    if not _DATE_TIME.fullmatch(text):
        raise ValueError(text)
    return datetime.fromisoformat(text.upper())


def _network(text: str) -> object:
    return ipaddress.ip_interface(text) if "/" in text else int("no prefix length")


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "cidr": _parses(_network),
    "date": _parses(date.fromisoformat),
    "date-time": _parses(_date_time),
    "datetime": _parses(_date_time),
    "duration": _matches(_DURATION),
    "email": _matches(re.compile(r"[^@\s]+@[^@\s]+")),
    "hostname": _matches(_HOSTNAME),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "mac": _matches(re.compile(r"([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2})")),
    "uri": _matches(re.compile(r"[A-Za-z][-A-Za-z0-9+.]*:\S+|/\S*")),
    "uuid": _matches(re.compile(r"[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}")),
}
