"""The turns of gangs in the search for victims, so that sessions are short and no gang is left out."""

from collections.abc import Container
from typing import Final, NamedTuple

from quorate.api.meta import Key

# What the searches of a session cost together: nodes tried for a task, of which 7 take a millisecond.
MAX_WORK: Final = 10_000


class _Turn(NamedTuple):
    session: int  # of the last search, or before the first session in which the gang was to search
    cost: int | None  # of the last session with a search; None: there was none


class SearchTurns:
    """The gangs that may search for victims in a session.

    Searches are made until they have cost ``most_work``; at least one gang has a turn.  The gangs with the
    oldest last search come first, as many as their last searches say fit.  So each of n gangs has a search in
    ceil(n / k) sessions, if k of the costliest searches cost ``most_work``, or k is 1.  Kept in memory only:
    a new leader begins with the oldest gangs.
    """

    def __init__(self, most_work: float = MAX_WORK) -> None:
        self._most_work = most_work
        self.work = 0  # of the searches since the first session
        self._session = 0
        self._turns: dict[Key, _Turn] = {}  # of the gangs that wait and were to search
        self._may_search: set[Key] = set()
        self._planned: frozenset[Key] = frozenset()  # gangs that may search from the beginning of the session
        self._left = most_work  # beside what these cost
        self.searched: dict[Key, int] = {}  # the gangs that searched in this session, with the cost
        self.skipped: dict[Key, None] = {}  # the gangs that were to search in this session and had no turn

    def begin_session(self, waiting: Container[Key]) -> None:
        """Decide which gangs have a turn; forget gangs that do not wait any more."""
        for gang in self._planned - self.searched.keys():  # they did not need their turn
            self._turns[gang] = self._turns[gang]._replace(session=self._session)
        turns = {gang: turn for gang, turn in self._turns.items() if gang in waiting}
        self._turns = dict(sorted(turns.items(), key=lambda item: item[1].session))
        usual = max((turn.cost for turn in self._turns.values() if turn.cost is not None), default=0)
        self._session += 1
        self._may_search, self._left = set(), self._most_work
        for gang, turn in self._turns.items():
            expected = usual if turn.cost is None else turn.cost
            if self._may_search and expected > self._left:
                self._left = 0  # for gangs that are not known yet: others wait longer
                break
            self._may_search.add(gang)
            self._left -= expected
        self._planned = frozenset(self._may_search)
        self.searched, self.skipped = {}, {}

    def prefer(self, gang: Key) -> None:
        """Give ``gang`` a turn in this session, whatever it costs."""
        self._may_search.add(gang)

    def may_search(self, gang: Key) -> bool:
        """Return True if it is the turn of ``gang``; else note that it waits for one."""
        if gang not in self._turns and self._left > 0:
            self._may_search.add(gang)
        if gang in self._may_search:
            return True
        self._turns.setdefault(gang, _Turn(self._session - 1, None))
        self.skipped[gang] = None
        return False

    @property
    def not_yet_searched(self) -> list[Key]:
        """The gangs that had no turn in this session nor in an earlier one."""
        return [gang for gang in self.skipped if self._turns[gang].cost is None]

    def add(self, gang: Key, work: int) -> None:
        """Count a search of ``gang``."""
        if gang not in self._planned:
            self._left -= work
        self.searched[gang] = self.searched.get(gang, 0) + work
        self._turns[gang] = _Turn(self._session, self.searched[gang])
