"""Action ``backfill``: nodes for members that ask for nothing, wherever there is a place for one more pod.

In profile ``compat`` this is the only way such members are placed, and there is no way back: pending they
count as ready, so that their gang may have been bound before them.  In profile ``design`` they are placed
with their gang, and here only those of gangs that are ready already; if so configured, other members of such
gangs too, also in queues that have their share by now, up to what these may have at most.
"""

from quorate.gang.gang import Gang
from quorate.gang.session import Session
from quorate.gang.task import Standing, Task
from quorate.gang.trial import place, withdraw
from quorate.gang.turns import Turns
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice


def backfill(session: Session) -> None:
    turns = Turns(session)
    for gang in session.gangs:
        if _may_be_filled(session, gang):
            turns.add(gang)
    while (queue := turns.next_queue()) is not None:
        _fill(session, turns.next_gang(queue))


def _may_be_filled(session: Session, gang: Gang) -> bool:
    if not gang.placeable and not gang.tally.promised:
        return False
    may_have_some = session.settings.backfill.fill_fragments or any(
        shape.best_effort for shape in gang.shapes
    )
    if not may_have_some and not gang.tally.promised:
        return False
    if gang.is_waiting or not _fillers(session, gang):
        return False
    if session.settings.profile == "design" and not session.is_ready(gang):
        return False
    return session.invalidity(gang) is None


def _fill(session: Session, gang: Gang) -> None:
    queue = session.queue_of(gang)
    with session.trial() as trial:
        for task in session.in_task_order(_fillers(session, gang)):
            if task.standing is Standing.PIPELINED:
                trial.do(withdraw(task))
            if not task.best_effort and not session.may_fill(queue, task):
                continue
            match session.node_finder.best(task.shape):
                case Choice(node, Capacity.IDLE):
                    trial.do(place(task, node))
        session.hold(trial.keep())
    if session.is_ready(gang):
        for task in session.in_task_order(gang.with_standing(Standing.ALLOCATED)):
            session.bind(task)


def _fillers(session: Session, gang: Gang) -> list[Task]:
    """Those without a node, also if they were promised one: there may be a place now."""
    everybody = session.settings.backfill.fill_fragments
    waiting = [*gang.placeable.values(), *gang.with_standing(Standing.PIPELINED)]
    return [task for task in waiting if everybody or task.best_effort]
