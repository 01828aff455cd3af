"""The placement of gangs that have a ``networkTopology`` or sub groups.

A gang with a hard limit is placed within one HyperNode of the allowed tiers, or not at all; one with a soft
limit prefers the lowest tier and may use all nodes, and waits for leaving pods only if it would anywhere.
Sub groups for which no limit holds are on any nodes, as pods of a gang without ``networkTopology`` are.
The HyperNodes are tried in the order of ``hyper_nodes.domains``; one that does not take the gang leaves no
trace.  Members that have nodes already stay: the HyperNode must contain these nodes, so later members join
them.

Each sub group is placed within the HyperNode of its gang in the same way, with the limit of its own policy,
as a whole or not at all.  Sub groups that are needed for ``minSubGroups`` come first, then members of no sub
group, then the other sub groups; among them those that are placed in part, then by priority, then in order.

Source: Volcano's action allocate and plugin network-topology-aware (1.15).
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from quorate.gang.actions.held_room import has_share, is_nominated
from quorate.gang.actions.hyper_node_rooms import domains_with_room, gang_room, highest_tier, room_of
from quorate.gang.actions.ordering import tasks_to_place
from quorate.gang.actions.refused_placements import Trials
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.sub_groups import SubGroup, SubGroupKey, TierLimit, tier_limit
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.pending_reasons import Cause, GangUnschedulable, PendingReason, can_never_fit
from quorate.gang.session.callbacks import all_callbacks
from quorate.gang.session.session import Session
from quorate.gang.session.statement import Move, Statement
from quorate.gang.session.waiting_causes import beyond_limit, cause_of_refusals, requests_until
from quorate.gang.topology_reasons import NetworkTopologyUnsatisfied
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.framework import Capacity
from quorate.placement.hyper_nodes.domains import Domain, DomainSearch, PodGroupRoom
from quorate.placement.hyper_nodes.part_finder import PartFinder
from quorate.placement.node_finder import Choice
from quorate.placement.resources import Amounts
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, np

_MAX_INDEX_DIGITS: Final = 18


@dataclass(slots=True)
class _Unit:
    """Tasks of a gang to be placed in one domain: the tasks of a sub group, or all without a sub group."""

    group: SubGroup | None
    tasks: list[Task]  # without a node, in order


class _Filling:
    """One domain that is being filled, part by part.  Its nodes only get fuller while it is used.

    ``room`` None: all of the domain is one part.
    """

    def __init__(
        self, session: Session, search: DomainSearch, domain: Domain, room: PodGroupRoom | None
    ) -> None:
        self.domain = domain
        self._session = session
        parts = [domain.nodes] if room is None else search.parts(domain, room)
        self.has_parts = len(parts) > 1
        self._parts = [PartFinder(session.node_finder, part) for part in parts]
        self._next: dict[tuple[Shape, Capacity], int] = {}  # the parts before take no pod of the shape
        self.failed: dict[Shape, Diagnosis | None] = {}  # with the reason, if all nodes are in the domain

    def place(self, task: Task, statement: Statement) -> bool:
        """Give ``task`` a node; return False if there is none."""
        shape = self._session.shape_of(task)
        if shape in self.failed:
            return False
        choice = self._choose(shape, task.nominated_node)
        match choice:
            case Choice(node, Capacity.IDLE):
                statement.allocate(task, node)
            case Choice(node, Capacity.FUTURE_IDLE):
                statement.pipeline(task, node)
            case None:
                self.failed[shape] = None if self.domain.name else self._session.node_finder.diagnose(shape)
        return choice is not None

    def _choose(self, shape: Shape, nominated: str) -> Choice | None:
        """Return the ``nominated`` node if it is in the domain and feasible; else the best of the first part.

        None: no part takes a pod of ``shape``.
        """
        finder = self._session.node_finder
        index = finder.cluster.index(nominated)
        if index is not None and index in self.domain.nodes:
            capacity = finder.capacity_on(shape, nominated)
            if capacity is not None:
                return Choice(nominated, capacity)
        for capacity in Capacity:
            for at in range(self._next.get((shape, capacity), 0), len(self._parts)):
                node = self._parts[at].best(shape, capacity)
                if node:
                    self._next[shape, capacity] = at
                    return Choice(node, capacity)
            self._next[shape, capacity] = len(self._parts)
        return None


class TopologyPlacement:
    """Places the tasks of a gang with a topology in a session, over several turns; see ``GangPlacement``."""

    def __init__(self, session: Session, gang: Gang, trials: Trials) -> None:
        assert gang.topology is not None, f"{gang.key} requires nothing of the network"
        self._session = session
        self._gang = gang
        self._trials = trials
        self._is_nominated = is_nominated(gang)
        self._limit = gang.topology.limit
        self._search: DomainSearch = session.domain_search_for(self._limit)
        self._tasks = tasks_to_place(session, gang, best_effort=True)  # those that have no node yet
        self._filling: _Filling | None = None  # of the last turn: later members go there if they fit
        self._failed: dict[Shape, Diagnosis | None] = {}
        self._sub_group_reason: PendingReason | None = None  # of the first sub group that has no place
        self._refused: tuple[Amounts, Amounts] | None = None  # by the queue: see ``requests_until``
        self._most_placed = 0  # in one trial
        self._least_shortage = gang.shortage  # after one trial

    def run_turn(self) -> bool:
        """Place members until the gang is ready; return True if others are left for a later turn."""
        session, gang = self._session, self._gang
        key = self._trial_key()
        refusal = None if key is None else self._trials.refused_topologies.get(key)
        if refusal is not None:
            session.pending_reasons[gang.key] = refusal
            return False
        before = self._trials.version.current
        waiting: tuple[Move, ...] = ()  # in the first domain that has room when pods have left
        with session.statement() as statement:
            for domain in self._gang_domains():
                filling = self._fill(domain, statement)
                if session.is_ready(gang) and _binds_any(statement.moves):
                    self._filling = filling
                    return self._dispatch(statement)
                if statement.moves and session.is_pipelined(gang):
                    waiting = waiting or tuple(statement.moves)
                    if self._limit is not None and self._limit.is_hard:
                        break
                self._most_placed = max(self._most_placed, len(statement.moves))
                self._least_shortage = min(self._least_shortage, gang.shortage)
                statement.undo_after(0)
            if waiting:
                statement.undo_after(0)
                for move in waiting:
                    statement.redo(move)
                if session.is_ready(gang):
                    return self._dispatch(statement)
                session.hold(statement.commit())
                return False
        self._trials.version.restored(before)
        if not session.is_ready(gang):
            reason = session.pending_reasons[gang.key] = self._reason()
            if key is not None:
                self._trials.refused_topologies[key] = reason
        elif self._tasks:
            session.report_further_members(
                gang, self._cause(self._refused[0] if self._refused is not None else None)
            )
        return False

    def _dispatch(self, statement: Statement) -> bool:
        """Commit ``statement``; return True if members are left."""
        self._session.dispatch(statement.commit(), self._gang)
        self._tasks = [task for task in self._tasks if task.status is TaskStatus.PENDING]
        return bool(self._tasks)

    def _trial_key(self) -> Hashable:
        """Return what a trial with a gang of one shape depends on; None if it depends on more."""
        gang = self._gang
        if gang.sub_groups is not None or len(gang.shapes) != 1 or gang.role_minima:
            return None
        if gang.requests.allocated or self._is_nominated:
            return None
        votes = tuple(callback(gang) for callback in all_callbacks(self._session.callbacks.job_pipelined))
        (shape,) = gang.shapes
        members = gang.min_member, len(gang.tasks), len(self._tasks), gang.task_counts.ready
        return self._trials.version.current, gang.queue, self._limit, shape, members, votes

    # Domains.

    def _gang_domains(self) -> Iterator[Domain]:
        if self._filling is not None:
            yield self._filling.domain
        if self._limit is not None:
            yield from domains_with_room(self._search, self._limit, self._gang_room(), None)
        if self._limit is None or not self._limit.is_hard:
            yield self._search.everywhere()

    def _gang_room(self) -> PodGroupRoom:
        return gang_room(self._session, self._gang, self._tasks)

    # Members.

    def _fill(self, domain: Domain, statement: Statement) -> _Filling | None:
        """Place members in ``domain`` until the gang is ready; return how it was filled, if by members."""
        if self._gang.sub_groups is not None:
            self._fill_with_units(domain, statement)
            return None
        filling = self._filling
        if filling is None or filling.domain is not domain:
            filling = _Filling(
                self._session, self._search, domain, room_of(self._session, self._tasks, (), 1)
            )
        all_needed = self._gang.min_member >= len(self._gang.tasks)
        self._place(self._tasks, filling, statement, all_needed=all_needed)
        has_shapes = len({task.shape for task in self._tasks}) > 1
        if has_shapes and filling.has_parts and not self._session.is_pipelined(self._gang):
            # Other members may fit only the part that the first ones have used.
            statement.undo_after(0)
            filling = _Filling(self._session, self._search, domain, None)
            self._place(self._tasks, filling, statement, all_needed=all_needed)
        return filling

    def _place(
        self, tasks: Iterable[Task], filling: _Filling, statement: Statement, *, all_needed: bool
    ) -> bool:
        """Place ``tasks`` until the gang is ready; return True if any has a node."""
        session, placed = self._session, False
        for task in tasks:
            if task.status is not TaskStatus.PENDING or not self._has_share(task, statement):
                continue
            if filling.place(task, statement):
                placed = True
                if session.is_ready(self._gang):
                    return True
            elif all_needed:
                break
        self._failed |= filling.failed
        return placed

    def _has_share(self, task: Task, statement: Statement) -> bool:
        allowed = has_share(self._session, self._gang, task, of_nominated=self._is_nominated)
        if not allowed and self._refused is None:
            self._refused = requests_until(self._session, task, statement)
        return allowed

    # Sub groups.

    def _fill_with_units(self, domain: Domain, statement: Statement) -> None:
        session, gang = self._session, self._gang
        units = self._units()
        within = None
        if domain.name:
            within = np.zeros(session.cluster.size, np.bool_)
            within[domain.nodes] = True
        progress = True
        while progress:  # after the first round only members beyond the size of their sub group are left
            progress = False
            for unit in units:
                if unit.tasks and self._place_unit(unit, domain, within, statement):
                    progress = True
                    unit.tasks = [task for task in unit.tasks if task.status is TaskStatus.PENDING]
                    if session.is_ready(gang):
                        return

    def _place_unit(self, unit: _Unit, domain: Domain, within: Mask | None, statement: Statement) -> bool:
        """Place a sub group, or one more member of a complete one; return True if it was placed."""
        group = unit.group
        if group is None:
            room = None if self._limit is None else room_of(self._session, unit.tasks, (), 1)
            filling = _Filling(self._session, self._search, domain, room)
            return self._place(unit.tasks, filling, statement, all_needed=False)
        counts = group.task_counts
        needed = max(1, group.policy.sub_group_size - counts.ready - counts.pipelined)
        if len(unit.tasks) < needed:
            return False
        room = room_of(self._session, unit.tasks, group.tasks.values(), needed)
        limit = tier_limit(group.policy.network_topology)
        for inner in self._sub_group_domains(limit, room, domain, within):
            before = len(statement.moves)
            is_packed = limit is not None or self._limit is not None
            filling = _Filling(self._session, self._search, inner, room if is_packed else None)
            if self._place_sub_group(unit.tasks, needed, filling, statement):
                _start_together(statement, before)
                return True
            self._failed |= filling.failed
            statement.undo_after(before)
        if self._sub_group_reason is None and limit is not None and limit.is_hard:
            self._sub_group_reason = self._unsatisfied(limit, room, within, group.name)
        return False

    def _sub_group_domains(
        self, limit: TierLimit | None, room: PodGroupRoom, domain: Domain, within: Mask | None
    ) -> Iterator[Domain]:
        if limit is not None:
            yield from domains_with_room(self._search, limit, room, within)
        if limit is None or not limit.is_hard:
            yield domain

    def _place_sub_group(
        self, tasks: Collection[Task], needed: int, filling: _Filling, statement: Statement
    ) -> bool:
        left = len(tasks)
        for task in tasks:
            if left < needed:
                return False
            left -= 1
            if self._has_share(task, statement) and filling.place(task, statement):
                needed -= 1
                if not needed:
                    return True
        return False

    def _units(self) -> list[_Unit]:
        """Return the tasks by sub group, in the order in which they are placed."""
        sub_groups = self._gang.sub_groups
        assert sub_groups is not None, f"{self._gang.key} has no sub groups"
        units: dict[SubGroupKey | None, _Unit] = {}
        for task in self._tasks:
            group = sub_groups.of(task)
            unit = units.setdefault(None if group is None else group.key, _Unit(group, []))
            unit.tasks.append(task)
        missing = sub_groups.missing()
        ordered: list[tuple[tuple[object, ...], _Unit]] = []
        for unit in sorted(units.values(), key=_unit_order):
            if unit.group is None:
                rank = 1
            elif missing.get(unit.group.key.policy, 0) > 0:
                rank = 0
                missing[unit.group.key.policy] -= 1
            else:
                rank = 2
            ordered.append(((rank,), unit))
        return [unit for _, unit in sorted(ordered, key=lambda pair: pair[0])]

    # Reasons.

    def _reason(self) -> PendingReason:
        gang, counts = self._gang, self._gang.task_counts
        if self._sub_group_reason is not None:
            return self._sub_group_reason
        if self._limit is not None and self._limit.is_hard:
            reason = self._unsatisfied(self._limit, self._gang_room(), None, "")
            limit = None if reason is None or reason.never_fits else beyond_limit(self._session, gang)
            if limit is not None and can_never_fit(limit[1]):
                cause = cause_of_refusals(self._session, gang, (), limit[0])
                return GangUnschedulable(self._least_shortage, gang.min_member, cause)
            if reason is not None:
                return reason
        never = sum(
            gang.shapes[shape]
            for shape, diagnosis in self._failed.items()
            if diagnosis is not None and diagnosis.never_fits
        )
        never_fits = counts.valid - never < gang.min_member
        refused = self._refused[1] if self._refused is not None else None
        cause = self._cause(refused, never_fits=never_fits)
        return GangUnschedulable(self._least_shortage, gang.min_member, cause, never_fits)

    def _cause(self, refused: Amounts | None, *, never_fits: bool = False) -> Cause:
        """Return why members have no node.  ``refused``: the request that the queue may not allocate."""
        refusals = [diagnosis for diagnosis in self._failed.values() if diagnosis is not None]
        return cause_of_refusals(self._session, self._gang, refusals, refused, never_fits=never_fits)

    def _unsatisfied(
        self, limit: TierLimit, room: PodGroupRoom, within: Mask | None, sub_group: str
    ) -> NetworkTopologyUnsatisfied | None:
        """Return why no HyperNode takes the pods; None if only their queue keeps them from one."""
        highest = highest_tier(self._search, limit)
        text = str(limit)
        beside = bool(len(room.placed))
        if highest is None:
            return NetworkTopologyUnsatisfied(text, room.needed, 0, "", 0, sub_group, beside)
        now = self._search.largest(room, highest, within, empty=False)
        if now.pods >= room.needed:
            if not self._failed:
                return None
            return NetworkTopologyUnsatisfied(
                text, room.needed, now.hyper_nodes, now.best, self._most_placed, sub_group, beside,
                by_amounts=now.pods,
            )  # fmt: skip
        empty = self._search.largest(room, highest, within, empty=True)
        never = empty.pods < room.needed
        best = empty if never else now
        return NetworkTopologyUnsatisfied(
            text, room.needed, best.hyper_nodes, best.best, best.pods, sub_group, beside,
            never_fits=never and bool(best.hyper_nodes),
        )  # fmt: skip


def _start_together(statement: Statement, before: int) -> None:
    """Have all members placed by the moves after the first ``before`` wait if one waits for leaving pods."""
    moves = statement.moves[before:]
    if len({move.to_status for move in moves}) > 1:
        statement.undo_after(before)
        for move in moves:
            statement.pipeline(move.task, move.to_node)


def _binds_any(moves: Iterable[Move]) -> bool:
    return any(move.to_status is TaskStatus.ALLOCATED for move in moves)


def _unit_order(unit: _Unit) -> tuple[object, ...]:
    """Order sub groups: those with placed members first, then by priority, then by policy and labels."""
    group = unit.group
    if group is None:
        return (False, 0, 0, ())
    return (
        not (group.task_counts.ready or group.task_counts.pipelined),
        -max(task.priority for task in unit.tasks),
        group.key.policy,
        tuple(map(_natural, group.key.values)),
    )


def _natural(value: str) -> tuple[int, str]:
    """Return a key that orders numbers by value, before other texts."""
    is_number = value.isdecimal() and value.isascii() and len(value) <= _MAX_INDEX_DIGITS
    return (int(value), "") if is_number else (10**_MAX_INDEX_DIGITS, value)
