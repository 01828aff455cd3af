"""The tasks that plugins choose to be evicted, the order of victims, and what gangs can lose.

The first tier that decides chooses, as in Volcano, where a plugin that only protects some tasks, such as
``conformance``, switches off all tiers below its own.  In profile ``design`` the shares of queues hold all
the same: for ``reclaim``, plugins with shares in these tiers leave only what queues have beyond them.
In profile ``compat`` they do so only where the victim's gang might reclaim its resources again.

Two rules decide whether a task is surplus.  Both subtract the tasks taken, in the order of the calls:

* The gang keeps its ``minMember`` without the task (``MinMemberSurplus``).
* The gang is *overused*: it has more than its ``minResources`` of a resource that the task requests, so that
  even gangs of the same priority may preempt the task (``MinResourcesSurplus``).

Source of the rules: the design note "Delay Pod Creation" (operators may create more pods than
``minResources`` covers, and preempt must be able to evict these).
"""

from collections.abc import Iterable, Sequence
from functools import partial

from quorate.api.meta import Key
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.task import Task
from quorate.gang.outcome import EvictionAction
from quorate.gang.session.callbacks import agreed_victims, all_callbacks
from quorate.gang.session.session import Session


def choose_victims(
    session: Session, action: EvictionAction, task: Task, candidates: Sequence[Task]
) -> Sequence[Task]:
    """Return the ``candidates`` that may be evicted for ``task``; both are in victim order."""
    callbacks = session.callbacks.preemptable if action == "preempt" else session.callbacks.reclaimable
    choices = [[partial(callback, task, candidates) for callback in tier] for tier in callbacks]
    victims, tier = agreed_victims(choices, empty_is_final=session.rules.keeps_shares)
    if action == "preempt":
        by_priority = session.settings.has_plugin("priority")
        if _is_ordered_by_shares(session, tier, by_priority=by_priority):
            return victims
        return _without_equals(session, task, victims, by_priority=by_priority)
    if not any(session.callbacks.beyond_share):
        return _without_equals(session, task, victims, by_priority=False)
    beyond_shares = victims
    for callback in all_callbacks(session.callbacks.beyond_share[tier + 1 :]):
        beyond_shares = callback(task, beyond_shares)
    return (
        beyond_shares
        if session.rules.keeps_shares
        else _without_next_preemptors(session, victims, beyond_shares)
    )


def _is_ordered_by_shares(session: Session, deciding: int, *, by_priority: bool) -> bool:
    """Return True if ``drf`` chose victims in the tier ``deciding``, for gangs below their minimum only."""
    tiers = [{entry.name for entry in tier} for tier in session.settings.tiers]
    only_below_minimum = not by_priority or any({"priority", "gang"} <= names for names in tiers)
    return only_below_minimum and any("drf" in names for names in tiers[deciding : deciding + 1])


def _without_equals(
    session: Session, preemptor: Task, victims: Sequence[Task], *, by_priority: bool
) -> Sequence[Task]:
    """Return ``victims`` of lower priority, if that counts, or surplus for a gang below its minimum.

    So evictions end although neither ``priority`` nor shares decide about them: a tier above chose victims
    alone, or a tier below chose others after a refusal.
    """
    if not (session.settings.has_plugin("gang") or session.settings.has_plugin("priority")):
        return victims
    gang = session.gang_of(preemptor)
    surpluses: dict[Key, MinMemberSurplus] = {}
    kept = []
    for victim in victims:
        other = session.gang_of(victim)
        lead = preemptor.priority - victim.priority if other is gang else gang.priority - other.priority
        surplus = surpluses.setdefault(victim.gang, MinMemberSurplus(other, by_role=False))
        takes_surplus = gang.is_starving and other is not gang and (lead >= 0 or not by_priority)
        if (by_priority and lead > 0) or (takes_surplus and surplus.allows(victim)):
            surplus.take(victim)
            kept.append(victim)
    return kept


