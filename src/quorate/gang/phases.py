"""The phase of a pod group at the end of a session.

Source: Volcano's job updater; in profile ``design`` a group of which members still hold nodes never falls
back to Pending, and one without members is not complete.
"""

from quorate.api.volcano import COMPLETED, INQUEUE, PENDING, RUNNING, UNKNOWN
from quorate.gang.gang import Tally
from quorate.gang.task import HOLDING, Standing


def phase_after(
    phase: str, min_member: int, tally: Tally, *, unschedulable: bool, keeps_live_groups: bool
) -> str:
    """The next phase of a group in ``phase`` whose members stand as ``tally`` says.

    ``unschedulable``: this very session found that it cannot be scheduled as it is.
    ``keeps_live_groups``: what profile ``design`` changes.  Members that are being bound are not seen on
    their nodes yet, so that a group placed just now is Running one session later.
    """
    if unschedulable and tally.of[Standing.RUNNING]:
        return UNKNOWN
    scheduled = tally.scheduled
    if scheduled >= min_member and (scheduled or not keeps_live_groups):
        return COMPLETED if scheduled == tally.finished else RUNNING
    if keeps_live_groups and phase in (RUNNING, UNKNOWN) and any(tally.of[each] for each in HOLDING):
        return UNKNOWN
    return INQUEUE if phase == INQUEUE else PENDING
