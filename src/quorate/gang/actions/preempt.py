"""Action ``preempt``: evict tasks of lower priority for starving gangs of the same queue.

For each starving gang in turn, enough tasks are evicted to pipeline the whole gang, or none.  Then its
members that are still without a node may preempt less important members of the same gang.

In profile ``design`` whole gangs may be evicted instead, if evicting single tasks does not suffice.  The same
holds for Volcano's name ``gangpreempt``, with which only gangs of lower priority lose tasks.
"""

from collections.abc import Iterator

from quorate.gang.actions.gang_placement import allocate_minimum, allocate_nominated
from quorate.gang.actions.hyper_node_rooms import hard_limit, is_pipelined, may_have_victims
from quorate.gang.actions.native_preemption import NativeVictims, preempt_for_native_group
from quorate.gang.actions.ordering import GangQueues, tasks_to_place
from quorate.gang.actions.repeated_search import search_unless_refused
from quorate.gang.actions.victim_search import VictimSearch, evict_tasks
from quorate.gang.actions.whole_gang_eviction import evict_whole_gangs
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import TaskStatus
from quorate.gang.outcome import EvictionAction
from quorate.gang.session.session import Session

_VICTIM_STATUSES = (TaskStatus.BOUND, TaskStatus.RUNNING)


def preempt(session: Session) -> None:
    place_nominated(session)
    gang_queues, native = GangQueues(session), NativeVictims(session)
    for gang in session.gangs:
        if is_preemptor(session, gang, "preempt"):
            gang_queues.push(gang)
    while (queue := gang_queues.next_queue()) is not None:
        preemptors = []
        for gang in gang_queues.pop_all(queue):
            preemptors.append(gang)
            _preempt_for(session, gang, native)
        if not session.settings.preempt.only_lower_gangs:
            for gang in preemptors:
                if gang.native is None:
                    _preempt_within_gang(session, gang)


def place_nominated(session: Session) -> None:
    """Place the gangs for which pods were evicted before, if ``allocate`` runs later in this session.

    Otherwise an action that evicts might give these nodes to another gang, and then evict again for the first
    gang, in the same action or in a later one.
    """
    if "allocate" in session.later_actions:
        allocate_nominated(session)


def place_without_evictions(session: Session, gang: Gang) -> bool:
    """Place ``gang`` if it fits without evictions, within one HyperNode if it must; return True if so."""
    if "allocate" not in session.later_actions:
        return False
    allocate_minimum(session, gang)
    return is_pipelined(session, gang)


def preempt_for(session: Session, gang: Gang, native: NativeVictims | None = None) -> bool:
    """Evict what ``gang`` needs to be pipelined; return False, without evictions, if nothing suffices.

    ``native``: the native victims of the action, if the action evicts for several gangs.
    """
    if not is_preemptor(session, gang, "preempt"):
        return False
    return _preempt_for(session, gang, native or NativeVictims(session))


def _preempt_for(session: Session, gang: Gang, native: NativeVictims) -> bool:
    with session.model.room_lent_to(gang):
        if gang.native is None and hard_limit(gang) is not None and place_without_evictions(session, gang):
            return True
        return search_unless_refused(session, "preempt", gang, lambda: _evict_for(session, gang, native))


def _evict_for(session: Session, gang: Gang, native: NativeVictims) -> bool:
    if gang.native is not None:
        return preempt_for_native_group(session, gang, native)
    if _preempt_other_gangs(session, gang):
        return True
    return session.settings.preempt.evict_whole_group and _preempt_whole_gangs(session, gang)


def is_preemptor(session: Session, gang: Gang, action: EvictionAction) -> bool:
    """Return True if ``action`` may evict tasks for ``gang``: it starves and can be placed."""
    return (
        session.may_have_nodes(gang)
        and may_have_victims(session, gang, action)
        and bool(gang.schedulable)
        and (session.is_starving(gang) or (gang.native is not None and action == "preempt"))
        and session.invalid_reason(gang) is None
    )


def _preempt_other_gangs(session: Session, gang: Gang) -> bool:
    """Return True if the evictions suffice for ``gang``; if not, there are none."""
    only_lower = session.settings.preempt.only_lower_gangs

    def victim_gangs() -> Iterator[Gang]:
        return (
            other
            for other in session.gangs
            if other.queue == gang.queue
            and other is not gang
            and (not only_lower or other.priority < gang.priority)
        )

    return evict_tasks(session, "preempt", gang, victim_gangs, _VICTIM_STATUSES, may_pipeline=lambda _: True)


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
    """Evict members for more important ones.  A member that fits without is left to ``allocate``.

    A gang that must be within one HyperNode evicts none of its members for another member.
    """
    if hard_limit(gang) is not None:
        return
    search = VictimSearch(session, "preempt", gang, [gang], _VICTIM_STATUSES)
    for task in tasks_to_place(session, gang, best_effort=True):
        with session.model.room_lent_to(gang), session.statement() as statement:
            if not search.pipeline(task, statement):
                return
            if len(statement.moves) > 1 and session.is_pipelined(gang):
                search.spare_unneeded(statement)
                session.dispatch(statement.commit(), gang)
