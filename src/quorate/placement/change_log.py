"""Which nodes changed, in order, for everybody who keeps something that follows from them.

A reader remembers the position it has read to and asks for what came after, when it next needs to know.  So a
change costs its maker one entry, whoever reads, and a hundred changes of one node cost a reader one.
"""

from typing import Final

# Entries kept.  A reader further behind looks at all nodes: with so many entries that costs it no more.
_KEPT: Final = 8_192


class ChangeLog:
    """Positions count entries from the first one ever noted; a fresh reader starts at ``end``."""

    __slots__ = ("_dropped", "_entries")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._dropped = 0

    @property
    def end(self) -> int:
        return self._dropped + len(self._entries)

    def note(self, index: int) -> None:
        self._entries.append(index)
        if len(self._entries) > 2 * _KEPT:
            del self._entries[:_KEPT]
            self._dropped += _KEPT

    def since(self, position: int) -> list[int] | None:
        """The nodes that changed after ``position``, each once, in order; None: any of them may have."""
        if position < self._dropped:
            return None
        return sorted(set(self._entries[position - self._dropped :]))
