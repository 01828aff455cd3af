"""The messages that Volcano's plugins write for pending reasons; tools of users search for them."""

from collections import Counter

from quorate.gang import pending_reasons as r
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import TaskStatus
from quorate.gang.namespace_quota.evaluation import format_amount
from quorate.gang.shortage import Shortage


def unready_message(gang: Gang, reason: r.PendingReason | None) -> str:
    """Return the message of Volcano's plugin gang for an admitted group with too few nodes."""
    missing = gang.missing_members(with_best_effort=False)
    histogram = ", ".join(
        sorted(f"{count} {status.value}" for status, count in gang.task_counts.by_status.items() if count)
    )
    origin = ""
    if isinstance(reason, r.GangUnschedulable):
        missing = reason.missing
        pending = Counter(
            {
                "Unschedulable": missing,
                "Schedulable": max(0, gang.task_counts.by_status[TaskStatus.PENDING] - missing),
            }
        )
        pending_text = ", ".join(f"{count} {what}" for what, count in pending.items() if count)
        origin = f"; Pending: {pending_text}. Origin reason is {reason.cause}"
    elif isinstance(reason, r.InvalidQueueHierarchy | r.ReservedWindow):
        origin = f". Origin reason is {reason}"
    return (
        f"{missing}/{len(gang.tasks)} tasks in gang unschedulable: pod group is not ready, "
        f"{histogram}, {gang.min_member} minAvailable{origin}"
    )


def rejection_message(reason: r.PendingReason) -> str:
    """Return the message of Volcano's plugins for a group that is not admitted."""
    match reason:
        case r.QueueQuotaExceeded():
            return f"queue resource quota insufficient: insufficient {_resources(reason.shortages)}"
        case r.NotEnoughResources():
            return f"resource in cluster is overused: overused {_resources(reason.shortages)}"
        case r.NamespaceQuotaExceeded():
            return f"resource quota insufficient, {'; '.join(map(_quota_message, reason.shortages))}"
        case _:
            return str(reason)


def _resources(shortages: tuple[Shortage, ...]) -> str:
    return ", ".join(shortage.resource for shortage in shortages)


def _quota_message(shortage: Shortage) -> str:
    name, hard = shortage.resource, shortage.at_most
    assert isinstance(hard, int), f"{name} is short without a limit"

    def assign(amount: int) -> str:
        return f"{name}={format_amount(name, amount)}"

    return (
        f"requested: {assign(shortage.needed)}, used: {assign(hard - shortage.free)}, limited: {assign(hard)}"
    )
