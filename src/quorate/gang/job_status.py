"""The status of pod groups at the end of a session: phase, conditions and counts.

Only the plugin gang has the readiness of groups with members reported.  In profile ``design`` it reports on
admitted groups only, and with the actual reason; waiting groups report why the action ``enqueue`` did not
admit them; and Unschedulable is removed as soon as the group is ready or Completed.

Source of the phases: Volcano's job updater.  In either profile a Completed group stays so until further
members need nodes, although its pods are deleted.  In profile ``design`` a group never returns to Pending
while members have nodes, and it is not Completed while a member waits, nor without having had members.
Members that terminate have nodes, unless the scheduler evicts them: their group waits from then on.
"""

from typing import Final

from quorate.api.meta import epoch, is_true
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
from quorate.gang import pending_reasons as r
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reported_status import TO_BE_COMPUTED
from quorate.gang.cache.task import ALLOCATED_STATUSES, TaskCounts, TaskStatus
from quorate.gang.outcome import Counts, GangStatus, RefusedGang
from quorate.gang.pod_group_conditions import (
    renewed,
    transition_stamp,
    with_scheduled,
    with_unschedulable,
    without_unschedulable,
    written_before,
)
from quorate.gang.session.session import Session
from quorate.gang.session.waiting_causes import cause_without_refusals
from quorate.gang.topology_reasons import NetworkTopologyUnsatisfied, NoSuchTier
from quorate.gang.volcano_messages import unready_message
from quorate.placement.cluster.occupants import AllocationState

RENEWAL_S: Final = 60.0  # how long the amounts in the condition of a waiting group may be outdated
MAX_RENEWALS: Final = 20  # in a session


def report_pipelined(session: Session) -> None:
    """Set the pending reason of gangs with pipelined tasks, also if placing failed before."""
    for gang in session.pipelined_gangs:
        nodes = {task.node for task in gang.with_status(TaskStatus.PIPELINED, TaskStatus.ALLOCATED)}
        leaving = sum(_leaving_pods(session, node) for node in nodes)
        session.pending_reasons[gang.key] = r.AwaitsEvictions(len(nodes), leaving)


def _leaving_pods(session: Session, node: str) -> int:
    index = session.cluster.index(node)
    assert index is not None, f"tasks are pipelined to {node}, which does not exist"
    pod_counts = session.cluster.pod_counts(index)
    return sum(count for (_, hold), count in pod_counts.items() if hold is AllocationState.RELEASING)


def renew_lost_groups(session: Session) -> None:
    """Have groups that have lost all members wait for admission in this session already (profile ``design``).

    Groups after them would get the room, and be evicted for them once they are admitted anew.
    """
    updater = _StatusUpdater(session)
    for gang in session.gangs if session.rules.readmits_lost else ():
        if gang.reported.generation != gang.generation and gang.has_lost_all:
            updater.update_phase(gang, unschedulable=False)


def renew_evicted_groups(session: Session) -> None:
    """Give the groups that lose pods to ``session`` the phases that they have once it is closed."""
    updater = _StatusUpdater(session)
    for key in dict.fromkeys(eviction.gang for eviction in session.evictions):
        updater.update_phase(session.model.gangs[key], unschedulable=False)


def job_statuses(session: Session) -> tuple[GangStatus, ...]:
    """Return the statuses that changed, ordered by the age of the groups, the oldest first."""
    updater = _StatusUpdater(session)
    statuses = []
    for gang in session.gangs:
        reason = session.pending_reasons.get(gang.key)
        if gang.reported.generation == gang.generation and gang.reported.reason == reason:
            continue
        status = updater.update(gang)
        gang.ended = 0
        if status is not None:
            statuses.append(status)
        is_final = gang.phase in (RUNNING, COMPLETED) or (gang.phase == INQUEUE and reason is not None)
        is_computed = is_final and not gang.has_lost_all
        gang.reported.generation = gang.generation if is_computed else TO_BE_COMPUTED
        gang.reported.reason = reason
    gangs = session.model.gangs
    for gang in gangs.values() if len(session.gangs) < len(gangs) else ():
        if gang.exists and gang.queue not in session.queues:
            status = updater.report_missing_queue(gang)
            if status is not None:
                statuses.append(status)
    return tuple(statuses)