def _without_next_preemptors(
    session: Session, victims: Sequence[Task], beyond_shares: Sequence[Task]
) -> list[Task]:
    """Return ``victims`` except of gangs that would starve and might reclaim the resources again.

    So ``reclaim`` ends in profile ``compat`` too, where shares in lower tiers do not count.
    """
    has_minima = session.settings.has_plugin("gang")
    surpluses: dict[Key, MinMemberSurplus] = {}
    kept = []
    for victim in victims:
        if victim.gang not in surpluses:
            surpluses[victim.gang] = MinMemberSurplus(session.gang_of(victim), by_role=False)
        starves = not has_minima or not surpluses[victim.gang].allows(victim)
        if victim in beyond_shares or not starves:
            surpluses[victim.gang].take(victim)
            kept.append(victim)
    return kept


def has_possible_victims(session: Session, action: EvictionAction, preemptor: Gang, victim: Gang) -> bool:
    """Return False if ``choose_victims`` returns no task of ``victim`` for any task of ``preemptor``.

    All callbacks of one tier have to choose a victim, so one that never would excludes its tier.
    """
    callbacks = session.callbacks
    choosers, exclusions = (
        (callbacks.preemptable, callbacks.not_preemptable)
        if action == "preempt"
        else (callbacks.reclaimable, callbacks.not_reclaimable)
    )
    return any(
        choosing and not any(exclude(preemptor, victim) for exclude in excluding)
        for choosing, excluding in zip(choosers, exclusions, strict=True)
    )


def in_victim_order(session: Session, candidates: Iterable[Task], preemptor_queue: Queue) -> list[Task]:
    """Sort victims: by queue, furthest above its share first, then last gang, last task first.

    Gangs of one queue with equal plugin keys are not ordered by age: the task order decides among their
    tasks.
    """
    tasks = session.in_task_order(candidates)[::-1]
    gangs = {task.gang: session.gang_of(task) for task in tasks}
    gang_keys = {key: session.plugin_job_order(gang) for key, gang in gangs.items()}
    tasks.sort(key=lambda task: gang_keys[task.gang], reverse=True)
    queues = {gang.queue: session.queue_of(gang) for gang in gangs.values()}
    if len(queues) == 1:
        return tasks
    queue_keys = {name: session.queue_order_key(queue) for name, queue in queues.items()}
    tasks.sort(key=lambda task: queue_keys[gangs[task.gang].queue], reverse=True)
    callbacks = session.callbacks.victim_queue_order
    victim_queue_keys = {
        name: tuple(callback(queue, preemptor_queue) for callback in callbacks)
        for name, queue in queues.items()
    }
    tasks.sort(key=lambda task: victim_queue_keys[gangs[task.gang].queue])
    return tasks


class MinMemberSurplus:
    """The tasks that a gang can lose and be ready.  ``by_role``: role minima count too."""

    __slots__ = ("_members", "_roles")

    def __init__(self, gang: Gang, *, by_role: bool) -> None:
        # Which members of a gang with sub groups are beyond its minimum is not known: none are lost.
        self._members = gang.task_counts.ready - gang.min_member if gang.sub_groups is None else 0
        minima = gang.role_minima if by_role else {}
        self._roles = {role: gang.role(role).ready - minimum for role, minimum in minima.items()}

    def allows(self, task: Task) -> bool:
        """Return True if the gang is ready without ``task`` and those taken before."""
        return self._members > 0 and self._roles.get(task.role, 1) > 0

    def take(self, task: Task) -> None:
        self._members -= 1
        if task.role in self._roles:
            self._roles[task.role] -= 1


class MinResourcesSurplus:
    """What a gang has beyond its ``minResources``, of the resources that these name."""

    __slots__ = ("_surplus",)

    def __init__(self, gang: Gang) -> None:
        minimum = gang.min_resources or {}
        self._surplus = {name: gang.requests.allocated[name] - amount for name, amount in minimum.items()}

    def __bool__(self) -> bool:
        return any(amount > 0 for amount in self._surplus.values())

    def take(self, task: Task) -> bool:
        """Take ``task`` and return True if there is a surplus of any resource that it requests."""
        if not any(amount > 0 and task.request.get(name, 0) > 0 for name, amount in self._surplus.items()):
            return False
        for name in self._surplus:
            self._surplus[name] -= task.request.get(name, 0)
        return True
