"""Action ``preempt``: evict the less important for gangs of the same queue that starve.

For each starving gang in turn so many others are evicted that the whole gang is promised nodes, or nobody.
Then members that are still without a node may take the place of less important members of their own gang.

In profile ``design`` a gang for which single pods could not be spared may have whole gangs evicted instead.
"""

from quorate.gang.gang import Gang
from quorate.gang.members import members_to_place
from quorate.gang.room import Room
from quorate.gang.session import Session
from quorate.gang.task import Standing
from quorate.gang.turns import Turns
from quorate.gang.whole import evict_whole

_STANDINGS = (Standing.BOUND, Standing.RUNNING)


def preempt(session: Session) -> None:
    turns = Turns(session)
    for gang in session.gangs:
        if is_claimant(session, gang):
            turns.add(gang)
    while (queue := turns.next_queue()) is not None:
        claimants = []
        for gang in turns.gangs_of(queue):
            claimants.append(gang)
            if not _evict_others(session, gang) and session.settings.preempt.evict_whole_group:
                _evict_whole(session, gang)
        for gang in claimants:
            _evict_own(session, gang)


def is_claimant(session: Session, gang: Gang) -> bool:
    """Whether others may be evicted for ``gang``: it starves, and has members that could be placed."""
    return (
        not gang.is_waiting
        and bool(gang.placeable)
        and session.is_starving(gang)
        and session.invalidity(gang) is None
    )


def _evict_others(session: Session, gang: Gang) -> bool:
    """Whether that gets ``gang`` all it needs; if not, nobody is evicted."""
    others = (other for other in session.gangs if other.queue == gang.queue and other is not gang)
    room = Room(session, "preempt", gang, others, _STANDINGS)
    with session.trial() as trial:
        for task in members_to_place(session, gang, best_effort=True):
            if not session.is_starving(gang):
                break
            room.make(task, trial)
        if session.is_promised(gang):
            session.commit(trial.keep(), gang)
            return True
    return False


def _evict_whole(session: Session, gang: Gang) -> bool:
    queue = session.queue_of(gang)
    less = (other for other in session.gangs if other.queue == gang.queue and other.priority < gang.priority)
    return evict_whole(
        session,
        "preempt",
        gang,
        less,
        may_have=lambda task: session.may_allocate(queue, task),
        may_take=lambda _: True,
    )


def _evict_own(session: Session, gang: Gang) -> None:
    room = Room(session, "preempt", gang, [gang], _STANDINGS)
    for task in members_to_place(session, gang, best_effort=True):
        with session.trial() as trial:
            if not room.make(task, trial):
                return
            session.commit(trial.keep(), gang)
