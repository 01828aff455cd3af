"""Action ``preempt``: evict tasks of lower priority for starving gangs of the same queue.

For each starving gang in turn, enough tasks are evicted to pipeline the whole gang, or none.  Then its
members that are still without a node may preempt less important members of the same gang.

In profile ``design`` whole gangs may be evicted instead, if evicting single tasks does not suffice.  The same
holds for Volcano's name ``gangpreempt``, with which only gangs of lower priority lose tasks.
"""

from functools import partial

from quorate.gang.actions.nominated_room import NominatedRoom, is_nominated
from quorate.gang.actions.ordering import GangQueues, tasks_to_place
from quorate.gang.actions.victim_search import VictimSearch
from quorate.gang.actions.whole_gang_eviction import evict_whole_gangs, pipeline_gang
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import TaskStatus
from quorate.gang.session.session import Session

_VICTIM_STATUSES = (TaskStatus.BOUND, TaskStatus.RUNNING)


def preempt(session: Session) -> None:
    hold_nominated_nodes(session)
    gang_queues = GangQueues(session)
    for gang in session.gangs:
        if is_preemptor(session, gang):
            gang_queues.push(gang)
    while (queue := gang_queues.next_queue()) is not None:
        preemptors = []
        for gang in gang_queues.pop_all(queue):
            preemptors.append(gang)
            _preempt_for(session, gang)
        if not session.settings.preempt.only_lower_gangs:
            for gang in preemptors:
                _preempt_within_gang(session, gang)


def hold_nominated_nodes(session: Session) -> None:
    """Have the gangs for which pods were evicted keep the nodes, before any other gang is considered.

    Else an action that evicts before ``allocate`` might give these nodes to another gang, and evict again.
    """
    gangs = [gang for gang in session.gangs if is_nominated(gang) and is_preemptor(session, gang)]
    room = NominatedRoom(session)
    with room.held_for(gangs if len(gangs) > 1 else ()):
        kept_out = [gang for gang in gangs if not _pipeline_nominated(session, gang, room)]
    for gang in kept_out if len(gangs) > 1 else ():
        _pipeline_nominated(session, gang, room)


def _pipeline_nominated(session: Session, gang: Gang, room: NominatedRoom) -> bool:
    may_pipeline = partial(session.allocatable, session.queue_of(gang))
    tasks = tasks_to_place(session, gang, best_effort=True)
    with session.model.room_lent_to(gang), room.lent_to(gang), session.statement() as statement:
        if not pipeline_gang(session, statement, gang, tasks, may_pipeline):
            return False
        session.dispatch(statement.commit(), gang)
        return True


def preempt_for(session: Session, gang: Gang) -> bool:
    """Evict what ``gang`` needs to be pipelined; return False, without evictions, if nothing suffices."""
    return is_preemptor(session, gang) and _preempt_for(session, gang)


def _preempt_for(session: Session, gang: Gang) -> bool:
    with session.model.room_lent_to(gang):
        if _preempt_other_gangs(session, gang):
            return True
        return session.settings.preempt.evict_whole_group and _preempt_whole_gangs(session, gang)


def is_preemptor(session: Session, gang: Gang) -> bool:
    """Return True if tasks may be evicted for ``gang``: it starves and can be placed.

    Not for a gang that must be within a HyperNode: the victims would be anywhere.
    """
    return (
        session.may_have_nodes(gang)
        and (gang.topology is None or not gang.topology.limits)
        and bool(gang.schedulable)
        and session.is_starving(gang)
        and session.invalid_reason(gang) is None
    )


def _preempt_other_gangs(session: Session, gang: Gang) -> bool:
    """Return True if the evictions suffice for ``gang``; if not, there are none."""
    only_lower = session.settings.preempt.only_lower_gangs
    victims = (
        other
        for other in session.gangs
        if other.queue == gang.queue
        and other is not gang
        and (not only_lower or other.priority < gang.priority)
    )
    search = VictimSearch(session, "preempt", gang, victims, _VICTIM_STATUSES)
    with session.statement() as statement:
        for task in tasks_to_place(session, gang, best_effort=True):
            if not session.is_starving(gang):
                break
            search.pipeline(task, statement)
        if session.is_pipelined(gang):
            search.spare_unneeded(statement)
            session.dispatch(statement.commit(), gang)
            return True
    return False


def _preempt_whole_gangs(session: Session, gang: Gang) -> bool:
    queue = session.queue_of(gang)
    victims = (
        other for other in session.gangs if other.queue == gang.queue and other.priority < gang.priority
    )
    return evict_whole_gangs(
        session,
        "preempt",
        gang,
        victims,
        may_pipeline=lambda task: session.allocatable(queue, task),
        may_evict=lambda _: True,
    )


def _preempt_within_gang(session: Session, gang: Gang) -> None:
    """Evict members for more important ones.  A member that fits without is left to ``allocate``."""
    search = VictimSearch(session, "preempt", gang, [gang], _VICTIM_STATUSES)
    for task in tasks_to_place(session, gang, best_effort=True):
        with session.model.room_lent_to(gang), session.statement() as statement:
            if not search.pipeline(task, statement):
                return
            if len(statement.moves) > 1 and session.is_pipelined(gang):
                search.spare_unneeded(statement)
                session.dispatch(statement.commit(), gang)
