"""The eviction of whole gangs, where evicting single tasks does not suffice.

Gangs are evicted one by one, the least important first, until the preemptor's members find nodes; then every
victim is spared without which they still do.  So no gang loses a part of its tasks, and no gang is evicted
without need.

For ``reclaim`` a gang is spared, too, if its minimum is within its queue's share but has no room beside the
preemptor: it would reclaim the nodes in turn, as soon as the other queue exceeds its own share.

Source: the design note "Delay Pod Creation", which asks for the eviction of whole jobs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.gang.actions.hyper_node_rooms import finders_after_evictions, is_pipelined
from quorate.gang.actions.ordering import divide_by_roles, tasks_to_place
from quorate.gang.actions.repeated_search import computed_once
from quorate.gang.actions.room_without_victims import amounts_of, may_be_pipelined
from quorate.gang.actions.victim_search import awaits_evictions, carry_out
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import EVICTABLE_STATUSES, Task, TaskStatus
from quorate.gang.outcome import EvictionAction
from quorate.gang.session.session import Session
from quorate.gang.session.statement import Statement
from quorate.placement.hyper_nodes.part_finder import LimitedNodeFinder
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Matrix

MAX_ATTEMPTS: Final = 3  # to find victims that do not reclaim their nodes again

Finder = NodeFinder | LimitedNodeFinder


def evict_whole_gangs(
    session: Session,
    action: EvictionAction,
    preemptor: Gang,
    candidates: Iterable[Gang],
    may_pipeline: Callable[[Task], bool],
    may_evict: Callable[[Gang], bool],
) -> bool:
    """Evict the ``candidates`` that it takes to pipeline ``preemptor``; return True on success.

    ``candidates``: the same ones for all preemptors of one queue and priority.
    ``may_pipeline``: whether a task may be given a node, and ``may_evict``: whether a gang may be evicted;
    both as the queues are at the time of the call.  Each preemptor has one such attempt in a session.
    """
    tasks = tasks_to_place(session, preemptor, best_effort=True)
    kind = (evict_whole_gangs, action, preemptor.queue, preemptor.priority)
    gangs, freed = computed_once(session, kind, lambda: _evictable(session, candidates))
    if not gangs or not all(task.may_preempt for task in preemptor.tasks.values()):
        return False
    if preemptor.key in session.whole_evictions_tried:
        return False
    if any(awaits_evictions(session, task) for task in tasks):
        return False
    session.whole_evictions_tried.add(preemptor.key)
    if not may_be_pipelined(session, preemptor, tasks, freed):
        return False

    search = _Search(session, action, preemptor, tasks, may_pipeline, may_evict)
    # Gangs on any nodes have what is short of the queue's share.
    is_short = not session.has_share_for(session.queue_of(preemptor), _sum_of_charges(session, tasks))
    nodes = {task.node for gang in gangs for task in gang.with_status(*EVICTABLE_STATUSES)}
    finders = tuple(finders_after_evictions(session, preemptor, nodes, freed))
    for at, finder in enumerate(finders):
        helpful = gangs if is_short else [gang for gang in gangs if _is_on(finder, gang)]
        if search.evict(helpful, finders[at:]):
            return True
    return False


def _evictable(session: Session, candidates: Iterable[Gang]) -> tuple[Sequence[Gang], Matrix | None]:
    """Return the ``candidates`` that may be evicted, in order, and what they have by row and node."""
    gangs = _in_order(gang for gang in candidates if is_evictable(session, gang))
    victims = (task for gang in gangs for task in gang.with_status(*EVICTABLE_STATUSES))
    return gangs, amounts_of(session.cluster, victims)


def _sum_of_charges(session: Session, tasks: Iterable[Task]) -> Counter[str]:
    total: Counter[str] = Counter()
    for task in tasks:
        total.update(session.charge_of(session.queue_of(session.gang_of(task)), task))
    return total


def _is_on(finder: Finder, gang: Gang) -> bool:
    return isinstance(finder, NodeFinder) or any(
        task.node in finder.names for task in gang.with_status(*EVICTABLE_STATUSES)
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for gangs to evict for ``preemptor``; see ``evict_whole_gangs``."""

    session: Session
    action: EvictionAction
    preemptor: Gang
    tasks: Sequence[Task]  # of the preemptor, without nodes
    may_pipeline: Callable[[Task], bool]
    may_evict: Callable[[Gang], bool]

    def evict(self, gangs: Sequence[Gang], finders: Sequence[Finder]) -> bool:
        """Evict the ``gangs`` that it takes to pipeline the tasks on the nodes of the first of ``finders``.

        These gangs may have nodes of the others, too.  Where fewer of the gangs suffice, the tasks are
        pipelined there instead.
        """
        for _ in range(MAX_ATTEMPTS):
            with self.session.statement() as statement:
                victims, used = self._evict_until_it_fits(statement, gangs, finders[0]), finders[0]
                if not victims:
                    return False
                for finder in finders:
                    if not self._suffices(statement, victims, finder):
                        continue
                    for gang in reversed(victims):
                        rest = [other for other in victims if other is not gang]
                        if self._suffices(statement, rest, finder):
                            victims = rest
                            used = finder
                assert self._suffices(statement, victims, used), f"{self.preemptor.key} was pipelined before"
                spared = self._next_preemptors(victims) if self.action == "reclaim" else ()
                if not spared:
                    carry_out(self.session, statement, self.preemptor, self.action, whole=True)
                    return True
            gangs = [gang for gang in gangs if gang not in spared]
        return False

    def _suffices(self, statement: Statement, victims: Sequence[Gang], finder: Finder) -> bool:
        """Evict only ``victims``; return True if the preemptor can be pipelined then."""
        statement.undo_after(0)
        for gang in victims:
            self._evict_all(statement, gang)
        return self._pipeline(statement, finder)

    def _evict_until_it_fits(self, statement: Statement, gangs: Sequence[Gang], finder: Finder) -> list[Gang]:
        """Evict gangs in order until the preemptor fits; return them, or [] if it never fits."""
        session, victims = self.session, list[Gang]()
        nothing = amounts_of(session.cluster, ())  # what is evicted here counts as leaving
        for gang in gangs:
            if not self.may_evict(gang) or _is_protected(session, gang):  # both change with each eviction
                continue
            self._evict_all(statement, gang)
            victims.append(gang)
            if not may_be_pipelined(session, self.preemptor, self.tasks, nothing):
                continue
            before = len(statement.moves)
            if self._pipeline(statement, finder):
                return victims
            statement.undo_after(before)
        return []

    def _evict_all(self, statement: Statement, gang: Gang) -> None:
        for task in reversed(self.session.in_task_order(gang.with_status(*EVICTABLE_STATUSES))):
            statement.evict(task)

    def _pipeline(self, statement: Statement, finder: Finder) -> bool:
        """Pipeline nominated tasks, and others up to the minimum; return whether jobPipelined permits."""
        session, preemptor = self.session, self.preemptor
        failed: set[tuple[Shape, str]] = set()  # since the last task that found a node
        for task in self.tasks:
            has_minimum = not preemptor.is_starving and session.is_pipelined(preemptor)
            if has_minimum and not task.nominated_node:
                continue
            wanted = (session.shape_of(task), task.nominated_node)
            if wanted in failed or not self.may_pipeline(task):
                continue
            session.search_turns.work += 1
            match finder.best(*wanted):
                case Choice(node, _):
                    statement.pipeline(task, node)
                    failed.clear()
                case _:
                    failed.add(wanted)
        return is_pipelined(session, preemptor)

    def _next_preemptors(self, victims: Iterable[Gang]) -> set[Gang]:
        """Return the ``victims``, all evicted, that may reclaim for their minimum and have no room for it."""
        session = self.session
        taken = _sum_of_charges(session, self.tasks)
        by, cluster = session.queue_of(self.preemptor), session.cluster
        claims: dict[str, Counter[str]] = {}
        preemptors = set()
        for gang in victims:
            tasks = _minimum(session, gang)
            claim = claims.setdefault(gang.queue, Counter())
            claim.update(_sum_of_charges(session, tasks))
            if not session.reclaims_back(session.queue_of(gang), claim, by, taken):
                continue
            for task in tasks:
                choice = session.node_finder.best(session.shape_of(task))
                # Claims that have devices do not tell whether others are free for the claims that follow.
                if not isinstance(choice, Choice) or task.shape.devices.held:
                    preemptors.add(gang)
                    break
                cluster.hold((_Search, task.uid), task.shape, choice.node, 1, owner=_Search)
        cluster.release_all(_Search)
        return preemptors


