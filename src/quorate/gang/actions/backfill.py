"""Action ``backfill``: place best-effort members on any node with a place for one more pod.

In profile ``compat`` no other action places best-effort members, and nothing is undone: pending ones count as
ready, so that their gang may have been bound before them.  In profile ``design`` ``allocate`` places
best-effort members with their gang, and this action places best-effort members of ready gangs only.  With
``fill-fragments`` it also places the other members of ready gangs, in queues at their share too, up to the
limits of these queues.
"""

from quorate.gang.actions.held_room import kept_room
from quorate.gang.actions.ordering import GangQueues
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.session.session import Session
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice


def backfill(session: Session) -> None:
    gang_queues = GangQueues(session)
    for gang in session.gangs:
        if (gang.schedulable or gang.task_counts.pipelined) and _is_candidate(session, gang):
            gang_queues.push(gang)
    with kept_room(session):
        while (queue := gang_queues.next_queue()) is not None:
            _backfill(session, gang_queues.pop(queue))


def _is_candidate(session: Session, gang: Gang) -> bool:
    if gang.topology is not None:  # ``allocate`` places all its members, within its HyperNode
        return False
    may_have_tasks = session.settings.backfill.fill_fragments or any(
        shape.best_effort for shape in gang.shapes
    )
    if not may_have_tasks and not gang.task_counts.pipelined:
        return False
    if not session.may_have_nodes(gang) or not _tasks_to_backfill(session, gang):
        return False
    if session.rules.allocates_best_effort and not session.is_ready(gang):
        return False
    return session.invalid_reason(gang) is None


def _backfill(session: Session, gang: Gang) -> None:
    queue = session.queue_of(gang)
    with session.model.room_lent_to(gang), session.statement() as statement:
        for task in session.in_task_order(_tasks_to_backfill(session, gang)):
            if task.status is TaskStatus.PIPELINED:
                statement.unpipeline(task)
            if not task.best_effort and not session.backfillable(queue, task):
                continue
            match session.node_finder.best(session.shape_of(task)):
                case Choice(node, Capacity.IDLE):
                    statement.allocate(task, node)
        session.hold(statement.commit())
    if session.is_ready(gang):
        for task in session.in_task_order(gang.with_status(TaskStatus.ALLOCATED)):
            session.bind(task)


def _tasks_to_backfill(session: Session, gang: Gang) -> list[Task]:
    """Return the tasks without a node, pipelined ones included: they may fit somewhere now."""
    fill_fragments = session.settings.backfill.fill_fragments
    waiting = [*gang.schedulable.values(), *gang.with_status(TaskStatus.PIPELINED)]
    return [task for task in waiting if fill_fragments or task.best_effort]