def reason_of_unready(session: Session, gang: Gang) -> r.PendingReason:
    """Return why too few members of ``gang``, which is admitted, have a node."""
    reason = session.invalid_reason(gang) or session.pending_reasons.get(gang.key)
    if reason is not None:
        return reason
    missing = gang.missing_members(with_best_effort=False)
    return r.GangUnschedulable(missing, gang.min_member, cause_without_refusals(session, gang))


def phase_after(
    phase: str,
    min_member: int,
    counts: TaskCounts,
    *,
    ended: int = 0,
    cut_short: int = 0,
    evicted: bool = False,
    unschedulable: bool,
    keeps_live_groups: bool,
) -> str:
    """Return the phase of a group that was in ``phase``, at the end of a session.

    ``ended``: members that had finished and were deleted.  ``cut_short``: members that
    were deleted before they ended, so that they did not finish their work (``design``).  ``evicted``: the
    group does not wait for members that terminate: this session evicts them, or they are on lost nodes.
    ``unschedulable``: this session found that the group cannot be scheduled.  ``keeps_live_groups``: the
    rules of profile ``design``.  Tasks that are being bound do not count yet, so that a group that was just
    placed is Running one session later.
    """
    if unschedulable and counts.by_status[TaskStatus.RUNNING]:
        return UNKNOWN
    if phase == COMPLETED and counts.unfinished == counts.by_status[TaskStatus.RELEASING]:
        return COMPLETED  # although its pods are deleted
    finished = counts.finished - cut_short
    if phase in (RUNNING, UNKNOWN) and not counts.unfinished and 0 < finished + ended >= min_member:
        return COMPLETED
    scheduled = counts.scheduled - cut_short
    if scheduled >= min_member and (scheduled or not keeps_live_groups):
        is_over = not counts.unfinished if keeps_live_groups else scheduled == finished
        return COMPLETED if is_over else RUNNING
    if keeps_live_groups and phase in (RUNNING, UNKNOWN):
        if any(counts.by_status[status] for status in ALLOCATED_STATUSES):
            return UNKNOWN
        if counts.by_status[TaskStatus.RELEASING] and not evicted:
            return phase
    return INQUEUE if phase == INQUEUE else PENDING


