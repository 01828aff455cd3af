"""The end of a session: what the status of each pod group is to say.

The gang check, of groups that have members, is the plugin gang's: without it nothing is reported.  In profile
``design`` it speaks of admitted groups only and tells the true reason, waiting groups say why the action
``enqueue`` did not admit them, and what made a group wait is gone as soon as it is ready.
"""

from collections import Counter

from quorate.api.volcano import (
    COMPLETED,
    INQUEUE,
    NOT_ENOUGH_RESOURCES,
    PENDING,
    RUNNING,
    SCHEDULED,
    UNKNOWN,
    UNSCHEDULABLE,
)
from quorate.gang.conditions import stamp_of, with_scheduled, with_unschedulable
from quorate.gang.gang import Gang
from quorate.gang.outcome import Counts, GangStatus, Refused
from quorate.gang.phases import phase_after
from quorate.gang.session import Session
from quorate.gang.task import Standing
from quorate.gang.verdicts import GangUnschedulable, NotEnoughPodsOfTask, NotEnoughTasks, Verdict, lasting


def statuses_of(session: Session) -> tuple[GangStatus, ...]:
    """Of all groups of which there is something new to say, the oldest first."""
    closing = _Closing(session)
    statuses = []
    for gang in session.gangs:
        verdict = session.verdicts.get(gang.key)
        if gang.is_settled and gang.settled_with == verdict:
            continue
        status = closing.close(gang)
        if status is not None:
            statuses.append(status)
        gang.is_settled = gang.phase in (RUNNING, COMPLETED) or (
            gang.phase == INQUEUE and verdict is not None
        )
        gang.settled_with = verdict
    return tuple(statuses)


class _Closing:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._design = session.settings.profile == "design"
        self._checks_gangs = any(entry.name == "gang" for tier in session.settings.tiers for entry in tier)
        self._stamp = stamp_of(session.now)

    def close(self, gang: Gang) -> GangStatus | None:
        """Settle phase and conditions of ``gang``; its status, when the API does not say it yet."""
        verdict = self._session.verdicts.get(gang.key)
        if not gang.tasks and gang.min_member > 0 and gang.phase in (PENDING, INQUEUE):
            self._close_without_members(gang, verdict)
        else:
            self._close_with_members(gang, verdict)
        return _news(gang)

    def _close_without_members(self, gang: Gang, verdict: Verdict | None) -> None:
        """Most groups of a busy cluster: waiting, and nothing can have changed but why."""
        if self._design and verdict is not None and gang.phase == PENDING:
            self._tell_refused(gang, verdict)

    def _close_with_members(self, gang: Gang, verdict: Verdict | None) -> None:
        checked = self._checks_gangs and bool(gang.tasks) and not (self._design and gang.is_waiting)
        # Whatever their roles: those decide what is placed.
        is_ready = not gang.short_by(with_best_effort=self._session.counts_best_effort)
        refused = self._design and gang.is_waiting and verdict is not None
        gang.phase = phase_after(
            gang.phase,
            gang.min_member,
            gang.tally,
            unschedulable=refused or (checked and not is_ready),
            keeps_live_groups=self._design,
        )
        if gang.phase not in (INQUEUE, UNKNOWN):
            gang.inqueue_since = None
        if gang.phase == RUNNING:
            gang.attempts, gang.not_before = 0, None
        if refused and verdict is not None:
            self._tell_refused(gang, verdict)
        elif checked and is_ready:
            self._tell_ready(gang)
        elif checked and not (self._design and gang.phase == COMPLETED):
            self._tell_unready(gang, verdict)

    def _tell_refused(self, gang: Gang, verdict: Verdict) -> None:
        """The action ``enqueue`` lets ``gang`` wait, or had it go back."""
        if gang.reported is not None:  # what the words of a condition were made from is compared faster
            before, said_in = gang.reported
            if said_in is gang.conditions and (before == verdict or lasting(before) == lasting(verdict)):
                gang.reported = verdict, said_in
                return
        waited = gang.told is not None and gang.told.phase in ("", PENDING)
        if self._tell_unschedulable(gang, verdict.reason, str(verdict)) and waited:
            self._session.refused.append(Refused(gang.key, gang.queue, verdict.reason))
            self._session.notice(gang, "Normal", UNSCHEDULABLE, str(verdict), about=verdict.reason)
        gang.reported = verdict, gang.conditions

    def _tell_unready(self, gang: Gang, verdict: Verdict | None) -> None:
        """Too few members of ``gang``, which is admitted, hold a node."""
        if self._design:
            verdict = self._session.invalidity(gang) or verdict or _untried(gang)
            reason, message = _gang_reason(verdict), str(verdict)
        else:
            reason, message = NOT_ENOUGH_RESOURCES, _volcano_message(gang, verdict)
        if self._tell_unschedulable(gang, reason, message) and gang.phase in (PENDING, INQUEUE, UNKNOWN):
            self._session.notice(gang, "Warning", UNSCHEDULABLE, message, about=reason)

    def _tell_unschedulable(self, gang: Gang, reason: str, message: str) -> bool:
        """Whether that is news."""
        before = gang.conditions
        gang.conditions = with_unschedulable(before, reason, message, self._stamp)
        return gang.conditions is not before

    def _tell_ready(self, gang: Gang) -> None:
        before = gang.conditions
        gang.conditions = with_scheduled(before, self._stamp, clears=self._design)
        if gang.conditions is not before:
            self._session.notice(gang, "Normal", SCHEDULED, "pod group is ready")


