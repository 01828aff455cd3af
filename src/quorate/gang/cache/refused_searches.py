"""The memory of searches for victims that found nothing.

``RefusedSearches``: a search of a session is repeated only after a change.  ``RefusedPlans``: the searches
for groups that wait for admission are limited, and every waiting group gets one in its turn.
"""

from collections.abc import Hashable
from typing import NamedTuple


class RefusedSearch(NamedTuple):
    """What a search did beside finding nothing."""

    until: float | None  # when time alone may change its result, in seconds since the epoch; None: never
    tried_whole_gangs: bool


class RefusedSearches:
    """The searches that found nothing, all in one state of the model.

    Kept in memory only: a new leader searches again.
    """

    def __init__(self) -> None:
        self._state: object = None  # in which all of them found nothing
        self._refused: dict[Hashable, RefusedSearch] = {}

    def find(self, state: object, search: Hashable, now: float) -> RefusedSearch | None:
        """Return what ``search`` did if it found nothing in ``state``, which lasts; else None."""
        refused = self._refused.get(search) if state == self._state else None
        return refused if refused is not None and (refused.until is None or now < refused.until) else None

    def add(self, state: object, search: Hashable, refused: RefusedSearch) -> None:
        if state != self._state:
            self._state = state
            self._refused.clear()
        self._refused[search] = refused


class _Search(NamedTuple):
    session: int
    version: Hashable  # of the model


class RefusedPlans:
    """The classes of equal groups without victims, each with the last search.

    A search is repeated when the model has changed, and after the searches for all other classes.  Kept in
    memory only: a new leader begins with the oldest groups.
    """

    def __init__(self) -> None:
        self._session = 0
        self._version: Hashable = None  # of the model, see ``Model.version``
        self._searches_per_session = 1
        self._searched: dict[Hashable, _Search] = {}
        self._waiting: set[Hashable] = set()  # for a search, at the end of the last session
        self._skipped: set[Hashable] = set()  # in this session

    def begin_session(self, version: Hashable, searches: int) -> None:
        """Begin the next session with ``searches`` at most; forget classes without a search for long."""
        self._session += 1
        self._version, self._searches_per_session = version, searches
        self._waiting, self._skipped = self._skipped, set()
        oldest = self._session - 2 * self._period
        for group in [searched for searched, last in self._searched.items() if last.session < oldest]:
            del self._searched[group]

    def is_current(self, group: Hashable) -> bool:
        """Return True if nothing has changed since the search for ``group``."""
        last = self._searched.get(group)
        return last is not None and last.version == self._version

    def is_due(self, group: Hashable) -> bool:
        """Return True if a search for ``group`` is next, as far as sessions have searches left."""
        last = self._searched.get(group)
        return last is None or self._session - last.session >= self._period

    def skip(self, group: Hashable) -> None:
        """Leave the search for ``group`` to a later session."""
        self._skipped.add(group)

    def add(self, group: Hashable) -> None:
        self._searched[group] = _Search(self._session, self._version)

    def discard(self, group: Hashable) -> None:
        self._searched.pop(group, None)

    @property
    def _period(self) -> int:
        groups = len(self._searched.keys() | self._waiting)
        return max(1, -(-groups // self._searches_per_session))