class _StatusUpdater:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._reports_reasons = session.rules.reports_reasons
        self._has_gang_plugin = any(entry.name == "gang" for tier in session.settings.tiers for entry in tier)
        self._stamp = transition_stamp(session.now)
        self._evicted = {eviction.gang for eviction in session.evictions}
        self._renewals = MAX_RENEWALS

    def update(self, gang: Gang) -> GangStatus | None:
        """Update phase and conditions of ``gang``; return its status if it has to be written."""
        reason = self._session.pending_reasons.get(gang.key)
        if not gang.tasks and gang.min_member > 0 and gang.phase in (PENDING, INQUEUE):
            # Most groups of a busy cluster: only the reason for waiting can have changed.
            if self._reports_reasons and reason is not None and gang.phase == PENDING:
                self._report_not_admitted(gang, reason)
        else:
            self._update_with_members(gang, reason)
        return _changed_status(gang)

    def report_missing_queue(self, gang: Gang) -> GangStatus | None:
        """Report that the queue of ``gang`` does not exist; return its status if it has to be written.

        The event is that of ``scheduler.missing_references``.
        """
        reason = r.QueueNotFound(gang.queue)
        if self._reports_reasons and gang.phase in ("", PENDING, INQUEUE):
            gang.phase = gang.phase or PENDING
            self._session.pending_reasons[gang.key] = reason
            self._set_unschedulable(gang, reason.reason, str(reason))
        return _changed_status(gang)

    def _update_with_members(self, gang: Gang, reason: r.PendingReason | None) -> None:
        reports_readiness = (
            self._has_gang_plugin
            and bool(gang.tasks)
            and not (self._reports_reasons and (gang.is_pending or gang.has_lost_all))
        )
        # Whatever the roles of members: the minima of roles only decide what is placed.
        is_ready = not gang.missing_members(with_best_effort=not self._session.rules.allocates_best_effort)
        not_admitted = self._reports_reasons and gang.is_pending and reason is not None
        self.update_phase(gang, unschedulable=not_admitted or (reports_readiness and not is_ready))
        if gang.phase == RUNNING:
            gang.admission = gang.admission.has_run()
        if not_admitted and reason is not None:
            self._report_not_admitted(gang, reason)
        elif reports_readiness and is_ready:
            self._report_ready(gang, str(reason) if isinstance(reason, r.FurtherMembersWait) else "")
        elif self._reports_reasons and gang.phase == COMPLETED:
            gang.conditions = without_unschedulable(gang.conditions)
        elif reports_readiness:
            self._report_not_ready(gang, reason)

    def update_phase(self, gang: Gang, *, unschedulable: bool) -> None:
        """Set the phase, and remove what is recorded of an admission that ends with it."""
        before, deleted = gang.phase, gang.deleted_after_end
        gang.phase = phase_after(
            gang.phase,
            gang.min_member,
            gang.task_counts,
            ended=gang.ended_before,
            cut_short=gang.cut_short if self._reports_reasons else 0,
            evicted=gang.key in self._evicted or self._is_on_lost_nodes(gang),
            unschedulable=unschedulable,
            keeps_live_groups=self._reports_reasons,
        )
        if gang.native is not None and gang.phase == PENDING:
            gang.phase = INQUEUE  # it needs no admission
        if gang.phase not in (INQUEUE, UNKNOWN):
            gang.admission = gang.admission.since(None)
        is_new = any(gang.task_counts.by_status[status] for status in _WITHOUT_NODE)
        gang.admission = gang.admission.with_ended(
            deleted if gang.phase in (RUNNING, UNKNOWN) and not is_new else 0
        )
        if before in (RUNNING, UNKNOWN) and gang.phase == PENDING and self._is_restarted(gang):
            gang.phase, gang.admission = INQUEUE, gang.admission.since(self._session.now)
        if gang.phase != before:
            self._session.model.note_change()

    def _is_restarted(self, gang: Gang) -> bool:
        """Return True if a controller creates all members again, so that they keep the reservation.

        As after each admission, it ends if they do not start in time.  The scheduler evicts members because
        others are to have the room.
        """
        is_gone = gang.key in self._evicted or gang.is_suspended or gang.is_terminating
        return self._reports_reasons and gang.owner.creates_members and not is_gone

    def _is_on_lost_nodes(self, gang: Gang) -> bool:
        """Return True if no pods are left but some that terminate on nodes that are not ready, for too long.

        Nothing removes these before their nodes return or are deleted.
        """
        if not gang.has_lost_all:
            return False
        cluster = self._session.cluster
        ends = []
        for task in gang.with_status(TaskStatus.RELEASING):
            index, ends_at = cluster.index(task.node), task.pod.metadata.deletion_timestamp
            if ends_at is None or (index is not None and cluster.ready[index]):
                return False
            ends.append(epoch(ends_at))
        end = max(ends, default=self._session.now)
        self._session.wake(end)
        return end <= self._session.now

    def _report_not_admitted(self, gang: Gang, reason: r.PendingReason) -> None:
        """Report why the action ``enqueue`` does not admit ``gang``, or rolled it back."""
        reported = gang.reported
        if not reported.has_refusal(reason, gang.conditions):
            self._report_refusal(gang, reason)
        if reported.is_outdated:
            self._renew(gang, reason)

    def _report_refusal(self, gang: Gang, reason: r.PendingReason) -> None:
        reported = gang.reported
        was_pending = reported.written is not None and reported.written.phase in ("", PENDING)
        changed = self._set_unschedulable(gang, reason.reason, str(reason))
        if changed and was_pending:
            self._session.refused.append(RefusedGang(gang.key, gang.queue, reason.reason))
            self._session.record_event(gang, "Normal", UNSCHEDULABLE, str(reason), about=reason.reason)
        reported.refusal, reported.is_outdated = (reason, gang.conditions), not changed

    def _renew(self, gang: Gang, reason: r.PendingReason) -> None:
        """Bring the amounts in the condition up to date, or have a later session do it."""
        now = self._session.now
        if not self._renewals or not written_before(gang.conditions, now - RENEWAL_S):
            self._session.wake(now + RENEWAL_S)
            return
        before = gang.conditions
        gang.conditions = renewed(before, str(reason), self._stamp)
        self._renewals -= gang.conditions is not before
        gang.reported.refusal, gang.reported.is_outdated = (reason, gang.conditions), False

    def _report_not_ready(self, gang: Gang, reason: r.PendingReason | None) -> None:
        """Report that too few members of ``gang``, which is admitted, have a node."""
        if self._reports_reasons:
            reason = reason_of_unready(self._session, gang)
            condition_reason, message = _condition_reason(reason), str(reason)
        else:
            reason = self._session.invalid_queue_reason(self._session.queue_of(gang)) or reason
            condition_reason, message = NOT_ENOUGH_RESOURCES, unready_message(gang, reason)
        changed = self._set_unschedulable(gang, condition_reason, message)
        if changed and gang.phase in (PENDING, INQUEUE, UNKNOWN):
            self._session.record_event(gang, "Warning", UNSCHEDULABLE, message, about=condition_reason)

    def _report_ready(self, gang: Gang, message: str) -> None:
        before = gang.conditions
        gang.conditions = with_scheduled(before, self._stamp, message=message, clears=self._reports_reasons)
        if gang.conditions is not before and not is_true(before, SCHEDULED):
            self._session.record_event(gang, "Normal", SCHEDULED, "pod group is ready")

    def _set_unschedulable(self, gang: Gang, reason: str, message: str) -> bool:
        """Return True if the conditions changed."""
        before = gang.conditions
        gang.conditions = with_unschedulable(before, reason, message, self._stamp)
        return gang.conditions is not before


