"""The memory of searches for victims that found nothing, so that they are repeated only after a change."""

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