def _gang_reason(verdict: Verdict) -> str:
    """What the gang check may call it: that a queue may not take more now is a lack of resources to it."""
    match verdict:
        case NotEnoughTasks() | NotEnoughPodsOfTask():
            return verdict.reason
        case _:
            return NOT_ENOUGH_RESOURCES


def _untried(gang: Gang) -> Verdict:
    gated = sum(task.gated for task in gang.with_standing(Standing.PENDING))
    because = f"{gated} have scheduling gates" if gated else "their queue may not take more now"
    return GangUnschedulable(gang.short_by(with_best_effort=False), gang.min_member, because)


def _volcano_message(gang: Gang, verdict: Verdict | None) -> str:
    """The sentence that Volcano writes, which people's tools look for."""
    missing = gang.short_by(with_best_effort=False)
    histogram = ", ".join(
        sorted(f"{count} {standing.value}" for standing, count in gang.tally.of.items() if count)
    )
    because = ""
    if isinstance(verdict, GangUnschedulable):
        missing = verdict.missing
        pending = Counter(
            {
                "Unschedulable": missing,
                "Schedulable": max(0, gang.tally.of[Standing.PENDING] - missing),
            }
        )
        said = ", ".join(f"{count} {what}" for what, count in pending.items() if count)
        because = f"; Pending: {said}. Origin reason is {verdict.because}"
    return (
        f"{missing}/{len(gang.tasks)} tasks in gang unschedulable: pod group is not ready, "
        f"{histogram}, {gang.min_member} minAvailable{because}"
    )


def _news(gang: Gang) -> GangStatus | None:
    tally, told = gang.tally, gang.told
    counts = (
        Counts(tally.of[Standing.RUNNING], tally.of[Standing.SUCCEEDED], tally.of[Standing.FAILED])
        if gang.tasks
        else _NONE
    )
    assert told is not None, f"{gang.key} takes part without having been seen"
    if (
        told.phase == gang.phase
        and told.conditions is gang.conditions
        and told.counts == counts
        and (told.inqueue_since, told.not_before, told.attempts)
        == (gang.inqueue_since, gang.not_before, gang.attempts)
    ):
        return None
    return GangStatus(
        gang=gang.key,
        uid=gang.uid,
        phase=gang.phase,
        conditions=gang.conditions,
        counts=counts,
        inqueue_since=gang.inqueue_since,
        not_before=gang.not_before,
        attempts=gang.attempts,
        attempted=gang.attempted,
    )


_NONE = Counts(0, 0, 0)
