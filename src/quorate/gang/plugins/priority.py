"""Plugin ``priority``: order gangs, and the tasks of a gang, by descending priority.

Tasks are preempted only for a higher priority; in profile ``design`` the tasks of a gang beyond its
``minResources`` also for a gang of equal priority.
"""

from collections.abc import Sequence

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task
from quorate.gang.session.callbacks import PluginCallbacks
from quorate.gang.session.session import Session
from quorate.gang.session.victims import MinMemberSurplus, MinResourcesSurplus


def priority(session: Session, entry: PluginEntry) -> PluginCallbacks:
    evicts_overused = session.settings.preempt.evict_overused

    def preemptable(task: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        preemptor = session.gang_of(task)
        # Gangs that have their minimum would fight over what they have beyond it, without end.
        takes_surplus = evicts_overused and preemptor.is_starving
        surpluses: dict[Key, tuple[MinMemberSurplus, MinResourcesSurplus]] = {}
        victims = []
        for victim in candidates:
            gang = session.gang_of(victim)
            if gang is preemptor:
                if victim.priority < task.priority:
                    victims.append(victim)
            elif gang.priority < preemptor.priority:
                victims.append(victim)
            elif takes_surplus and gang.priority == preemptor.priority:
                if gang.key not in surpluses:
                    members = MinMemberSurplus(gang, by_role=True)
                    surpluses[gang.key] = members, MinResourcesSurplus(gang)
                members, resources = surpluses[gang.key]
                if members.allows(victim) and resources.take(victim):
                    members.take(victim)
                    victims.append(victim)
        return victims

    def not_preemptable(preemptor: Gang, victim: Gang) -> bool:
        if victim is preemptor or victim.priority < preemptor.priority:
            return False
        return not (evicts_overused and victim.priority == preemptor.priority and MinResourcesSurplus(victim))

    return PluginCallbacks(
        job_order=lambda gang: (-gang.priority,),
        task_order=lambda task: (-task.priority,),
        preemptable=preemptable,
        not_preemptable=not_preemptable,
        job_starving=is_short_of_members,
    )


def is_short_of_members(gang: Gang) -> bool:
    """Return True if any member neither has a node nor is pipelined."""
    return gang.task_counts.ready + gang.task_counts.pipelined < len(gang.tasks)
