"""Gangs that got stuck half bound: given time to be completed, then given up whole.

Binds are not atomic: of a gang that was placed whole the API may refuse one member (its pod was deleted, its
node filled up by another scheduler), and the room for another one may be gone.  Sessions go on trying to
complete it.  If that has not come about within its clock, the members that are bound hold capacity for
nothing, and are evicted; their controller makes them anew, and the gang starts over as a whole.

Only groups that have not run since they were admitted, which they show by still knowing when that was: what
becomes of one that loses members later is for the policies of its job to say.  Profile ``design`` only.
"""

from quorate.api.volcano import INQUEUE, UNKNOWN
from quorate.gang.gang import Gang
from quorate.gang.session import Session
from quorate.gang.task import EVICTABLE, Standing
from quorate.gang.trial import evict


def give_up_partial(session: Session) -> None:
    """Evict what is bound of each gang that has been half bound for longer than its clock."""
    within_s = session.settings.allocate.repair_within_s
    if session.settings.profile == "compat" or within_s is None:
        return
    for gang in session.gangs:
        if not _is_partial(gang):
            gang.partial_since = None
            continue
        if gang.partial_since is None:
            gang.partial_since = session.now
        if gang.inqueue_since is None:
            gang.inqueue_since = session.now
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
    tally = gang.tally
    never_ran = gang.phase == INQUEUE or (gang.phase == UNKNOWN and gang.inqueue_since is not None)
    return (
        never_ran
        and tally.of[Standing.BOUND] + tally.of[Standing.RUNNING] > 0
        and tally.ready < gang.min_member
    )
