"""Searches for victims are repeated only if something changed that they read.

A search reads objects, the decisions of earlier sessions, which are in ``Model.version``, and what this
session has decided before it: binds and evictions, which are there too, and the tasks that hold nodes until
the session ends.  If time matters, because a plugin protects pods for a while, the search asks for a session
at the end of that time.
"""

from collections.abc import Callable

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.refused_searches import RefusedSearch
from quorate.gang.outcome import EvictionAction
from quorate.gang.session.session import Session


def search_unless_refused(
    session: Session, action: EvictionAction, gang: Gang, search: Callable[[], bool]
) -> bool:
    """Return the result of ``search``, which evicts for ``gang``, or False if it found nothing before."""
    memory, tried = session.model.refused_searches, session.whole_evictions_tried
    state = (session.model.version, session.settings)
    key = (action, gang.key, "allocate" in session.later_actions, gang.key in tried, session.held)
    refused = memory.find(state, key, session.now)
    if refused is None:
        wake_at, session.wake_at = session.wake_at, None
        is_found = search()
        until, session.wake_at = session.wake_at, wake_at
        session.wake(until)
        if is_found:
            return True
        memory.add(state, key, RefusedSearch(until, gang.key in tried))
        return False
    session.wake(refused.until)
    if refused.tried_whole_gangs:
        tried.add(gang.key)
    return False
