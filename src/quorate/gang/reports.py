"""Reports on pod groups and queues for status, metrics, dashboard and ``explain``.

The plugins and the action ``enqueue`` themselves compute the answers, so that a report shows what a session
decides.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from quorate.api.meta import Key, Uid
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.volcano import COMPLETED
from quorate.gang.actions.enqueue import EnqueuePass
from quorate.gang.actions.eviction_plans import EvictionPlan, EvictionPlans
from quorate.gang.actions.planned_start import beside_plan
from quorate.gang.cache.model import Model
from quorate.gang.cache.queue import ROOT, with_ancestors
from quorate.gang.cache.queue_accounts import Account, add
from quorate.gang.deserved import dominant_share
from quorate.gang.pending_reasons import PendingReason
from quorate.gang.plugins.claimed_devices import claimed_by_queue
from quorate.gang.profile_rules import PROFILE_RULES
from quorate.gang.session.callbacks import QueueShare
from quorate.gang.session_opening import open_session
from quorate.placement.resources import Amounts

REPORTED_SEARCHES: Final = 100  # a report is made once, not every second

# Pod groups.


@dataclass(frozen=True, slots=True)
class GangReport:
    uid: Uid
    queue: str
    created: float  # seconds since the epoch
    missing_members: int | None  # how many more members need a node; None for a completed group
    # Its dominant share of the cluster; None if it has no resources, or without the plugin drf.
    share: Fraction | None


def gang_reports(model: Model, settings: SchedulerConfiguration) -> Mapping[Key, GangReport]:
    """Return a report on each pod group that exists.  Call it between two sessions."""
    with_best_effort = not PROFILE_RULES[settings.profile].allocates_best_effort
    has_drf = any(entry.name == "drf" for tier in settings.tiers for entry in tier)
    total = model.cluster.total
    reports = {}
    for key, gang in model.gangs.items():
        if gang.exists:
            is_completed = gang.phase == COMPLETED
            charged = gang.requests.charged if has_drf else None
            reports[key] = GangReport(
                uid=gang.uid,
                queue=gang.queue,
                created=gang.created,
                missing_members=None
                if is_completed
                else gang.missing_members(with_best_effort=with_best_effort),
                share=dominant_share(charged, total) if charged else None,
            )
    return reports


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """Why one pod group waits: the result of every check, not only of the first that fails."""

    position: int  # in the order in which groups are evaluated; the first is 1
    waiting: int  # the number of all waiting groups
    checks: Mapping[str, PendingReason | None]  # by name, in order; ``None`` where the check passes
    plan: EvictionPlan | None  # what is to be evicted so that the group has room
    blocked: bool  # an earlier group is not admitted, and the dequeue strategy of their queue is fifo
    not_before: float | None  # the end of its back-off in seconds since the epoch, if it is in one
    attempts: int  # how often it was rolled back

    @property
    def admitted(self) -> bool:
        """Whether the next session admits it."""
        return not self.blocked and self.not_before is None and not any(self.checks.values())


def waiting_groups(model: Model, settings: SchedulerConfiguration, now: float) -> dict[Key, WaitingGroup]:
    """Return all waiting groups in the order of evaluation; ``now`` in seconds since the epoch.

    Each is evaluated after the groups before it were admitted, if they are.  ``model`` is changed as by a
    session and must not be used afterwards.
    """
    session = open_session(model, settings, now)
    result: dict[Key, WaitingGroup] = {}
    with EvictionPlans(session, max_searches=REPORTED_SEARCHES) as plans:
        enqueue = EnqueuePass(session, plans)
        enqueue.recheck_admitted()
        waiting = len(enqueue.all_waiting())
        for position, gang in enumerate(enqueue.waiting(), start=1):
            record = gang.admission
            in_backoff = record.not_before is not None and now < record.not_before
            blocked = enqueue.is_blocked(gang)
            checks = dict(enqueue.admission.checks(gang, may_evict=not (in_backoff or blocked)))
            if session.planned_group is not None and not any(checks.values()):
                checks["planned start"] = beside_plan(session, enqueue.admission, gang)[0]
            result[gang.key] = WaitingGroup(
                position=position,
                waiting=waiting,
                checks=checks,
                plan=enqueue.admission.plans.get(gang.key),
                blocked=blocked,
                not_before=record.not_before if in_backoff else None,
                attempts=record.attempts,
            )
            enqueue.evaluate(gang)
    return result


# Queues.


@dataclass(frozen=True, slots=True)
class QueueReport:
    """One queue; amounts in base units, with those of the queues below it."""

    weight: int
    allocated: Amounts
    request: Amounts
    reserved: Amounts  # what admitted groups may still allocate
    capability: Amounts  # a resource that is absent has no limit
    share: QueueShare | None  # None if no plugin assigns shares to queues


def queue_reports(model: Model, settings: SchedulerConfiguration, now: float) -> Mapping[str, QueueReport]:
    """Return a report on each queue; ``now`` in seconds since the epoch.

    Call it between two sessions.
    """
    session = open_session(model, settings, now)

    def path(queue: str) -> list[str]:
        return [ancestor.name for ancestor in with_ancestors(queue, session.queues)]

    accounts = session.open_accounts(path)
    for charged, amounts in claimed_by_queue(model).items():
        for on_path in path(charged) if charged in accounts.by_queue else ():
            accounts.charge(on_path, amounts, 1)
    reports = {}
    for name, queue in session.queues.items():
        account = accounts.by_queue.get(name, Account())
        reports[name] = QueueReport(
            weight=queue.weight,
            allocated=account.allocated,
            request=account.request,
            reserved=account.reserved,
            capability=queue.capability,
            share=next((callback(queue) for callback in session.callbacks.queue_share), None),
        )
    return reports


def allocated_by_queue(model: Model) -> Mapping[str, Amounts]:
    """Return the requests of tasks with a node by queue, queues below and claimed devices included; no zeros.

    The root has the sum of all queues.  Call it between two sessions; plugins make no difference.
    """
    allocated: dict[str, Counter[str]] = {name: Counter() for name in model.queues}
    devices = claimed_by_queue(model)
    for queue, account in model.queue_accounts(model.participating_gangs()).items():
        for name in allocated.keys() & {
            ROOT,
            *(ancestor.name for ancestor in with_ancestors(queue, model.queues)),
        }:
            add(allocated[name], account.allocated)
            add(allocated[name], devices.get(queue, {}))
    return allocated
