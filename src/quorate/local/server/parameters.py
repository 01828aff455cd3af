"""Parameters of the query string, read as apimachinery reads them."""

from collections.abc import Mapping

from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.local.objects.errors import bad_request


def boolean(query: Mapping[str, str], name: str) -> bool:
    """Return a boolean: False if it is absent, ``0`` or ``false`` in any case, else True.

    Also the empty value is True, as in ``Convert_Slice_string_To_bool`` of apimachinery.
    """
    return query.get(name, "0") != "0" and query[name].lower() != "false"


def unsigned(text: str) -> int:
    """Return a number without sign, such as a resourceVersion.  Raises ValueError with the text of Go."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    digits = text.lstrip("0") or "0"
    if len(digits) > 20 or int(digits) >= 1 << 64:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(digits)


def integer(query: Mapping[str, str], name: str) -> int | None:
    """Return an integer, or None if it is absent.  Raises StatusError(400)."""
    text = query.get(name)
    if text is None:
        return None
    if not text.removeprefix("-").isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(text) > 20 or not -(1 << 63) <= int(text) < 1 << 63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def check_timeout(query: Mapping[str, str]) -> None:
    """Raise StatusError(400) for a ``timeout`` that is no duration.  A valid timeout has no effect."""
    text = query.get("timeout", "")
    try:
        if text:
            parse_duration(text)
    except InvalidDuration as error:
        message = f'invalid timeout specified in the request URL - time: invalid duration "{text}"'
        raise bad_request(message) from error
