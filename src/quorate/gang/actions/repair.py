"""The repair of partially bound gangs: time to complete them, then eviction.

Binds are not atomic: the API may refuse the bind of one member of a gang that was placed whole (its pod was
deleted, another scheduler filled its node), and there may be no other node for it.  Sessions go on trying to
complete the gang, before all other gangs.  After the time allowed for that, its bound members hold resources
to no effect and are evicted; their controller creates new pods, and the gang starts over as a whole.

A pending group can be partially bound too: binds are written before its status, so that a scheduler that
ended in between left the group Pending.  The action ``enqueue`` evaluates it for the members that it lacks.

Only groups that have not run since they were admitted are repaired: the policies of its job decide what
happens to a group that loses members later.  Profile ``design`` only.
"""

from quorate.api.volcano import COMPLETED, INQUEUE, RUNNING, SCHEDULED, UNKNOWN
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import EVICTABLE_STATUSES, TaskStatus
from quorate.gang.session.session import Session


def evict_partial_gangs(session: Session) -> None:
    """Evict the bound members of each gang that has been partially bound for too long."""
    repair_timeout_s = session.settings.allocate.repair_timeout_s
    if not session.rules.prefers_short or repair_timeout_s is None:
        return
    for gang in session.gangs:
        if gang.phase == RUNNING and gang.admission.partial_since is None:  # most gangs
            continue
        if gang.native is not None or not is_partially_bound(gang):
            if gang.admission.partial_since is not None:
                gang.admission = gang.admission.partially_bound(None)
            continue
        since = gang.admission.partial_since
        if since is None or since > session.now:
            since = session.now
        gang.admission = gang.admission.partially_bound(since)
        if gang.admission.inqueue_since is None:  # recorded: it has not run, when it becomes Unknown
            gang.admission = gang.admission.since(session.now)
        if session.now < since + repair_timeout_s:
            session.wake(since + repair_timeout_s)
            continue
        with session.statement() as statement:
            for task in session.in_task_order(gang.with_status(*EVICTABLE_STATUSES)):
                statement.evict(task)
            session.dispatch(statement.commit(), gang, "repair", whole=True)
        gang.admission = gang.admission.partially_bound(None)


def is_partially_bound(gang: Gang) -> bool:
    """Return True if some members have a node, but too few, those being bound included."""
    if gang.phase in (RUNNING, COMPLETED):  # most gangs, checked first
        return False
    count = gang.task_counts.by_status.get
    placed = count(TaskStatus.BOUND, 0) + count(TaskStatus.RUNNING, 0)
    return placed > 0 and gang.task_counts.ready < gang.min_member and not _has_run(gang)


def _has_run(gang: Gang) -> bool:
    """Return True if the gang was complete at some time since it was admitted."""
    if gang.phase == INQUEUE:
        return False
    if gang.phase == UNKNOWN:
        return gang.admission.inqueue_since is None  # removed when the gang first runs
    # A pending gang may have lost members in profile compat, or its pods may be those of an earlier group.
    was_scheduled = any(condition.type == SCHEDULED for condition in gang.conditions)
    return was_scheduled or any(task.created < gang.created for task in gang.with_status(*EVICTABLE_STATUSES))
