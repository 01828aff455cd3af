"""Which pod groups may have pods: the way from Pending to Inqueue, and in profile ``design`` back.

In profile ``compat`` queues in their order, and in each its groups in theirs, are admitted unless the plugins
vote against it; who is in stays in.  In profile ``design`` who is in must still be sure of what was reserved
for it, oldest first, or goes back to wait; then those that wait are asked in the order of their creation, and
who is refused does not hold up others, unless its queue is first in, first out.
"""

from collections import defaultdict
from collections.abc import Iterator

from quorate.api.meta import micro_time
from quorate.api.volcano import INQUEUE, PENDING, UNSCHEDULABLE
from quorate.gang.admission import Admission
from quorate.gang.annotations import digest_of
from quorate.gang.gang import Gang
from quorate.gang.outcome import Admitted, Refused
from quorate.gang.rollback import backoff_s, expired, expires_at
from quorate.gang.session import Session
from quorate.gang.tiers import Vote, everyone
from quorate.gang.verdicts import Verdict, in_volcanos_words


def enqueue(session: Session) -> None:
    match session.settings.profile:
        case "compat":
            _admit_by_vote(session)
        case "design":
            passes = Passes(session)
            passes.judge_again()
            for gang in passes.waiting():
                passes.offer(gang)


def _admit_by_vote(session: Session) -> None:
    for gang in _fair(session):
        if gang.min_resources is not None:
            found = session.objection_to(gang)
            if found is not None and found is not Vote.REJECT:
                session.verdicts[gang.key] = found
                session.notice(gang, "Normal", UNSCHEDULABLE, in_volcanos_words(found), about=found.reason)
            if found is not None:
                continue
        _let_in(session, gang)


def _fair(session: Session) -> Iterator[Gang]:
    """All that wait: queues in their order, in each its gangs in theirs.

    Admitting changes no order, so that the best queue is asked until it has nobody left.
    """
    waiting: defaultdict[str, list[Gang]] = defaultdict(list)
    for gang in session.gangs:
        if gang.is_waiting and not gang.is_leaving:
            waiting[gang.queue].append(gang)
    for queue in sorted((session.queues[name] for name in waiting), key=session.queue_rank):
        yield from sorted(waiting[queue.name], key=session.gang_rank)


def _let_in(session: Session, gang: Gang) -> None:
    """``gang`` may have pods from now on."""
    gang.phase = INQUEUE
    session.verdicts.pop(gang.key, None)
    for voice in everyone(session.policies.admitted):
        voice(gang)
    session.admitted.append(Admitted(gang.key, gang.queue, session.now - gang.created))
    session.notice(gang, "Normal", INQUEUE, "admitted")


class Passes:
    """Profile ``design``: first ``judge_again``, then ``offer`` the way in to all that are ``waiting``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rules = session.settings.enqueue
        self.admission = Admission(session)
        self._sent_back: set[Gang] = set()
        self._blocked: set[str] = set()  # queues, first in, first out, whose head waits

    def judge_again(self) -> None:
        """Charge who has started, and let who is in stay, the oldest first, or send it back."""
        unstarted = []
        for gang in self._session.gangs:
            if gang.is_active:
                if gang.has_started or gang.is_leaving:
                    self.admission.charge(gang)
                else:
                    unstarted.append(gang)
        for gang in unstarted:  # all first: the older are judged without what the younger were promised
            for voice in everyone(self._session.policies.withdrawn):
                voice(gang)
        for gang in unstarted:
            self._judge_again(gang)

    def waiting(self) -> Iterator[Gang]:
        """All that wait, in the order in which they are asked."""
        if self._rules.order == "fair":
            return _fair(self._session)
        return (gang for gang in self._session.gangs if gang.is_waiting and not gang.is_leaving)

    def _judge_again(self, gang: Gang) -> None:
        if gang.inqueue_since is None:  # admitted before anybody wrote it down
            gang.inqueue_since = self._session.now
        verdict = self.admission.withdrawal(gang) or expired(self._session, gang)
        if verdict is not None:
            self._send_back(gang, verdict)
            return
        self.admission.charge(gang)
        for voice in everyone(self._session.policies.admitted):
            voice(gang)
        self._session.wake(expires_at(gang, self._rules))

    def _send_back(self, gang: Gang, verdict: Verdict) -> None:
        session = self._session
        gang.phase, gang.inqueue_since = PENDING, None
        assert gang.spec is not None, f"{gang.key} takes part without having been seen"
        gang.attempts, gang.attempted = gang.attempts + 1, digest_of(gang.spec)
        gang.not_before = session.now + backoff_s(gang.attempts, self._rules)
        session.verdicts[gang.key] = verdict
        session.sent_back.append(Refused(gang.key, gang.queue, verdict.reason))
        self._sent_back.add(gang)
        again = f"next attempt not before {micro_time(gang.not_before)}"
        session.notice(gang, "Warning", "RolledBack", f"{verdict.reason}; {again}", about=verdict.reason)
        session.wake(gang.not_before)

    def is_blocked(self, gang: Gang) -> bool:
        """Whether somebody before it in its queue has to go first."""
        return gang.queue in self._blocked

    def offer(self, gang: Gang) -> None:
        """Admit ``gang`` if nothing is against it."""
        if self.is_blocked(gang) or self._admit(gang):
            return
        if self._session.queue_of(gang).dequeue == "fifo":
            self._blocked.add(gang.queue)

    def _admit(self, gang: Gang) -> bool:
        """Whether ``gang`` is admitted now.  Who is in back-off is refused in silence."""
        session = self._session
        if gang in self._sent_back:
            return False
        if gang.not_before is not None and session.now < gang.not_before:
            session.wake(gang.not_before)
            return False
        verdict = self.admission.refusal(gang)
        if verdict is not None:
            session.verdicts[gang.key] = verdict
            return False
        gang.inqueue_since, gang.not_before = session.now, None
        _let_in(session, gang)
        self.admission.charge(gang)
        session.wake(expires_at(gang, self._rules))
        return True
