"""The memory of searches for victims that found nothing, so that every waiting group has its turn."""

from collections.abc import Hashable


class RefusedPlans:
    """The classes of equal groups without victims, with the session of the last search.

    Kept in memory only: without it the searches begin anew with the oldest groups.
    """

    def __init__(self) -> None:
        self._session = 0
        self._searched: dict[Hashable, int] = {}

    def begin_session(self, searches: int) -> None:
        """Begin the next session of ``searches`` at most; forget classes that had no search for long."""
        self._session += 1
        oldest = self._session - 2 * self._period(searches)
        for group in [each for each, session in self._searched.items() if session < oldest]:
            del self._searched[group]

    def is_due(self, group: Hashable, searches: int) -> bool:
        """Return True if ``group`` may have a search, when each session has ``searches`` at most."""
        last = self._searched.get(group)
        return last is None or self._session - last >= self._period(searches)

    def add(self, group: Hashable) -> None:
        self._searched[group] = self._session

    def discard(self, group: Hashable) -> None:
        self._searched.pop(group, None)

    def _period(self, searches: int) -> int:
        return max(1, -(-len(self._searched) // searches))
