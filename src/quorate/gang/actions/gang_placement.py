"""The placement of gangs on nodes: of each a minimum of members, or none.

Queues are processed in turn, and in each queue its gangs.  In one turn a gang is allocated nodes until it is
ready; its tasks are then bound, and the remaining members wait for the gang's next turn, after the turns of
gangs that are not ready yet.  A gang that will be ready when releasing pods are gone keeps its allocated and
pipelined nodes until the session ends, so that no other gang gets them.  The allocations of any other gang
are undone.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Final

from quorate.gang.actions.held_room import NominatedRoom, has_share, is_nominated, kept_room, may_delay
from quorate.gang.actions.ordering import GangQueues, tasks_to_place
from quorate.gang.actions.refused_placements import RefusedPlacement, Trials
from quorate.gang.actions.repair import is_partially_bound
from quorate.gang.actions.topology_placement import TopologyPlacement
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus
from quorate.gang.pending_reasons import Cause, GangUnschedulable
from quorate.gang.session.session import Session
from quorate.gang.session.statement import Statement
from quorate.gang.session.waiting_causes import cause_of_refusals, refusal_by_queue, requests_until
from quorate.placement.colocation import choose_anchor_node, requires_affinity
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice
from quorate.placement.resources import Amounts
from quorate.placement.shapes import Shape

MAX_ORDERS: Final = 3  # in which unequal members are tried after the first
MAX_REORDERED: Final = 100  # members of a gang that is tried in other orders


def place_gangs(
    session: Session, gangs: Iterable[Gang], evict_for: Callable[[Gang], object] | None = None
) -> Sequence[Gang]:
    """Place the gangs of ``gangs`` that may have nodes, and return the gangs that may have nodes.

    ``evict_for`` evicts for a gang that found no nodes, before the gangs after it have their turns.
    """
    candidates = _candidates(session, gangs)
    turns = _Turns(session, evict_for)
    nominated, partial, short, rest = _parts(session, candidates)
    first = _that_outrank(session, nominated + partial + short, [*partial, *short, *rest])
    done = _without(first, turns.run(first, until_ready=True))
    partial, short, rest = (_without(part, done) for part in (partial, short, rest))
    rest += turns.run_nominated(nominated)
    delaying = [gang for gang in rest if may_delay(session, gang)]
    for gangs in (partial, short, _without(rest, delaying)):
        turns.run(gangs)
    if delaying:
        with kept_room(session):
            turns.run(delaying)
    return candidates


def _without(gangs: list[Gang], omitted: Sequence[Gang]) -> list[Gang]:
    names = set(omitted)
    return [gang for gang in gangs if gang not in names] if names else gangs


def allocate_nominated(session: Session) -> None:
    """Place the gangs for which pods were evicted, as ``allocate`` does, before another action."""
    having_tasks = [gang for gang in session.gangs if gang.schedulable]
    turns, nominated = _Turns(session), _candidates(session, filter(is_nominated, having_tasks))
    if nominated:
        others = (gang for gang in having_tasks if not is_nominated(gang))
        turns.run(_that_outrank(session, nominated, _candidates(session, others)), until_ready=True)
        turns.run_nominated(nominated)


def allocate_minimum(session: Session, gang: Gang) -> None:
    """Place ``gang`` in one turn, as ``allocate`` does, if its queue may have more."""
    if _candidates(session, [gang]) and not session.is_overused(session.queue_of(gang)):
        _placement(session, gang, Trials(session)).run_turn()


def place_minima(session: Session, gangs: Iterable[Gang]) -> None:
    """Place ``gangs`` as ``allocate`` does, each until it can start."""
    _Turns(session).run(_candidates(session, gangs), until_ready=True)


def _candidates(session: Session, gangs: Iterable[Gang]) -> list[Gang]:
    return [
        gang
        for gang in gangs
        if gang.schedulable
        and session.may_have_nodes(gang)
        and _shapes(session, gang)
        and session.invalid_reason(gang) is None
    ]


def _parts(session: Session, gangs: Sequence[Gang]) -> tuple[list[Gang], list[Gang], list[Gang], list[Gang]]:
    """Divide ``gangs`` into nominated gangs, partially bound gangs, short gangs and all other gangs.

    Nominated gangs must come first: else an evicted gang might get its nodes back, and be evicted again,
    without end.  A partially bound gang holds nodes to no effect until it is complete, as does one that is
    short since it lost members; profile ``compat`` prefers only the latter, if a controller replaces them.
    """
    prefers_short = session.rules.prefers_short
    partial: list[Gang] = []
    nominated: list[Gang] = []
    short: list[Gang] = []
    rest: list[Gang] = []
    for gang in gangs:
        if is_nominated(gang):
            nominated.append(gang)
        elif prefers_short and is_partially_bound(gang):
            partial.append(gang)
        elif gang.is_short and (prefers_short or (gang.owner.creates_members and session.keeps_room_of_lost)):
            short.append(gang)
        else:
            rest.append(gang)
    return nominated, partial, short, rest


def _that_outrank(session: Session, preferred: Sequence[Gang], gangs: Iterable[Gang]) -> list[Gang]:
    """Return the starving ``gangs`` that go first: others would be evicted for them if they were placed.

    Those are the gangs for which ``preempt`` might evict one of ``preferred``, and those that ``enqueue``
    admitted for nodes that other gangs would get.
    """
    if not session.rules.evicts_in_turn:
        return []
    gangs = [gang for gang in gangs if gang.is_starving]
    displacing = session.displacing
    if "preempt" not in session.settings.actions:
        return [gang for gang in gangs if gang.key in displacing]
    lowest: dict[str, int] = {}
    for gang in preferred:
        lowest[gang.queue] = min(gang.priority, lowest.get(gang.queue, gang.priority))
    return [
        gang
        for gang in gangs
        if gang.key in displacing or gang.priority > lowest.get(gang.queue, gang.priority)
    ]


def _has_no_node(gang: Gang) -> bool:
    return gang.is_starving and not gang.task_counts.pipelined


class _Turns:
    """The turns of gangs in one action.  ``evict_for``: see ``place_gangs``."""

    def __init__(self, session: Session, evict_for: Callable[[Gang], object] | None = None) -> None:
        self._session = session
        self._evict_for = evict_for
        self._trials = Trials(session)
        self._placements: dict[Gang, GangPlacement | TopologyPlacement] = {}

    def run_nominated(self, gangs: Sequence[Gang]) -> list[Gang]:
        """Place ``gangs`` while the nodes of each are held against the others.

        A gang that finds no nodes while the nodes of others are held has a turn in which they are not held,
        since they may be nominated for nothing. Return the gangs that need more turns.
        """
        room = NominatedRoom(self._session)
        with room.held_for(gangs if len(gangs) > 1 else ()):
            left = self.run(gangs, room=room)
        kept_out = [gang for gang in gangs if len(gangs) > 1 and _has_no_node(gang)]
        for gang in kept_out:
            del self._placements[gang]
        left += self.run(kept_out, room=room)
        if self._evict_for is not None:
            for gang in gangs:
                if _has_no_node(gang):
                    self._evict_for(gang)
        return left

    def run(
        self, gangs: Sequence[Gang], *, room: NominatedRoom | None = None, until_ready: bool = False
    ) -> list[Gang]:
        """Place ``gangs`` in turn, and return the gangs that need more turns.

        ``until_ready``: a gang that has its minimum has no more turns.
        ``room``: the held room, if ``gangs`` are nominated gangs. Such a gang has more turns only if more of
        its tasks are nominated.
        """
        session = self._session
        gang_queues = GangQueues(session)
        for gang in gangs:
            gang_queues.push(gang)
        left = []
        while (queue := gang_queues.next_queue()) is not None:
            if session.is_overused(queue) and room is None:
                for gang in gang_queues.discard(queue):
                    if session.is_ready(gang):
                        session.report_further_members(gang, refusal_by_queue(session, gang))
                continue
            gang = gang_queues.pop(queue)
            if not session.may_have_nodes(gang):  # it was evicted for a gang before it
                continue
            with session.model.room_lent_to(gang), nullcontext() if room is None else room.lent_to(gang):
                if gang not in self._placements:
                    self._placements[gang] = _placement(session, gang, self._trials)
                needs_turn = self._placements[gang].run_turn()
            if not needs_turn:
                if self._evict_for is not None and room is None:
                    self._evict_for(gang)
            elif gang.is_starving or (not until_ready and (room is None or is_nominated(gang))):
                gang_queues.push(gang)
            else:
                left.append(gang)
        return left


def _placement(session: Session, gang: Gang, trials: Trials) -> "GangPlacement | TopologyPlacement":
    kind = GangPlacement if gang.topology is None else TopologyPlacement
    return kind(session, gang, trials)


def _shapes(session: Session, gang: Gang) -> list[Shape]:
    """Return the shapes to place.

    In profile ``compat`` the action ``backfill`` places best-effort members, unless their gang must be within
    one HyperNode.
    """
    best_effort = session.rules.allocates_best_effort or gang.topology is not None
    return [shape for shape in gang.shapes if best_effort or not shape.best_effort]


class GangPlacement:
    """Places the tasks of a gang in a session; the first turn places ``min_member`` tasks or none."""

    def __init__(self, session: Session, gang: Gang, trials: Trials) -> None:
        self._session = session
        self._trials = trials
        self._unschedulable = trials.unschedulable
        self._gang = gang
        self._queue = session.queue_of(gang)
        self._tasks: deque[Task] = deque()  # not processed in any turn yet
        self._failed_shapes: dict[Shape, Diagnosis] = {}  # shapes without a node, in the order found
        self._failed_roles: set[str] = set()
        # The request of the first member that the queue may not allocate, and with those placed before it.
        self._refused_requests: tuple[Amounts, Amounts] | None = None
        self._affinity_shapes: dict[Shape, None] = {}  # with required affinity; empty in profile compat
        self._anchored: set[Shape] = set()  # shapes for which an anchor node was searched
        if session.rules.plans_members:
            self._affinity_shapes = dict.fromkeys(shape for shape in gang.shapes if requires_affinity(shape))
        self._is_nominated = is_nominated(gang)  # before any of its tasks has a node
        self._has_shapes = len(gang.shapes) > 1  # of members without a node
        self._is_first_turn = True
        # How the trial with this gang would end, if that is known without it.
        self._refused = trials.refused.of_shape(gang)
        if self._refused is None and self._any_shape_fits():
            best_effort = session.rules.allocates_best_effort
            self._tasks.extend(tasks_to_place(session, gang, best_effort=best_effort))
            self._refused = trials.refused.of_tasks(gang, tuple(self._tasks))

    def run_turn(self) -> bool:
        """Place members until the gang is ready; return True if others are left for a later turn."""
        if self._refused is not None:
            self._failed_shapes = dict(self._refused.failed_shapes)
            self._refused_requests = self._refused.by_queue
            self._session.pending_reasons[self._gang.key] = self._reason(self._refused)
            return False
        tasks = tuple(self._tasks) if self._is_first_turn else ()
        self._is_first_turn = False
        before = self._trials.version.current
        refused = self._try()
        if refused is not None and self._may_depend_on_order(tasks, refused):
            refused = self._try_other_orders(tasks, refused, before)
        if refused is None:
            return bool(self._tasks)
        self._trials.version.restored(before)
        if tasks:
            self._trials.refused.add(self._gang, tasks, refused)
        self._session.pending_reasons[self._gang.key] = self._reason(refused)
        return False

    def _may_depend_on_order(self, tasks: Sequence[Task], refused: RefusedPlacement) -> bool:
        """Return True if ``tasks``, which ``refused`` is about, may find nodes in another order."""
        is_free = self._session.rules.plans_members and not self._affinity_shapes and not self._is_nominated
        is_by_nodes = bool(refused.placed and refused.failed_shapes) and refused.by_queue is None
        return is_free and is_by_nodes and self._has_shapes and len(tasks) <= MAX_REORDERED

    def _try_other_orders(
        self, tasks: Sequence[Task], refused: RefusedPlacement, version: int
    ) -> RefusedPlacement | None:
        """Try the members of shapes that found no node before the others; return ``refused`` if that fails.

        ``version``: of the nodes before all trials.
        """
        failed, failed_roles = self._failed_shapes, self._failed_roles
        for _ in range(MAX_ORDERS):
            order = sorted(tasks, key=lambda task: task.shape not in self._failed_shapes)
            if order == list(tasks):
                break
            tasks = order
            self._trials.version.restored(version)
            self._tasks, self._failed_shapes, self._failed_roles = deque(tasks), {}, set()
            if self._try() is None:
                return None
        self._failed_shapes, self._failed_roles, self._refused_requests = failed, failed_roles, None
        return refused

    def _try(self) -> RefusedPlacement | None:
        """Place tasks until the gang is ready; if it fails, undo the moves and return how it ended."""
        session, gang = self._session, self._gang
        with session.statement() as statement:
            while self._tasks:
                task = self._tasks.popleft()
                if self._is_known_to_fail(task):
                    continue
                if not has_share(session, gang, task, of_nominated=self._is_nominated):
                    self._note_refused_by_queue(task, statement)
                    continue
                if not self._place(task, statement):
                    if self._can_still_be_ready():
                        continue
                    break
                if session.is_ready(gang):
                    break
            if session.is_ready(gang):
                session.dispatch(statement.commit(), gang)
                if not self._tasks:
                    session.report_further_members(gang, self._cause(is_placed=True))
                return None
            if session.is_pipelined(gang):
                session.hold(statement.commit())
                self._tasks.clear()
                return None
            return RefusedPlacement(
                len(statement.moves),
                self._failed_shapes,
                self._refused_requests,
                gang.short_of_parts if self._has_shapes else 0,
            )

    def _note_refused_by_queue(self, task: Task, statement: Statement) -> None:
        """Note that the queue may not allocate ``task`` now, and what the nodes lack for it."""
        shape = task.shape
        if self._refused_requests is None:
            self._refused_requests = requests_until(self._session, task, statement)
        if shape not in self._failed_shapes:
            choice = self._best(shape)
            if isinstance(choice, Diagnosis):
                self._failed_shapes[shape] = choice

    def _any_shape_fits(self) -> bool:
        """Return True if any shape fits a node; if none does, the tasks need not be sorted."""
        for shape in _shapes(self._session, self._gang):
            choice = self._best(shape)
            if isinstance(choice, Choice):
                self._failed_shapes.clear()
                return True
            self._failed_shapes[shape] = choice
        return False

    def _best(self, shape: Shape) -> Choice | Diagnosis:
        """Return the best node for ``shape``; keep the reason if there is none."""
        placed = self._session.shape_for(self._queue, shape)
        choice = self._unschedulable.of(placed) or self._session.node_finder.best(placed)
        if isinstance(choice, Diagnosis):
            self._unschedulable.add(placed, choice)
        return choice

    def _place(self, task: Task, statement: Statement) -> bool:
        """Allocate or pipeline ``task`` to the best node; return False if there is none."""
        shape = self._session.shape_of(task)
        choice = self._choose_node(task, shape)
        match choice:
            case Choice(node, Capacity.IDLE):
                statement.allocate(task, node)
            case Choice(node, Capacity.FUTURE_IDLE):
                statement.pipeline(task, node)
            case Diagnosis():
                self._failed_shapes.setdefault(task.shape, choice)
                self._failed_roles.add(task.role)
                self._unschedulable.add(shape, choice)
        return isinstance(choice, Choice)

    def _choose_node(self, task: Task, shape: Shape) -> Choice | Diagnosis:
        no_fit = None if task.nominated_node else self._unschedulable.of(shape)
        return no_fit or self._session.node_finder.best(shape, task.nominated_node or self._anchor_node(task))

    def _anchor_node(self, task: Task) -> str:
        """Return a node with domains that fit all members that require affinity, or "".

        Profile ``design``; only for the first task of each shape.
        """
        if not self._affinity_shapes or task.shape in self._anchored:
            return ""
        self._anchored.add(task.shape)
        node_finder, counts = self._session.node_finder, self._gang.shapes
        shapes = {task.shape: None} | self._affinity_shapes
        together = {shape: counts[shape] for shape in shapes if counts[shape]}
        for_all = choose_anchor_node(node_finder, task.shape, together)
        if for_all or len(together) > 1:
            return for_all
        missing = self._gang.min_member - self._gang.task_counts.ready
        return choose_anchor_node(node_finder, task.shape, {task.shape: min(missing, together[task.shape])})

    def _is_known_to_fail(self, task: Task) -> bool:
        """Return True if a member of the same role found no node (Volcano's predicate error cache)."""
        cached = self._session.settings.allocate.predicate_error_cache
        return cached and bool(task.role) and task.role in self._failed_roles

    def _can_still_be_ready(self) -> bool:
        """Return True if the gang can be ready without the members that failed so far."""
        gang = self._gang
        if gang.min_member >= len(gang.tasks):
            return False
        if gang.min_member < sum(gang.min_task_member.values()):
            left = sum(
                counts.by_status[TaskStatus.PENDING]
                for role, counts in gang.roles.items()
                if role not in self._failed_roles
            )
            return gang.task_counts.ready + left >= gang.min_member
        return not any(
            role in self._failed_roles and gang.role(role).ready < minimum
            for role, minimum in gang.role_minima.items()
        )

    def _reason(self, refused: RefusedPlacement) -> GangUnschedulable:
        """Return why the gang waits."""
        gang = self._gang
        placed = gang.task_counts.ready + gang.task_counts.pipelined + refused.placed
        of_parts = max(gang.short_of_parts - refused.placed, refused.short_of_parts)
        missing = max(1, gang.min_member - placed, of_parts)
        never = sum(gang.shapes[shape] for shape, no_fit in self._failed_shapes.items() if no_fit.never_fits)
        never_fits = gang.task_counts.valid - never < gang.min_member
        return GangUnschedulable(missing, gang.min_member, self._cause(never_fits=never_fits), never_fits)

    def _cause(self, *, never_fits: bool = False, is_placed: bool = False) -> Cause:
        """Return why members have no node.  ``is_placed``: the members before them keep theirs."""
        refused = (
            self._refused_requests[0 if is_placed else 1] if self._refused_requests is not None else None
        )
        no_fits = self._failed_shapes.values()
        return cause_of_refusals(self._session, self._gang, no_fits, refused, never_fits=never_fits)
