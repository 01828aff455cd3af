"""Room that is held while nodes are chosen for gangs: of nominated tasks, and of the planned group.

A gang with nominated tasks may have others, which may have any node.  Without held room they might get a node
from which pods were evicted for another gang, and pods would be evicted for that gang again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

from quorate.gang.cache.bounds import PlannedGroup
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.room_for_gangs import RoomForGangs
from quorate.gang.cache.task import Task
from quorate.gang.session.session import Session
from quorate.placement.shapes import Shape
from quorate.placement.vectors import np

_nominated_node: Final = attrgetter("nominated_node")


def is_nominated(gang: Gang) -> bool:
    return any(map(_nominated_node, gang.schedulable.values()))


def has_share(session: Session, gang: Gang, task: Task, *, of_nominated: bool) -> bool:
    """Return True if the queue may allocate ``task``, or might when pods were evicted for it.

    What queues deserve may have changed since, with the admission of other gangs.  ``of_nominated``: whether
    any task of ``gang`` was nominated when its placement began.  Once the minimum of ``gang`` waits for
    leaving pods, only its nominated tasks may have more: the rest of the share may be another gang's.
    """
    queue = session.queue_of(gang)
    is_for_it = bool(task.nominated_node)
    if of_nominated and not is_for_it and not session.is_ready(gang):
        if not gang.is_starving and session.is_pipelined(gang):
            return False
        is_for_it = True
    return session.allocatable(queue, task) or (is_for_it and session.backfillable(queue, task))


class NominatedRoom(RoomForGangs):
    """The room of nominated tasks, as far as their nodes will have it: other nominations are of no use."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.cluster)
        self._node_finder = session.node_finder

    def _next_room(self, gang: Gang) -> Iterator[tuple[Shape, str]]:
        for task in gang.schedulable.values():
            node = task.nominated_node
            if node and self._node_finder.capacity_on(task.shape, node) is not None:
                yield task.shape, node


@contextmanager
def kept_room(session: Session) -> Iterator[None]:
    """Hold the room that is kept for the planned group, if there is one."""
    plan = session.planned_group
    if plan is None:
        yield
        return
    cluster = session.cluster
    owner = (PlannedGroup, plan.gang.key)
    for index in np.flatnonzero(plan.kept.any(axis=0)):
        amounts = plan.kept[:, index].tolist()
        shape = Shape(amounts={name: n for name, n in zip(cluster.resources, amounts, strict=True) if n})
        cluster.hold((owner, int(index)), shape, cluster.name(int(index)), 1, owner)
    try:
        yield
    finally:
        cluster.release_all(owner)


def may_delay(session: Session, gang: Gang) -> bool:
    """Return True if ``gang`` may not have the room that is kept for the planned group.

    A gang that was created before it and has no nodes yet, or is overdue, may have it.
    """
    plan = session.planned_group
    if plan is None or plan.gang is gang or not plan.is_outlived_by(gang, session.now):
        return False
    if session.is_overdue(gang):
        return False
    return session.is_ready(gang) or (gang.created, gang.key) > (plan.gang.created, plan.gang.key)
