"""Limits of the objects that every package reads and writes."""

from typing import Final

# The JSON from which an object is processed beside the event loop, or in parts: it takes some milliseconds.
LARGE_BYTES: Final = 64 * 1024
# Objects, lists and their entries that have about so many bytes, where JSON is not made yet.
MANY_VALUES: Final = LARGE_BYTES // 13
