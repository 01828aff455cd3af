"""A log of changed node indexes, from which any number of caches update themselves.

A reader remembers the position up to which it has read, and asks for later changes when it next needs them.
A change costs its writer one entry however many readers there are, and a hundred changes of one node cost a
reader one update.
"""

from typing import Final

# Retained entries.  A reader that is further behind updates all nodes, which costs it no more than this many.
_RETAINED: Final = 8_192


class ChangeLog:
    """Positions count entries since the first ever appended; a new reader starts at ``end``."""

    __slots__ = ("_dropped", "_entries")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._dropped = 0

    @property
    def end(self) -> int:
        return self._dropped + len(self._entries)

    def append(self, index: int) -> None:
        self._entries.append(index)
        if len(self._entries) > 2 * _RETAINED:
            del self._entries[:_RETAINED]
            self._dropped += _RETAINED

    def since(self, position: int) -> list[int] | None:
        """Return the indexes that changed after ``position``, sorted and unique.

        None if any index may have changed.
        """
        if position < self._dropped:
            return None
        return sorted(set(self._entries[position - self._dropped :]))
