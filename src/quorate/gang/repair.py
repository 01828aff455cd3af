"""Gangs that got stuck half bound: given time to be completed, then given up whole.

Binds are not atomic: of a gang that was placed whole the API may refuse one member (its pod was deleted, its
node filled up by another scheduler), and the room for another one may be gone.  Sessions go on trying to
complete it.  If that has not come about within its clock, the members that are bound hold capacity for
nothing, and are evicted; their controller makes them anew, and the gang starts over as a whole.

A group that waits can be half bound too: binds go before its status, so that a scheduler that ended between
the two left it as it was.  It is asked like others whether it may be admitted, for the members it lacks.

Only groups that have not run since they were admitted: what becomes of one that loses members later is for
the policies of its job to say.  Profile ``design`` only.
"""

from quorate.api.volcano import COMPLETED, INQUEUE, RUNNING, SCHEDULED, UNKNOWN
from quorate.gang.gang import Gang
from quorate.gang.session import Session
from quorate.gang.task import EVICTABLE, Standing
from quorate.gang.trial import evict


def give_up_partial(session: Session) -> None:
    """Evict what is bound of each gang that has been half bound for longer than its clock."""
    within_s = session.settings.allocate.repair_timeout_s
    if session.settings.profile == "compat" or within_s is None:
        return
    for gang in session.gangs:
        if not _is_partial(gang):
            gang.partial_since = None
            continue
        if gang.partial_since is None:
            gang.partial_since = session.now
        if gang.inqueue_since is None:
            gang.inqueue_since = session.now  # so that it is known not to have run when it becomes Unknown
        if session.now < gang.partial_since + within_s:
            session.wake(gang.partial_since + within_s)
            continue
        with session.trial() as trial:
            for task in session.in_task_order(gang.with_standing(*EVICTABLE)):
                trial.do(evict(task))
            session.commit(trial.keep(), gang, "repair", whole=True)
        gang.partial_since = None


def _is_partial(gang: Gang) -> bool:
    """Whether some members, but fewer than are needed, hold nodes, those about to be bound included."""
    if gang.phase in (RUNNING, COMPLETED):  # most are: the rest is not asked of them
        return False
    of = gang.tally.of.get
    placed = of(Standing.BOUND, 0) + of(Standing.RUNNING, 0)
    return placed > 0 and gang.tally.ready < gang.min_member and not _has_run(gang)


def _has_run(gang: Gang) -> bool:
    """Whether it was complete once since it was admitted."""
    if gang.phase == INQUEUE:
        return False
    if gang.phase == UNKNOWN:
        return gang.inqueue_since is None  # forgotten when it first runs
    # It may have lost members in profile compat, or its pods are those of a group of this name before it.
    was_told = any(condition.type == SCHEDULED for condition in gang.conditions)
    return was_told or any(task.created < gang.created for task in gang.with_standing(*EVICTABLE))
