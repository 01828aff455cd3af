"""Why pod groups are pending, by the rules of the scheduler."""

from collections.abc import Sequence

import msgspec

from quorate.api.meta import ObjectMeta, Uid, at_epoch
from quorate.api.native_groups import PREFIX
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.volcano import INQUEUE, PENDING, PodGroup
from quorate.gang.actions.eviction_plans import EvictionPlan
from quorate.gang.cache.model import Model
from quorate.gang.cache.quota_admission import is_suspended
from quorate.gang.explanation import unschedulable
from quorate.gang.pending_reasons import PendingReason, can_never_fit
from quorate.gang.reports import WaitingGroup, waiting_groups
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.job_names import job_uids


async def named_pod_groups(
    connection: Connection, groups: Sequence[PodGroup], written: str
) -> list[PodGroup]:
    """Return the pod group of that name, else the pod groups of the job ``NAME`` or ``TYPE[.GROUP]/NAME``.

    Raises ``UsageError`` if there is none.
    """
    if "/" in written and not written.startswith(PREFIX):
        uids = await job_uids(connection, written)  # of the job, or of the pod group given as TYPE/NAME
        chosen = [group for group in groups if not _uids(group.metadata).isdisjoint(uids)]
        problem = (
            f"{written} in {connection.scope} has no pod group "
            "(check the schedulerName of its pods, and that the controllers run)"
        )
    else:
        chosen = [group for group in groups if written in (group.metadata.name, _short_name(group))]
        if not chosen:
            chosen = [
                group
                for group in groups
                if any(owner.name == written for owner in group.metadata.owner_references)
            ]
        problem = f"no pod group {written} in {connection.scope}"
    if not chosen:
        raise UsageError(problem)
    return chosen


def _short_name(group: PodGroup) -> str:
    """Return the name of a group of Kubernetes without its API group."""
    return group.metadata.name.removeprefix(PREFIX)


def _uids(metadata: ObjectMeta) -> set[Uid]:
    """Return the UIDs of the object and of its owners."""
    return {metadata.uid, *(owner.uid for owner in metadata.owner_references)}


class Check(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    says: str
    never: bool  # it requests more than an empty cluster has


class PodGroupExplanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The result of ``explain``, as text and as JSON."""

    pod_group: str
    queue: str
    phase: str
    position: int | None = None
    waiting: int | None = None
    attempts: int = 0
    not_before: str = ""
    state: str = ""
    checks: tuple[Check, ...] = ()


def explain_pod_groups(
    model: Model, chosen: Sequence[PodGroup], settings: SchedulerConfiguration, now: float
) -> list[PodGroupExplanation]:
    """Return the explanation of each chosen pod group."""
    outlooks = waiting_groups(model, settings, now) if _evaluates_waiting(settings) else {}
    explanations = []
    for group in chosen:
        gang = model.gangs.get(group.metadata.key)
        members = 0 if gang is None else len(gang.tasks)
        explanations.append(explain_group(group, members, outlooks.get(group.metadata.key), settings))
    return explanations


def _evaluates_waiting(settings: SchedulerConfiguration) -> bool:
    """Return True if an ``enqueue`` action of the profile ``design`` evaluates waiting pod groups."""
    return "enqueue" in settings.actions and settings.profile != "compat"


def explain_group(
    group: PodGroup, members: int, outlook: WaitingGroup | None, settings: SchedulerConfiguration
) -> PodGroupExplanation:
    """Return the explanation; ``members``: its number of pods, ``outlook``: None if it is not waiting."""
    explanation = PodGroupExplanation(
        pod_group=str(group.metadata.key),
        queue=group.spec.queue,
        phase=group.status.phase or PENDING,
        state=_state(group, members, outlook, settings),
    )
    if outlook is None:
        return explanation
    return msgspec.structs.replace(
        explanation,
        position=outlook.position,
        waiting=outlook.waiting,
        attempts=outlook.attempts,
        not_before="" if outlook.not_before is None else at_epoch(outlook.not_before).isoformat(),
        checks=tuple(
            _check(name, pending_reason, outlook.plan if name == "room" else None)
            for name, pending_reason in outlook.checks.items()
        ),
    )


def _check(name: str, pending_reason: PendingReason | None, plan: EvictionPlan | None) -> Check:
    if pending_reason is None:
        return Check(name, "enough" if plan is None else str(plan), never=False)
    return Check(name, str(pending_reason), never=can_never_fit(pending_reason))


def _state(
    group: PodGroup, members: int, outlook: WaitingGroup | None, settings: SchedulerConfiguration
) -> str:
    if outlook is None:
        if is_suspended(group.metadata.annotations) and group.status.phase in ("", PENDING):
            return f"its Workload is not admitted (quorate workload explain podgroup/{group.metadata.name})"
        waits = group.status.phase in ("", PENDING)
        if waits and _evaluates_waiting(settings):
            return f"queue {group.spec.queue} does not exist, or the pod group is being deleted"
        if group.status.phase == INQUEUE and members < group.spec.min_member:
            return f"its pods may be created: {members} of {group.spec.min_member} exist"
        reason = unschedulable(group)
        return "" if reason is None else f"{reason.code}: {reason.text}"
    if outlook.not_before is not None:
        return "requeued, not retried yet"
    if outlook.blocked:
        return "waits for a pod group ahead of it in its queue, which is first in, first out"
    return "is admitted next" if outlook.admitted else "waits"
