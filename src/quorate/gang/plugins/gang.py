"""Plugin ``gang``: all or nothing.

A gang is ready when its minimum has nodes, starves until then, and loses only tasks beyond its minimum.
"""

from collections import Counter
from collections.abc import Sequence

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang import pending_reasons as r
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.sub_groups import SubGroups
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.session.callbacks import PluginCallbacks, SortKey, Vote
from quorate.gang.session.session import Session
from quorate.gang.session.victims import MinMemberSurplus


def gang(session: Session, entry: PluginEntry) -> PluginCallbacks:
    with_best_effort = not session.rules.allocates_best_effort
    # Volcano protects only minMember, and so breaks gangs that need a minimum of each role.
    by_role = session.rules.keeps_roles

    def job_ready(gang: Gang) -> bool:
        return gang.is_ready(with_best_effort=with_best_effort)

    def job_order(gang: Gang) -> SortKey:
        return (not gang.missing_members(with_best_effort=with_best_effort),)

    def job_pipelined(gang: Gang) -> Vote:
        return Vote.PERMIT if gang.is_pipelined(with_best_effort=with_best_effort) else Vote.REJECT

    def beyond_minimum(preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        surpluses: dict[Key, MinMemberSurplus] = {}
        victims = []
        for victim in candidates:
            if (native := session.gang_of(victim).native) is not None:
                if not native.is_disrupted_as_a_whole:
                    victims.append(victim)
                continue
            if victim.gang not in surpluses:
                surpluses[victim.gang] = MinMemberSurplus(session.gang_of(victim), by_role=by_role)
            if surpluses[victim.gang].allows(victim):
                surpluses[victim.gang].take(victim)
                victims.append(victim)
        return victims

    def has_no_surplus(preemptor: Gang, victim: Gang) -> bool:
        if victim.native is not None:
            return victim.native.is_disrupted_as_a_whole
        return victim.task_counts.ready <= victim.min_member or victim.sub_groups is not None

    return PluginCallbacks(
        job_order=job_order,
        job_valid=invalid_reason,
        job_ready=job_ready,
        job_pipelined=job_pipelined,
        job_starving=lambda gang: gang.is_starving,
        preemptable=beyond_minimum,
        reclaimable=beyond_minimum,
        not_preemptable=has_no_surplus,
        not_reclaimable=has_no_surplus,
    )


def invalid_reason(gang: Gang) -> r.PendingReason | None:
    """Return which members are missing without which the gang cannot be placed."""
    for role, minimum in gang.role_minima.items():
        members = gang.role(role).valid
        if members < minimum:
            return r.NotEnoughPodsOfTask(role, members, minimum)
    if gang.task_counts.valid < gang.min_member:
        counts = gang.task_counts.by_status
        ended = counts[TaskStatus.FAILED] + counts[TaskStatus.RELEASING]
        return r.NotEnoughTasks(gang.task_counts.valid, gang.min_member, ended)
    if gang.sub_groups is not None:
        short = gang.sub_groups.first_short(lambda counts: counts.valid)
        if short is not None:
            policy = short.policy
            return r.NotEnoughSubGroups(
                policy.name, short.sub_groups, policy.min_sub_groups, policy.sub_group_size
            )
        return _needs_incomplete_sub_group(gang, gang.sub_groups)
    return None


def _needs_incomplete_sub_group(gang: Gang, sub_groups: SubGroups) -> r.NotEnoughSubGroups | None:
    """Return the sub group with too few members, if the minimum of ``gang`` counts its waiting members."""
    incomplete = sorted(sub_groups.incomplete(), key=lambda group: group.key)
    waiting = [
        task for group in incomplete for task in group.tasks.values() if task.status is TaskStatus.PENDING
    ]
    by_role = Counter(task.role for task in waiting)
    if gang.task_counts.valid - len(waiting) >= gang.min_member and all(
        gang.role(role).valid - by_role[role] >= minimum for role, minimum in gang.role_minima.items()
    ):
        return None
    policy = incomplete[0].policy
    complete = sub_groups.complete(incomplete[0].key.policy, lambda counts: counts.valid)
    return r.NotEnoughSubGroups(policy.name, complete, complete + 1, policy.sub_group_size)
