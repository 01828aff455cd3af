"""Action ``reclaim``: evict tasks for starving gangs where other queues exceed their shares.

For each starving gang in turn, enough tasks are evicted to pipeline the whole gang, or none.  In profile
``design``, and with Volcano's name ``gangreclaim``, whole gangs may be evicted if evicting single tasks does
not suffice.
"""

from collections.abc import Iterator

from quorate.gang.actions.hyper_node_rooms import hard_limit
from quorate.gang.actions.ordering import GangQueues
from quorate.gang.actions.preempt import is_preemptor, place_nominated, place_without_evictions
from quorate.gang.actions.repeated_search import search_unless_refused
from quorate.gang.actions.victim_search import evict_tasks
from quorate.gang.actions.whole_gang_eviction import evict_whole_gangs
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.session.session import Session


def reclaim(session: Session) -> None:
    place_nominated(session)
    gang_queues = GangQueues(session)
    for gang in session.gangs:
        if is_preemptor(session, gang, "reclaim"):
            gang_queues.push(gang)
    while (queue := gang_queues.next_queue()) is not None:
        if session.is_overused(queue):
            gang_queues.discard(queue)
            continue
        _reclaim_for(session, gang_queues.pop(queue))


def reclaim_for(session: Session, gang: Gang) -> bool:
    """Evict what ``gang`` needs to be pipelined; return False, without evictions, if nothing suffices."""
    if session.is_overused(session.queue_of(gang)) or not is_preemptor(session, gang, "reclaim"):
        return False
    return _reclaim_for(session, gang)


def _reclaim_for(session: Session, gang: Gang) -> bool:
    with session.model.room_lent_to(gang):
        if hard_limit(gang) is not None and place_without_evictions(session, gang):
            return True
        return search_unless_refused(session, "reclaim", gang, lambda: _evict_for(session, gang))


def _evict_for(session: Session, gang: Gang) -> bool:
    if _reclaim_tasks(session, gang):
        return True
    return session.settings.reclaim.evict_whole_group and _reclaim_whole_gangs(session, gang)


def _reclaim_tasks(session: Session, gang: Gang) -> bool:
    """Return True if the evictions suffice for ``gang``; if not, there are none."""
    queue = session.queue_of(gang)
    return evict_tasks(
        session,
        "reclaim",
        gang,
        lambda: _gangs_of_other_queues(session, gang),
        (TaskStatus.RUNNING,),
        may_pipeline=lambda task: session.preemptive(queue, session.charge_of(queue, task)),
    )


def _reclaim_whole_gangs(session: Session, gang: Gang) -> bool:
    queue = session.queue_of(gang)

    def may_pipeline(task: Task) -> bool:
        charge = session.charge_of(queue, task)
        return session.preemptive(queue, charge) and session.allocatable(queue, task)

    return evict_whole_gangs(
        session,
        "reclaim",
        gang,
        _gangs_of_other_queues(session, gang),
        may_pipeline,
        may_evict=lambda other: session.gang_reclaimable(other, queue),
    )


def _gangs_of_other_queues(session: Session, gang: Gang) -> Iterator[Gang]:
    return (
        other for other in session.gangs if other.queue != gang.queue and session.queue_of(other).reclaimable
    )
