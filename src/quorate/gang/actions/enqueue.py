"""Action ``enqueue``: admit pod groups, and roll them back in profile ``design``.

In profile ``compat`` groups are evaluated in queue order and job order, and admitted unless plugins reject
them; an admitted group stays admitted.

In profile ``design`` the admitted groups for which pods were evicted keep the nodes, although the groups of
these pods claim the room again for new ones.  The other admitted groups that have not started are rechecked
first, in the order of their admission: a group that was admitted later never takes the resources for which
pods were evicted.  A group is *rolled back* to Pending, and not tried again during its back-off, if its
reservation is no longer covered or if it did not start in time.  Otherwise a group would keep its reservation
for ever if its operator died or its pods fit nowhere; and without a back-off it would be admitted again at
once, only to fail again.  Then the waiting groups are evaluated in the order of their creation.  A refused
group does not block later ones, unless the dequeue strategy of its queue is ``fifo``, or its start is planned
(``planned_start``).  Source: the design
note "Delay Pod Creation", which has such groups return to Pending to avoid a loop of retries.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from quorate.api.meta import is_true, micro_time
from quorate.api.volcano import INQUEUE, PENDING, RUNNING, UNSCHEDULABLE
from quorate.gang import pending_reasons as r
from quorate.gang.actions.admission_checks import AdmissionChecks
from quorate.gang.actions.eviction_plans import EvictionPlan, EvictionPlans
from quorate.gang.actions.planned_start import beside_plan, hyper_node_shortage, plan_start, why_not_planned
from quorate.gang.actions.preempt import place_nominated
from quorate.gang.actions.repair import is_partially_bound
from quorate.gang.cache.bounds import bound_s
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.outcome import AdmittedGang, RefusedGang
from quorate.gang.session.callbacks import Vote
from quorate.gang.session.session import Session
from quorate.gang.volcano_messages import rejection_message


def enqueue(session: Session) -> None:
    if not session.rules.enqueue_checks:
        _admit_by_vote(session)
        return
    with EvictionPlans(session) as plans:
        enqueue = EnqueuePass(session, plans)
        enqueue.recheck_admitted()
        for gang in enqueue.waiting():
            enqueue.evaluate(gang)


def _admit_by_vote(session: Session) -> None:
    checks = _checks_beside_windows(session) if session.model.reserved_nodes else None
    for gang in _waiting_in_plugin_order(session):
        rejection: r.PendingReason | Literal[Vote.REJECT] | None = session.invalid_queue_reason(
            session.queue_of(gang)
        )
        if rejection is None and gang.min_resources is not None:
            rejection = session.enqueue_rejection(gang)
        if rejection is None and checks is not None:
            rejection = checks.window_refusal(gang)
        if rejection is None:
            _admit(session, gang)
            if checks is not None:
                checks.charge(gang)
        elif rejection is not Vote.REJECT:
            session.pending_reasons[gang.key] = rejection
            message = rejection_message(rejection)
            session.record_event(gang, "Normal", UNSCHEDULABLE, message, about=rejection.reason)


def _checks_beside_windows(session: Session) -> AdmissionChecks:
    checks = AdmissionChecks(session, EvictionPlans(session))
    for gang in session.gangs:
        if gang.is_active:
            checks.charge(gang)
    return checks


def _waiting_in_plugin_order(session: Session) -> Iterator[Gang]:
    """Yield the waiting groups, sorted by their queue, then by the job order within the queue.

    Admissions change neither order, so that all groups of the first queue are evaluated before the next
    queue.
    """
    waiting: defaultdict[str, list[Gang]] = defaultdict(list)
    for gang in session.gangs:
        if _may_wait(gang):
            waiting[gang.queue].append(gang)
    for queue in sorted((session.queues[name] for name in waiting), key=session.queue_order_key):
        yield from sorted(waiting[queue.name], key=session.job_order_key)


def _may_wait(gang: Gang) -> bool:
    """Return True for a group that may be admitted: one that is suspended has no quota."""
    return gang.is_pending and not gang.is_terminating and not gang.is_suspended


def _admit(session: Session, gang: Gang, plan: EvictionPlan | None = None) -> None:
    session.set_phase(gang, INQUEUE)
    session.pending_reasons.pop(gang.key, None)
    for callback in session.callbacks.job_enqueued:
        callback(gang)
    victims = () if plan is None else plan.victims
    session.admitted.append(AdmittedGang(gang.key, gang.queue, session.now - gang.created, victims))
    session.record_event(gang, "Normal", INQUEUE, f"admitted; {plan}" if victims else "admitted")


class EnqueuePass:
    """The action in profile ``design``.

    Call ``recheck_admitted`` first, then ``evaluate`` for all ``waiting``, in order.
    """

    admission: AdmissionChecks  # of the nodes as they are once ``recheck_admitted`` has placed gangs

    def __init__(self, session: Session, plans: EvictionPlans) -> None:
        self._session = session
        self._rules = session.settings.enqueue
        self._plans = plans
        self._rolled_back: set[Gang] = set()
        self._blocked_queues: set[str] = set()  # fifo queues with a first group that is not admitted

    def recheck_admitted(self) -> None:
        """Charge the started groups; charge or roll back the others in the order of their admission."""
        place_nominated(self._session)
        self._session.renew_accounts()
        self.admission = AdmissionChecks(self._session, self._plans)
        unstarted = []
        for gang in self._session.gangs:
            if gang.phase == RUNNING:  # most gangs
                self.admission.charge(gang)
            elif gang.is_active:
                if gang.has_started or gang.is_terminating:
                    self.admission.charge(gang)
                elif gang.native is None:
                    unstarted.append(gang)
        unstarted.sort(key=self._admitted_at)
        # All reservations end first: a group is checked without the reservations of those after it.
        for gang in unstarted:
            for callback in self._session.callbacks.job_dequeued:
                callback(gang)
        for gang in unstarted:
            self._recheck(gang)

    def _admitted_at(self, gang: Gang) -> float:
        since = gang.admission.inqueue_since
        return self._session.now if since is None else since

    def waiting(self) -> Iterator[Gang]:
        """Yield the waiting groups in the order of evaluation, partially bound ones first.

        With ``order: fair`` the next group depends on the admissions before.
        """
        waiting = self.all_waiting()
        yield from (gang for gang in waiting if is_partially_bound(gang))
        rest = [gang for gang in waiting if gang.is_pending and not is_partially_bound(gang)]
        yield from self._in_fair_order(rest) if self._rules.order == "fair" else rest

    def all_waiting(self) -> list[Gang]:
        """Return the waiting groups, oldest first."""
        return [gang for gang in self._session.gangs if gang.phase != RUNNING and _may_wait(gang)]

    def _in_fair_order(self, gangs: Sequence[Gang]) -> Iterator[Gang]:
        """Yield the first group, in job order, of the queue with the smallest share; again after each."""
        session = self._session
        waiting: defaultdict[str, list[Gang]] = defaultdict(list)
        for gang in sorted(gangs, key=session.job_order_key, reverse=True):
            waiting[gang.queue].append(gang)
        while waiting:
            queue = min((session.queues[name] for name in waiting), key=session.admission_order_key)
            of_queue = waiting[queue.name]
            while of_queue:
                gang = of_queue.pop()
                yield gang
                if not gang.is_pending:  # admitted: the shares are not what they were
                    break
            if not of_queue:
                del waiting[queue.name]

    def _recheck(self, gang: Gang) -> None:
        if gang.admission.inqueue_since is None:  # no annotation says when it was admitted
            gang.admission = gang.admission.since(self._session.now)
        timeout = timeout_of(self._session, gang)
        reason = self.admission.withdrawal(gang, may_evict=timeout is None) or self._overrun(gang) or timeout
        if reason is not None:
            self._roll_back(gang, reason)
            return
        self.admission.charge(gang)
        for callback in self._session.callbacks.job_enqueued:
            callback(gang)
        self._session.wake(gang.admission.times_out_at(self._rules))

    def _overrun(self, gang: Gang) -> r.EndsTooLate | None:
        """Return a reason if ``gang`` was admitted because it ends by a planned start, and would not now."""
        ends_by = gang.admission.ends_by
        if ends_by is None:
            return None
        latest_start = ends_by - bound_s(gang)
        if self._session.now > latest_start:
            return r.EndsTooLate(ends_by)
        self._session.wake(latest_start + 1)
        return None

    def _roll_back(self, gang: Gang, reason: r.PendingReason) -> None:
        session = self._session
        assert gang.spec is not None, f"{gang.key} is in a session without a pod group"
        not_before = session.now + gang.admission.next_backoff_s(self._rules)
        session.set_phase(gang, PENDING)
        gang.admission = gang.admission.rolled_back(gang.spec, not_before)
        session.pending_reasons[gang.key] = reason
        session.rolled_back.append(RefusedGang(gang.key, gang.queue, reason.reason))
        self._rolled_back.add(gang)
        message = f"{reason.reason}; next attempt not before {micro_time(not_before)}"
        session.record_event(gang, "Warning", "RolledBack", message, about=reason.reason)
        session.wake(not_before)

    def is_blocked(self, gang: Gang) -> bool:
        """Return True if an earlier group of its ``fifo`` queue is not admitted."""
        return gang.queue in self._blocked_queues

    def evaluate(self, gang: Gang) -> None:
        """Admit ``gang`` if all checks pass."""
        if self.is_blocked(gang) or self._try_admit(gang):
            return
        if self._session.queue_of(gang).dequeue == "fifo":
            self._blocked_queues.add(gang.queue)

    def _try_admit(self, gang: Gang) -> bool:
        """Return True if ``gang`` is admitted.  A refusal during the back-off is not reported."""
        session = self._session
        if gang in self._rolled_back:
            return False
        not_before = gang.admission.not_before
        if not_before is not None and session.now < not_before:
            session.wake(not_before)
            return False
        reason = self.admission.refusal(gang)
        ends_by = None
        if session.planned_group is None:
            reason = self._with_planned_start(gang, reason)
        elif reason is None:
            reason, ends_by = beside_plan(session, self.admission, gang)
        if reason is not None:
            session.pending_reasons[gang.key] = reason
            return False
        gang.admission = gang.admission.admitted(session.now, ends_by)
        _admit(session, gang, self.admission.plans.get(gang.key))
        self.admission.charge(gang)
        session.wake(gang.admission.times_out_at(self._rules))
        return True

    def _with_planned_start(self, gang: Gang, reason: r.PendingReason | None) -> r.PendingReason | None:
        """Plan the start of ``gang`` if it is refused for want of room; return the reason, with the time."""
        session = self._session
        backfills = session.queue_of(gang).backfill
        if not (self._rules.backfill == "EASY" if backfills is None else backfills):
            return reason
        if is_partially_bound(gang) or gang.quota_admission is not None:
            return reason
        if reason is None and gang.key not in self.admission.plans and not session.is_overdue(gang):
            reason = hyper_node_shortage(session, gang)
        if not isinstance(reason, r.RoomReason) or r.can_never_fit(reason):
            return reason
        why_not = why_not_planned(gang)
        plan = None if why_not is not None else plan_start(session, self.admission, gang)
        session.planned_group = plan
        if plan is None:
            by_windows = isinstance(reason, r.ReservedWindow)
            why_not = why_not or (r.NotPlanned.WINDOWS if by_windows else r.NotPlanned.HELD_BY_OTHERS)
            return r.AwaitsUnplannedStart(reason, why_not)
        if self._plans.has_placed or any(_is_to_be_placed(other) for other in session.gangs):
            return reason  # the time depends on the nodes that the action allocate chooses
        return r.AwaitsPlannedStart(reason, plan.at if math.isfinite(plan.at) else None)


def _is_to_be_placed(gang: Gang) -> bool:
    return gang.is_active and bool(gang.schedulable) and gang.task_counts.ready < gang.min_member


def timeout_of(session: Session, gang: Gang) -> r.InqueueTimeout | None:
    """Return the reason if ``gang``, which is Inqueue and has not started, has timed out.

    Whether its members found nodes is read from its condition, which the session before wrote.  A gang does
    not time out while pods are being evicted for it, or while members of its own are.
    """
    since, timeout_at = gang.admission.inqueue_since, gang.admission.times_out_at(session.settings.enqueue)
    if timeout_at is None or since is None or session.now < timeout_at:
        return None
    members = gang.task_counts.valid
    if members >= gang.min_member and not is_true(gang.conditions, UNSCHEDULABLE):
        return None
    if any(task.node for task in gang.with_status(TaskStatus.RELEASING)):
        return None
    if any(_fits_nominated_node(session, task) for task in gang.with_status(TaskStatus.PENDING)):
        return None
    return r.InqueueTimeout(session.now - since, members, gang.min_member)


def _fits_nominated_node(session: Session, task: Task) -> bool:
    node = task.nominated_node
    return bool(node) and session.node_finder.fits(task.shape, node)
