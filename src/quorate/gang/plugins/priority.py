"""Plugin ``priority``: the more important first, among gangs and among the tasks of one.

Others are evicted for the more important only, except, in profile ``design``, for what a gang has beyond its
``minResources``: that gives way to a gang of equal priority too.
"""

from collections.abc import Sequence

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.gang import Gang
from quorate.gang.policy import Policy
from quorate.gang.session import Session
from quorate.gang.surplus import Excess
from quorate.gang.task import Task


def priority(session: Session, entry: PluginEntry) -> Policy:
    evicts_overused = session.settings.preempt.evict_overused

    def preemptable(task: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        claimant = session.gang_of(task)
        excesses: dict[Key, Excess] = {}
        victims = []
        for victim in candidates:
            gang = session.gang_of(victim)
            if gang is claimant:
                if victim.priority < task.priority:
                    victims.append(victim)
            elif gang.priority < claimant.priority:
                victims.append(victim)
            elif evicts_overused and gang.priority == claimant.priority:
                if gang.key not in excesses:
                    excesses[gang.key] = Excess(gang)
                if excesses[gang.key].take(victim):
                    victims.append(victim)
        return victims

    def unpreemptable(claimant: Gang, giver: Gang) -> bool:
        if giver is claimant or giver.priority < claimant.priority:
            return False
        return not (evicts_overused and giver.priority == claimant.priority and Excess(giver))

    return Policy(
        gang_rank=lambda gang: (-gang.priority,),
        task_rank=lambda task: (-task.priority,),
        preemptable=preemptable,
        unpreemptable=unpreemptable,
        starving=lacks_members,
    )


def lacks_members(gang: Gang) -> bool:
    """Whether some member neither holds a node nor is promised one."""
    return gang.tally.ready + gang.tally.promised < len(gang.tasks)
