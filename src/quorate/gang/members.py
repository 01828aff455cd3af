"""In which order the members of a gang are placed."""

from collections import Counter

from quorate.gang.gang import Gang
from quorate.gang.session import Session
from quorate.gang.task import Task
from quorate.placement.colocation import affinity_order


def members_to_place(session: Session, gang: Gang, *, best_effort: bool) -> list[Task]:
    """The members that can be placed now, the first first; ``best_effort``: also those that ask for nothing.

    In profile ``design`` a role is filled up to its minimum before anybody else is placed, and members that
    ask for nothing go last on either side.  Who must be near other members comes after these.
    """
    members = session.in_task_order(gang.placeable.values())
    if not best_effort:
        members = [task for task in members if not task.best_effort]
    if session.settings.profile == "compat":
        return members
    company = affinity_order(gang.shapes)
    members.sort(key=lambda task: (company[task.shape], task.best_effort))
    if not gang.role_minima:
        return members
    lacking = Counter({role: minimum - gang.role(role).ready for role, minimum in gang.role_minima.items()})
    first: list[Task] = []
    rest: list[Task] = []
    for task in members:
        (first if lacking[task.role] > 0 else rest).append(task)
        lacking[task.role] -= 1
    return first + rest
