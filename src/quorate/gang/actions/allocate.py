"""Action ``allocate``: find nodes for the members of gangs, for a whole gang or not at all.

In profile ``design`` pods are evicted for a gang that finds no nodes before the gangs after it have their
turns, by the actions that may evict later in the session.  Otherwise gangs after it would be bound to what is
idle, and be evicted for it in the next session.
"""

from collections.abc import Callable

from quorate.api.volcano import INQUEUE
from quorate.gang.actions.gang_placement import place_gangs
from quorate.gang.actions.native_preemption import NativeVictims
from quorate.gang.actions.preempt import preempt_for
from quorate.gang.actions.reclaim import reclaim_for
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.quota_admission import QuotaAdmission
from quorate.gang.pending_reasons import BeyondAdmission
from quorate.gang.session.session import Session


def allocate(session: Session) -> None:
    if "enqueue" not in session.settings.actions:
        for gang in session.gangs:
            if gang.is_pending and not gang.is_suspended:
                session.set_phase(gang, INQUEUE)
    evict_for = _evict_in_turn(session) if session.rules.evicts_in_turn else None
    for gang in place_gangs(session, session.gangs, evict_for):
        if gang.quota_admission is not None:
            _report_members_without_quota(session, gang, gang.quota_admission)


def _evict_in_turn(session: Session) -> Callable[[Gang], object]:
    """Return what evicts for a gang by the first later action that can."""
    native = NativeVictims(session)

    def evict_for(gang: Gang) -> bool:
        return any(
            reclaim_for(session, gang) if action == "reclaim" else preempt_for(session, gang, native)
            for action in session.later_actions
            if action in ("preempt", "reclaim")
        )

    return evict_for


def _report_members_without_quota(session: Session, gang: Gang, admission: QuotaAdmission) -> None:
    waiting = gang.schedulable.values()
    if waiting and not any(map(gang.has_quota_for, waiting)):
        session.pending_reasons[gang.key] = BeyondAdmission(admission.count)
