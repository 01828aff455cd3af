"""Action ``reclaim``: evict for starving gangs what other queues have beyond their shares.

For each starving gang in turn so many others are evicted that the whole gang is promised nodes, or nobody.
In profile ``design`` whole gangs may be evicted where single pods cannot be spared.
"""

from collections.abc import Iterator

from quorate.gang.actions.preempt import is_claimant
from quorate.gang.gang import Gang
from quorate.gang.members import members_to_place
from quorate.gang.room import Room
from quorate.gang.session import Session
from quorate.gang.task import Standing, Task
from quorate.gang.turns import Turns
from quorate.gang.whole import evict_whole


def reclaim(session: Session) -> None:
    turns = Turns(session)
    for gang in session.gangs:
        if is_claimant(session, gang):
            turns.add(gang)
    while (queue := turns.next_queue()) is not None:
        if session.is_overused(queue):
            turns.close(queue)
            continue
        gang = turns.next_gang(queue)
        if not _reclaim_tasks(session, gang) and session.settings.reclaim.evict_whole_group:
            _reclaim_whole(session, gang)


def _reclaim_tasks(session: Session, gang: Gang) -> bool:
    """Whether that gets ``gang`` all it needs; if not, nobody is evicted."""
    queue = session.queue_of(gang)
    room = Room(session, "reclaim", gang, _of_other_queues(session, gang), (Standing.RUNNING,))
    with session.trial() as trial:
        for task in members_to_place(session, gang, best_effort=True):
            if not session.is_starving(gang):
                break
            if session.may_claim(queue, task):
                room.make(task, trial)
        if session.is_promised(gang):
            session.commit(trial.keep(), gang, "reclaim")
            return True
    return False


def _reclaim_whole(session: Session, gang: Gang) -> bool:
    queue = session.queue_of(gang)

    def may_have(task: Task) -> bool:
        return session.may_claim(queue, task) and session.may_allocate(queue, task)

    return evict_whole(
        session,
        "reclaim",
        gang,
        _of_other_queues(session, gang),
        may_have,
        may_take=lambda other: session.yields(other, queue),
    )


def _of_other_queues(session: Session, gang: Gang) -> Iterator[Gang]:
    return (
        other for other in session.gangs if other.queue != gang.queue and session.queue_of(other).reclaimable
    )
