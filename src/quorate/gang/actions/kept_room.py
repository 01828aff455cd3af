"""The room on nodes that is kept for the planned group, while nodes are chosen for other gangs."""

from collections.abc import Iterator
from contextlib import contextmanager

from quorate.gang.cache.bounds import PlannedGroup
from quorate.gang.cache.gang import Gang
from quorate.gang.session.session import Session
from quorate.placement.shapes import Shape
from quorate.placement.vectors import np


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
