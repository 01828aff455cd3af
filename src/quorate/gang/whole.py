"""Evicting whole gangs, when single pods of them cannot be spared.

Gangs are taken one by one, the least important first, until the claimant would find nodes for its members;
then every one without which it still would is let off.  So nobody is left with half a gang, and nobody loses
a gang for nothing.

Source: the design note "Delay Pod Creation", which asks for the eviction of whole jobs.
"""

from collections.abc import Callable, Iterable, Sequence

from quorate.gang.gang import Gang
from quorate.gang.members import members_to_place
from quorate.gang.outcome import Evictor
from quorate.gang.room import is_awaited
from quorate.gang.session import Session
from quorate.gang.task import EVICTABLE, Standing, Task
from quorate.gang.trial import Trial, evict, promise
from quorate.placement.node_finder import Choice


def evict_whole(
    session: Session,
    evictor: Evictor,
    claimant: Gang,
    victims: Iterable[Gang],
    may_have: Callable[[Task], bool],
    may_take: Callable[[Gang], bool],
) -> bool:
    """Have as many of ``victims`` evicted as it takes to promise nodes to ``claimant``; whether it worked.

    ``may_have``: whether a member may be given a node, as its queue stands at that moment.  ``may_take``:
    whether a gang may be taken, likewise.  There is one such attempt for each claimant in a session.
    """
    members = members_to_place(session, claimant, best_effort=True)
    gangs = _in_order(gang for gang in victims if _can_be_evicted(gang))
    if not gangs or not all(task.preempts for task in claimant.tasks.values()):
        return False
    if claimant.key in session.tried_whole or any(is_awaited(session, task) for task in members):
        return False
    session.tried_whole.add(claimant.key)

    def suffices(trial: Trial, taken: Sequence[Gang]) -> bool:
        """Evict just those, and see whether there is room."""
        trial.back_to(0)
        for gang in taken:
            _evict(session, trial, gang)
        return _find_room(session, trial, claimant, members, may_have)

    with session.trial() as trial:
        taken = _take_until(session, trial, claimant, members, gangs, may_have, may_take)
        if not taken:
            return False
        for gang in reversed(taken):
            others = [other for other in taken if other is not gang]
            if suffices(trial, others):
                taken = others
        assert suffices(trial, taken), f"{claimant.key} found room before"
        session.commit(trial.keep(), claimant, evictor, whole=True)
    return True


def _take_until(
    session: Session,
    trial: Trial,
    claimant: Gang,
    members: Sequence[Task],
    gangs: Sequence[Gang],
    may_have: Callable[[Task], bool],
    may_take: Callable[[Gang], bool],
) -> list[Gang]:
    """The first of ``gangs`` whose room together is enough; none if all are not."""
    taken: list[Gang] = []
    for gang in gangs:
        if not may_take(gang):
            continue
        _evict(session, trial, gang)
        taken.append(gang)
        before = len(trial.moves)
        if _find_room(session, trial, claimant, members, may_have):
            return taken
        trial.back_to(before)
    return []


def _find_room(
    session: Session,
    trial: Trial,
    claimant: Gang,
    members: Sequence[Task],
    may_have: Callable[[Task], bool],
) -> bool:
    """Promise members their best nodes until the gang can wait for the rest; whether it can."""
    for task in members:
        if session.is_promised(claimant):
            break
        if not may_have(task):
            continue
        match session.node_finder.best(task.shape):
            case Choice(node, _):
                trial.do(promise(task, node))
    return session.is_promised(claimant)


def _evict(session: Session, trial: Trial, gang: Gang) -> None:
    for task in reversed(session.in_task_order(gang.with_standing(*EVICTABLE))):
        trial.do(evict(task))


def _can_be_evicted(gang: Gang) -> bool:
    """Whether it may go as a whole: a member that is just being bound would be left behind."""
    tasks = gang.with_standing(*EVICTABLE)
    arriving = gang.with_standing(Standing.ALLOCATED, Standing.BINDING)
    return (
        bool(tasks)
        and not arriving
        and gang.preemptable
        and all(task.preemptable and not task.critical for task in tasks)
    )


def _in_order(gangs: Iterable[Gang]) -> list[Gang]:
    """The least important first, then the newest, then the smallest, then the last by name."""
    last_first = sorted(gangs, key=lambda gang: gang.key, reverse=True)
    return sorted(
        last_first, key=lambda gang: (gang.priority, -gang.created, len(gang.with_standing(*EVICTABLE)))
    )
