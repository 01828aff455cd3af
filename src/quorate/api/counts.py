"""Whole numbers as labels and annotations give them."""

from typing import Final

INT32_MAX: Final = 2**31 - 1
_DIGITS: Final = len(str(INT32_MAX))


def positive_int32(text: str) -> int | None:
    """The number that ``text`` writes in ASCII digits, if the API could store it and it is at least 1."""
    # The length first: a text of megabytes may consist of digits, and reading it would raise, or take long.
    if len(text) > _DIGITS or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if 0 < number <= INT32_MAX else None
