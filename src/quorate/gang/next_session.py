"""What the session after a session would evict, so that no pods are started only to be evicted at once.

A session decides gang by gang.  Its last binds may change what earlier gangs are owed: an admitted group has
no room for its claim any more, a queue exceeds its share, or a pod with a node is a victim.  The next one,
on an unchanged world, would evict pods that have just been bound.  So it is rehearsed before the binds are
written.  Pods that it evicts are not bound, and the other decisions of both sessions are written together.

The rehearsal is as costly as a session.  There is none unless a gang waits with its pods that might have pods
evicted which this session binds.  Profiles other than ``compat`` only.
"""

from collections.abc import Callable, Iterable
from typing import Final

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.refused_searches import RefusedPlans
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.job_status import renew_evicted_groups
from quorate.gang.session.session import Session
from quorate.gang.session.victims import has_possible_victims
from quorate.gang.session_opening import open_session

MAX_ROUNDS: Final = 4  # sessions that are rehearsed one after the other
RETRY_S: Final = 1.0  # until the next session, after pods were not bound


def without_late_evictions(
    session: Session, decide: Callable[[Session], None], rounds: int = MAX_ROUNDS
) -> Session:
    """Return ``session``, or the session after it that has the decisions of both.

    ``decide`` runs the actions of a session.  Pods that the next session would evict are not bound.
    ``rounds``: how many sessions are rehearsed at most, one after the other.
    """
    has_room = False  # of pods that were not bound
    while rounds and (has_room or _may_evict_bound(session)):
        rounds -= 1
        following = _following(session, decide, rounds, may_bind=has_room)
        if following is None:
            break
        session, has_room = following, True
    return session


def _may_evict_bound(session: Session) -> bool:
    """Return False if nothing that ``session`` binds can be a victim of a gang that waits with its pods."""
    actions = session.settings.actions
    if not (
        session.rules.evicts_in_turn and session.binds and ("preempt" in actions or "reclaim" in actions)
    ):
        return False
    bound = {session.model.gangs[bind.gang] for bind in session.binds}
    victims = {(gang.queue, gang.priority): gang for gang in bound}.values()
    waiting = {
        (gang.queue, gang.priority): gang
        for gang in session.gangs
        if gang.schedulable and not gang.is_suspended and (gang.is_starving or gang in bound)
    }.values()
    return any(_may_evict(session, gang, victim) for gang in waiting for victim in victims)


def _may_evict(session: Session, gang: Gang, victim: Gang) -> bool:
    if gang.queue != victim.queue:
        return "reclaim" in session.settings.actions and session.queue_of(victim).reclaimable
    return "preempt" in session.settings.actions and (
        victim.priority < gang.priority or has_possible_victims(session, "preempt", gang, victim)
    )


def _following(
    session: Session, decide: Callable[[Session], None], rounds: int, *, may_bind: bool
) -> Session | None:
    """Return the session after ``session`` if it evicts what ``session`` binds; else None.

    ``may_bind``: also if it binds more, to the room of pods that were not bound.
    """
    model, revision, plans = session.model, session.model.revision, session.model.refused_plans
    gangs = [(gang, gang.phase, gang.admission, gang.reported.events) for gang in model.gangs.values()]
    bound = {bind.task: model.gangs[bind.gang].tasks[bind.task] for bind in session.binds}
    held = session.release_held()
    _move(bound.values(), TaskStatus.BINDING, TaskStatus.BOUND, session)
    model.note_change()  # of the statuses, which searches read
    following: Session | None = None
    is_late = False
    try:
        model.refused_plans = RefusedPlans()
        renew_evicted_groups(session)
        following = open_session(model, session.settings, session.now)
        following.search_turns = session.search_turns
        decide(following)
        following = without_late_evictions(following, decide, rounds)
        is_late = any(eviction.task in bound for eviction in following.evictions)
        is_late |= may_bind and bool(following.binds)
    finally:
        model.refused_plans = plans
        if following is not None and not is_late:
            following.undo()
        _move(bound.values(), TaskStatus.BOUND, TaskStatus.BINDING, session)
        if not is_late:
            for move in held:
                model.set_task_status(move.task, move.from_status, move.from_node)
            session.hold(move.inverse for move in held)
            for gang, phase, admission, events in gangs:
                gang.phase, gang.admission, gang.reported.events = phase, admission, events
            model.revision = revision
    if not is_late:
        return None
    _join(session, following)
    return following


def _move(tasks: Iterable[Task], before: TaskStatus, after: TaskStatus, session: Session) -> None:
    for task in tasks:
        if task.status is before:
            session.model.set_task_status(task, after, task.node)


def _join(session: Session, following: Session) -> None:
    """Add the decisions of ``session`` to ``following``, without the binds of pods that this evicts."""
    following.binds[:0] = session.binds
    following.evictions[:0] = session.evictions
    following.events[:0] = session.events
    following.admitted[:0] = session.admitted
    following.rolled_back[:0] = session.rolled_back
    following.wake(session.wake_at)
    following.wake(session.now + RETRY_S)
    assumed, gangs = following.model.assumed, following.model.gangs
    binds = {bind.task: bind for bind in following.binds}
    following.nominations[:0] = [
        nomination for nomination in session.nominations if nomination.task not in binds
    ]
    late = [eviction for eviction in following.evictions if eviction.task in binds]
    for eviction in late:
        task = gangs[eviction.gang].tasks[eviction.task]
        assumed.eviction_failed(eviction)
        following.model.set_task_status(task, TaskStatus.BINDING, task.node)
        assumed.bind_failed(binds.pop(eviction.task))
    broken = {eviction.gang for eviction in late if not following.is_ready(gangs[eviction.gang])}
    for bind in [bind for bind in binds.values() if bind.gang in broken]:
        assumed.bind_failed(binds.pop(bind.task))  # no gang starts in part
    following.evictions = [eviction for eviction in following.evictions if eviction not in late]
    following.binds = list(binds.values())
