"""Searches for victims are repeated only if something changed that they read.

A search reads objects, the decisions of earlier sessions, which are in ``Model.version``, and what this
session has decided before it: binds and evictions, which are there too, and the tasks that hold nodes until
the session ends.  If time matters, because a plugin protects pods for a while, the search asks for a session
at the end of that time.

Searches of gangs without a turn in this session wait for a later one (``SearchTurns``).  What searches for
several gangs have in common is computed once while nothing moves.
"""

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.refused_searches import RefusedSearch
from quorate.gang.outcome import EvictionAction
from quorate.gang.session.session import Session

T = TypeVar("T")
RETRY_S: Final = 1.0  # until the next session, if gangs are left without a search


def computed_once(session: Session, key: Hashable, compute: Callable[[], T]) -> T:
    """Return ``compute()``, or its former result for ``key`` in this session if nothing has moved since.

    If the result depends on time, ``compute`` asks for a later session.  A former result asks for that
    session again.
    """
    state = (session.model.version, session.cluster.rows_version, session.held)
    if key not in session.computed or session.computed[key][0] != state:
        wake_at, session.wake_at = session.wake_at, None
        result = compute()
        session.computed[key] = (state, result, session.wake_at)
        session.wake_at = wake_at
    _, result, until = session.computed[key]
    session.wake(until)
    return result


def search_unless_refused(
    session: Session, action: EvictionAction, gang: Gang, search: Callable[[], bool]
) -> bool:
    """Return the result of ``search``, which evicts for ``gang``, or False if it found nothing before.

    Once whole gangs have been tried, a search does less than before: what found nothing then, finds nothing.
    """
    memory, tried = session.model.refused_searches, session.whole_evictions_tried
    has_tried = gang.key in tried
    state = (session.model.version, session.settings)
    key = (action, gang.key, "allocate" in session.later_actions, session.held)
    refused = memory.find(state, (key, False), session.now)
    if refused is None and has_tried:
        refused = memory.find(state, (key, True), session.now)
    if refused is None:
        turns, before = session.search_turns, session.search_turns.work
        if not turns.may_search(gang.key):
            session.wake(session.now + RETRY_S)
            return False
        wake_at, session.wake_at = session.wake_at, None
        is_found = search()
        turns.add(gang.key, turns.work - before)
        until, session.wake_at = session.wake_at, wake_at
        session.wake(until)
        if is_found:
            return True
        memory.add(state, (key, has_tried), RefusedSearch(until, gang.key in tried))
        return False
    session.wake(refused.until)
    if refused.tried_whole_gangs:
        tried.add(gang.key)
    return False