def _minimum(session: Session, gang: Gang) -> list[Task]:
    """Return the tasks of ``gang``, all evicted, with which it would be ready."""
    tasks = session.in_task_order(gang.with_status(TaskStatus.RELEASING))
    needed, others = divide_by_roles(tasks, gang.role_minima)
    return needed + others[: max(0, gang.min_member - len(needed))]


def is_evictable(session: Session, gang: Gang) -> bool:
    """Return True if all of ``gang`` may be evicted.

    A task that is being bound would be left behind.
    """
    tasks = gang.with_status(*EVICTABLE_STATUSES)
    protections = session.callbacks.protected
    arriving = gang.with_status(TaskStatus.ALLOCATED, TaskStatus.BINDING)
    return (
        bool(tasks)
        and not arriving
        and gang.metadata.preemptable
        and all(task.preemptable and not task.critical for task in tasks)
        and not any(is_protected(task) for is_protected in protections for task in tasks)
        and not _is_protected(session, gang)
    )


def _is_protected(session: Session, gang: Gang) -> bool:
    return any(protects(gang) for protects in session.callbacks.gang_protected)


def _in_order(gangs: Iterable[Gang]) -> list[Gang]:
    """Sort by ascending priority, then newest, then smallest, then last by name first."""
    last_first = sorted(gangs, key=lambda gang: gang.key, reverse=True)
    return sorted(
        last_first,
        key=lambda gang: (gang.priority, -gang.created, len(gang.with_status(*EVICTABLE_STATUSES))),
    )
