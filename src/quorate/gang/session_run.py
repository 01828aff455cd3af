"""One session from opening to close."""

import traceback
from functools import partial
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.volcano import PENDING
from quorate.gang.actions import ACTIONS
from quorate.gang.actions.repair import evict_partial_gangs
from quorate.gang.actions.window_room import report_windows
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.task import Task
from quorate.gang.job_status import job_statuses, reason_of_unready, report_pipelined
from quorate.gang.next_session import without_late_evictions
from quorate.gang.outcome import Outcome
from quorate.gang.pending_reasons import (
    AwaitsVictimSearch,
    GangUnschedulable,
    PendingReason,
    QueueNotFound,
    can_never_fit,
)
from quorate.gang.session.session import Session
from quorate.gang.session_opening import NO_STOPWATCH, Stopwatch, open_session

_SUBJECTS: Final = ("task", "gang", "pod", "node")  # variables of what is evaluated, in all of this package


class SessionFailed(Exception):
    """A session raised an exception and was undone.

    ``subject`` is the gang, pod or node that it evaluated; None: unknown.
    """

    def __init__(self, subject: Gang | Pod | Node | None, error: Exception) -> None:
        super().__init__(subject, error)
        self.subject, self.error = subject, error


def run_session(
    model: Model, settings: SchedulerConfiguration, now: float, stopwatch: Stopwatch = NO_STOPWATCH
) -> Outcome:
    """Run the configured actions over ``model`` at ``now`` (seconds since the epoch).

    The model is unchanged afterwards, except that it assumes the writes in the outcome.  Raises
    ``SessionFailed``, after which the model is unchanged.
    """
    session: Session | None = None
    try:
        session = open_session(model, settings, now, stopwatch)
        _begin_turns(session)
        session = _decide(session, stopwatch)
        return _close(session)
    except Exception as error:
        if session is not None:
            session.undo()
        raise SessionFailed(_subject_of(error, model), error) from error


def _subject_of(error: Exception, model: Model) -> Gang | Pod | Node | None:
    """Return the gang that the innermost frame with a gang evaluates, else the pod, else the node.

    The traceback has the subject for every action and plugin, which need not record what they evaluate.  A
    node comes last: a gang may raise on every node.
    """
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    subjects = [variables.get(name) for variables in reversed(frames) for name in _SUBJECTS]
    for subject in subjects:
        if isinstance(subject, Task) and subject.gang in model.gangs:
            return model.gangs[subject.gang]
        if isinstance(subject, Gang):
            return subject
    return next((subject for kind in (Pod, Node) for subject in subjects if isinstance(subject, kind)), None)


def rehearse(
    model: Model, settings: SchedulerConfiguration, now: float, key: Key
) -> tuple[PendingReason | None, bool]:
    """Return why the gang ``key`` waits after a session at ``now``, and whether it starts in it.

    It starts if it is admitted, and its members get nodes if enough exist.  A gang may wait for no reason of
    the session: its back-off has not ended, or an earlier group of its queue blocks it.  The model is
    unchanged afterwards.  Raises ``SessionFailed``.
    """
    before = {other: (other.phase, other.admission) for other in model.gangs.values()}
    gang = model.gangs[key]
    session = open_session(model, settings, now)
    _begin_turns(session)
    model.search_turns.prefer(key)
    try:
        session = _decide(session, NO_STOPWATCH)
        report_pipelined(session)
        _report_gangs_without_search(session)
        if gang.queue not in session.queues:
            return QueueNotFound(gang.queue), False
        reason = session.pending_reasons.get(key)
        if gang.is_pending or gang.is_suspended:
            return reason, False
        is_placed = not gang.missing_members(with_best_effort=not session.rules.allocates_best_effort)
        has_just_begun = before[gang][0] in ("", PENDING) and gang.task_counts.valid < gang.min_member
        if is_placed or has_just_begun:
            return reason, reason is None
        return reason_of_unready(session, gang), False
    except Exception as error:
        raise SessionFailed(_subject_of(error, model), error) from error
    finally:
        session.undo()
        for other, (phase, admission) in before.items():
            other.phase, other.admission = phase, admission
        model.note_change()


def _decide(session: Session, stopwatch: Stopwatch) -> Session:
    """Run the actions; return the session with the decisions, see ``without_late_evictions``."""
    _run_actions(session, stopwatch)
    stopwatch.begin("closing")
    return without_late_evictions(session, partial(_run_actions, stopwatch=NO_STOPWATCH))


def _run_actions(session: Session, stopwatch: Stopwatch) -> None:
    model, settings = session.model, session.settings
    # Most gangs have lost none.
    gangs = session.gangs if session.keeps_room_of_lost else ()
    short = [gang for gang in gangs if gang.task_counts.ready < gang.min_member and gang.is_short]
    with model.left_room.held_for(short):
        for at, action in enumerate(settings.actions, start=1):
            session.later_actions = settings.actions[at:]
            stopwatch.begin("action", action)
            ACTIONS[action](session)
        report_windows(session)


def _begin_turns(session: Session) -> None:
    session.search_turns = session.model.search_turns
    session.search_turns.begin_session({gang.key for gang in session.gangs if gang.schedulable})


def _report_gangs_without_search(session: Session) -> None:
    """Say of gangs without nodes that had no turn yet how many gangs searched for victims.

    Of the others the last search is known: their conditions are not written again in each session, which
    would change what searches read.
    """
    turns = session.search_turns
    for key in turns.not_yet_searched:
        reason = session.pending_reasons.get(key)
        if isinstance(reason, GangUnschedulable) and not can_never_fit(reason):
            searched = len(turns.searched)
            waits = AwaitsVictimSearch(reason, searched, searched + len(turns.skipped))
            session.pending_reasons[key] = waits


def _close(session: Session) -> Outcome:
    model = session.model
    evict_partial_gangs(session)
    report_pipelined(session)
    _report_gangs_without_search(session)
    statuses = job_statuses(session)
    for status in statuses:
        model.assumed.set_status(status)
    outcome = Outcome(
        binds=tuple(session.binds),
        evictions=tuple(session.evictions),
        nominations=tuple(session.nominations),
        pipelined=session.pipelined,
        statuses=statuses,
        events=tuple(session.events),
        admitted=tuple(session.admitted),
        refused=tuple(session.refused),
        rolled_back=tuple(session.rolled_back),
        pending_reasons=dict(session.pending_reasons),
        wake_at=session.wake_at,
    )
    session.release_held()
    return outcome