def _condition_reason(reason: r.PendingReason) -> str:
    """Return the condition reason of Volcano's gang plugin, which ignores queue limits."""
    match reason:
        case (
            r.NotEnoughTasks()
            | r.NotEnoughPodsOfTask()
            | r.NotEnoughSubGroups()
            | NetworkTopologyUnsatisfied()
            | NoSuchTier()
            | r.InvalidQueueHierarchy()
            | r.ReservedWindow()
            | r.AwaitsVictimSearch()
        ):
            return reason.reason
        case _:
            return NOT_ENOUGH_RESOURCES


def _changed_status(gang: Gang) -> GangStatus | None:
    task_counts, written = gang.task_counts, gang.reported.written
    counts = (
        Counts(
            task_counts.by_status[TaskStatus.RUNNING],
            task_counts.by_status[TaskStatus.SUCCEEDED],
            task_counts.by_status[TaskStatus.FAILED] - gang.cut_short,  # as ``deleted_after_end`` counts
        )
        if gang.tasks
        else _NO_MEMBERS
    )
    assert written is not None, f"{gang.key} is in a session without a pod group"
    if (
        written.phase == gang.phase
        and written.conditions is gang.conditions
        and written.counts == counts
        and written.admission == gang.admission
    ):
        return None
    return GangStatus(gang.key, gang.uid, gang.phase, gang.conditions, counts, gang.admission)


_NO_MEMBERS = Counts(0, 0, 0)
# Of members that wait for a node, or have had it for less than a session.
_WITHOUT_NODE: Final = (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING)
