"""Plugin ``gang``: all or nothing.

A gang is placed when its minimum is, starves while it is not, and loses members down to it.
"""

from collections.abc import Sequence

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.gang import Gang
from quorate.gang.policy import Policy, Rank
from quorate.gang.session import Session
from quorate.gang.surplus import Spare
from quorate.gang.task import Task
from quorate.gang.tiers import Vote
from quorate.gang.verdicts import NotEnoughPodsOfTask, NotEnoughTasks, Verdict


def gang(session: Session, entry: PluginEntry) -> Policy:
    with_best_effort = session.counts_best_effort
    # Volcano protects the minimum of the whole only, and breaks gangs that need one of each role.
    by_role = session.settings.profile == "design"

    def is_ready(gang: Gang) -> bool:
        return gang.is_ready(with_best_effort=with_best_effort)

    def rank(gang: Gang) -> Rank:
        return (not gang.short_by(with_best_effort=with_best_effort),)

    def promised(gang: Gang) -> Vote:
        return Vote.PERMIT if gang.is_promised(with_best_effort=with_best_effort) else Vote.REJECT

    def spare(task: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        spares: dict[Key, Spare] = {}
        victims = []
        for victim in candidates:
            if victim.gang not in spares:
                spares[victim.gang] = Spare(session.gang_of(victim), by_role=by_role)
            if spares[victim.gang].may_lose(victim):
                spares[victim.gang].lose(victim)
                victims.append(victim)
        return victims

    def has_none_to_spare(claimant: Gang, giver: Gang) -> bool:
        return giver.tally.ready <= giver.min_member

    return Policy(
        gang_rank=rank,
        valid=invalidity,
        ready=is_ready,
        promised=promised,
        starving=lambda gang: gang.is_starving,
        preemptable=spare,
        reclaimable=spare,
        unpreemptable=has_none_to_spare,
        unreclaimable=has_none_to_spare,
    )


def invalidity(gang: Gang) -> Verdict | None:
    """Which members it lacks that it cannot be placed without."""
    for role, minimum in gang.role_minima.items():
        members = gang.role(role).valid
        if members < minimum:
            return NotEnoughPodsOfTask(role, members, minimum)
    if gang.tally.valid < gang.min_member:
        return NotEnoughTasks(gang.tally.valid, gang.min_member)
    return None
