"""A session: one run of the configured actions over the model.

Actions change the model only by the moves of statements.  The moves that an action dispatches are written to
the API: binds and evictions, which the model goes on assuming.  The tasks that it holds (allocated or
pipelined for a gang that is not ready, and waits for leaving pods) keep their resources until the session
ends; then they are pending again, and the next session decides anew.  So between two sessions the model holds
only what the objects say and the decisions that are being written.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from heapq import merge
from operator import attrgetter
from typing import Any, Literal

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.scheduler_configuration.actions import Action
from quorate.api.scheduler_configuration.plugins import NetworkTopologyArguments
from quorate.api.volcano import INQUEUE, PENDING
from quorate.gang import pending_reasons as r
from quorate.gang.cache.bounds import PlannedGroup
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.queue_accounts import Account, Path, SessionAccounts
from quorate.gang.cache.reservations import requested, requested_beside_members
from quorate.gang.cache.search_turns import SearchTurns
from quorate.gang.cache.sub_groups import TierLimit
from quorate.gang.cache.task import CHARGED_STATUSES, Task, TaskStatus
from quorate.gang.outcome import (
    AdmittedGang,
    Bind,
    Eviction,
    EvictionAction,
    GroupEvent,
    Nomination,
    RefusedGang,
)
from quorate.gang.profile_rules import PROFILE_RULES
from quorate.gang.session.callbacks import (
    SessionCallbacks,
    SortKey,
    Tiers,
    Vote,
    first_rejection,
    first_tier_agrees,
)
from quorate.gang.session.statement import Move, Statement
from quorate.placement.hyper_nodes.domains import DomainSearch
from quorate.placement.hyper_nodes.index import LabelDomains
from quorate.placement.node_finder import NodeFinder
from quorate.placement.resources import Amounts
from quorate.placement.shapes import Shape


class Session:
    """The state and the decisions of one session.

    Opening sets ``callbacks`` and then ``node_finder``: plugins read the session first.
    """

    node_finder: NodeFinder  # the nodes, filtered and scored as the plugins configure it

    def __init__(self, model: Model, settings: SchedulerConfiguration, now: float) -> None:
        self.model = model
        self.cluster = model.cluster
        self.settings = settings
        self.rules = PROFILE_RULES[settings.profile]
        self.now = now  # seconds since the epoch, the same throughout
        self.queues = model.queues
        # The gangs that have a pod group and a queue, oldest first.
        self.gangs: Sequence[Gang] = sorted(model.participating_gangs(), key=attrgetter("created", "key"))
        self.callbacks = SessionCallbacks(())
        self.later_actions: Sequence[Action] = ()  # those that follow the one that runs
        self.pending_reasons: dict[Key, r.PendingReason] = {}  # as far as this session found out
        self.binds: list[Bind] = []
        self.evictions: list[Eviction] = []
        self.nominations: list[Nomination] = []
        self.events: list[GroupEvent] = []
        self.admitted: list[AdmittedGang] = []
        self.refused: list[RefusedGang] = []
        self.rolled_back: list[RefusedGang] = []
        self.wake_at: float | None = None  # when the next session is due even if no object changes
        self.planned_group: PlannedGroup | None = None  # set by enqueue: the group with a planned start
        self.displacing: set[Key] = set()  # gangs admitted for nodes of gangs without nodes: they go first
        self.whole_evictions_tried: set[Key] = set()  # gangs for which whole gangs were to be evicted
        self._evicted_gangs: set[Key] = set()  # as a whole
        self.search_turns = SearchTurns(math.inf)  # of gangs that may search for victims: all
        self.computed: dict[Hashable, Any] = {}  # see ``computed_once``
        self._moved: set[Key] = set()  # gangs with tasks moved since the last ``pop_moved_gangs``
        self._limited_shapes: dict[tuple[Shape, tuple[str, ...]], Shape] = {}  # by the full node groups
        self._label_searches: dict[str, DomainSearch] = {}  # by label
        self._held: dict[Key, Task] = {}  # allocated or pipelined until the session ends
        self._rehearsed: list[Move] | None = None  # the moves of a rehearsal; None: moves are written

    # Extension points.

    def open_accounts(self, path: Path) -> SessionAccounts:
        """Return accounts for one plugin to update.  ``path``: see ``SessionAccounts``."""
        return SessionAccounts(
            self.queue_accounts,
            self.model.gangs,
            path,
            requested_beside_members if self.rules.charges_claims else requested,
            reserves_missing=self.rules.charges_claims,
        )

    @cached_property
    def queue_accounts(self) -> Mapping[str, Account]:
        """The account of each queue that has gangs, as of the opening of the session."""
        return self.model.queue_accounts(self.gangs)

    def renew_accounts(self) -> None:
        """Have the plugins count no reservation for members that got nodes earlier in the session."""
        if self.binds or self.evictions or self._held:
            accounts = self.model.queue_accounts(self.gangs)
            for callback in self.callbacks.accounts_renewed:
                callback(accounts)

    @cached_property
    def domain_search(self) -> DomainSearch:
        """The search among the HyperNodes, for gangs that require something of the network."""
        self.model.hyper_nodes.refresh()
        weights = next(iter(self.callbacks.hyper_node_order), NetworkTopologyArguments())
        return DomainSearch(self.model.hyper_nodes, self.node_finder, weights.resources)

    def domain_search_for(self, limit: TierLimit | None) -> DomainSearch:
        """Return the search among the HyperNodes, or among the values of the label that ``limit`` names."""
        if limit is None or limit.label is None:
            return self.domain_search
        if limit.label not in self._label_searches:
            domains = LabelDomains(self.cluster, limit.label)
            self._label_searches[limit.label] = DomainSearch(
                domains, self.node_finder, {}, largest_first=True
            )
        return self._label_searches[limit.label]

    def hold_suspended_gangs(self) -> None:
        """Keep gangs without quota of their cluster queue Pending, or make such gangs Pending again.

        An evicted gang keeps its phase until its last pod has no node.
        """
        for gang in self.gangs:
            if gang.metadata.is_suspended:
                self.pending_reasons[gang.key] = r.WorkloadNotAdmitted()
                if gang.phase == INQUEUE and not gang.has_started:
                    self.set_phase(gang, PENDING)
                    gang.admission = gang.admission.since(None)

    def set_phase(self, gang: Gang, phase: str) -> None:
        if gang.phase != phase:
            gang.phase = phase
            self.model.note_change()

    def may_have_nodes(self, gang: Gang) -> bool:
        """Return True if members of ``gang`` may get nodes: it is admitted, and has not lost them all.

        A gang that this session evicted as a whole gets none, for members that had none before either.

        In profile ``compat`` a gang that has lost all members is still admitted for a session.
        """
        has_lost_all = self.rules.readmits_lost and gang.has_lost_all
        return not (gang.is_pending or gang.is_suspended or has_lost_all or gang.key in self._evicted_gangs)

    def queue_of(self, gang: Gang) -> Queue:
        return self.queues[gang.queue]

    def gang_of(self, task: Task) -> Gang:
        return self.model.gangs[task.gang]

    def job_order_key(self, gang: Gang) -> SortKey:
        return (*self.plugin_job_order(gang), gang.created, gang.key)

    def plugin_job_order(self, gang: Gang) -> SortKey:
        """Return the keys of the plugins alone, which may be equal."""
        return tuple(callback(gang) for callback in self.callbacks.job_order)

    def queue_order_key(self, queue: Queue) -> SortKey:
        keys = tuple(callback(queue) for callback in self.callbacks.queue_order)
        return (*keys, queue.creation_order)

    def admission_order_key(self, queue: Queue) -> SortKey:
        """Return a key like ``queue_order_key`` that counts what admitted gangs may still allocate."""
        keys = tuple(callback(queue) for callback in self.callbacks.admission_order)
        return (*keys, queue.creation_order)

    def in_task_order(self, tasks: Iterable[Task]) -> list[Task]:
        """Sort tasks by the plugins' keys, then by index, or by creation if one of two has no index."""
        callbacks = self.callbacks.task_order

        def plugin_keys(task: Task) -> SortKey:
            return tuple(callback(task) for callback in callbacks)

        # Each key is computed once; the last element is unique, so that tasks are never compared.
        indexed: list[tuple[SortKey, int, tuple[float, Key], Task]] = []
        unindexed: list[tuple[SortKey, tuple[float, Key], Task]] = []
        for task in tasks:
            index, keys, order = task.index, plugin_keys(task), task.creation_order
            if index is None:
                unindexed.append((keys, order, task))
            else:
                indexed.append((keys, index, order, task))
        indexed.sort()
        unindexed.sort()
        if not unindexed:
            return [task for *_, task in indexed]
        by_creation = ((keys, order, task) for keys, _, order, task in indexed)
        return [task for *_, task in merge(by_creation, unindexed)]

    def is_ready(self, gang: Gang) -> bool:
        """Return True if the allocated tasks of ``gang`` may be bound (Volcano: jobReady)."""
        for callback in self.callbacks.job_ready:  # noqa: SIM110 - as in allocatable
            if not callback(gang):
                return False
        return True

    def enqueue_rejection(self, gang: Gang) -> r.PendingReason | Literal[Vote.REJECT] | None:
        """Return why plugins reject ``gang`` (jobEnqueueable); ``None``: they permit it."""
        votes: Tiers[Callable[[], Vote | r.PendingReason]] = [
            [partial(callback, gang) for callback in tier] for tier in self.callbacks.job_enqueueable
        ]
        return first_rejection(votes, preferred=_never_fits_queue)

    def is_pipelined(self, gang: Gang) -> bool:
        """Return True if ``gang`` may keep its nodes until it is ready (Volcano: jobPipelined)."""
        votes = [[partial(callback, gang) for callback in tier] for tier in self.callbacks.job_pipelined]
        return first_rejection(votes) is None

    def is_starving(self, gang: Gang) -> bool:
        """Return True if tasks of other gangs may be evicted for ``gang`` (jobStarving)."""
        return first_tier_agrees(
            [[partial(callback, gang) for callback in tier] for tier in self.callbacks.job_starving]
        )

    def invalid_reason(self, gang: Gang) -> r.PendingReason | None:
        """Return why ``gang`` cannot be placed as it is (jobValid), such as missing members."""
        reasons = (callback(gang) for callback in self.callbacks.job_valid)
        return self.invalid_queue_reason(self.queue_of(gang)) or r.first_reason(reasons)

    def invalid_queue_reason(self, queue: Queue) -> r.PendingReason | None:
        """Return why ``queue`` serves no gang at all; None if it serves gangs."""
        return r.first_reason(callback(queue) for callback in self.callbacks.queue_valid)

    def is_overdue(self, gang: Gang) -> bool:
        """Return True if ``gang`` has waited so long that it is admitted without a check of the nodes."""
        return any(callback(gang) for callback in self.callbacks.job_overdue)

    def is_overused(self, queue: Queue) -> bool:
        return any(callback(queue) for callback in self.callbacks.overused)

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Return True if ``queue`` may allocate ``task`` now, and the gang has quota for it."""
        if not self.gang_of(task).has_quota_for(task):
            return False
        return self.allows(queue, self.charge_of(queue, task))

    def charge_of(self, queue: Queue, task: Task) -> Amounts:
        """Return what ``queue`` is charged for ``task``, its requests or more."""
        for callback in self.callbacks.charge:
            return callback(queue, task)
        return task.request

    @property
    def keeps_room_of_lost(self) -> bool:
        """Whether the room of members that a gang lost is kept for their replacements.

        In profile ``compat`` not beside actions that evict: refused the room, a gang would evict the others.
        """
        actions = self.settings.actions
        return self.rules.prefers_short or not ("preempt" in actions or "reclaim" in actions)

    def allows(self, queue: Queue, request: Amounts) -> bool:
        """Return True if ``queue`` may allocate ``request`` now."""
        for callback in self.callbacks.allocatable:  # noqa: SIM110  a generator costs as much as they do
            if not callback(queue, request):
                return False
        return True

    def has_share_for(self, queue: Queue, request: Amounts) -> bool:
        """Return True if ``queue`` may allocate ``request`` now, in every node group that limits it."""
        return self.allows(queue, request) and not self._groups_too_full(queue, request)

    def _groups_too_full(self, queue: Queue, request: Amounts) -> set[str]:
        return {group for callback in self.callbacks.full_node_groups for group in callback(queue, request)}

    def shape_of(self, task: Task) -> Shape:
        """Return the shape for which ``task`` is placed now; see ``shape_for``."""
        return self.shape_for(self.queues[self.gang_of(task).queue], task.shape)

    def shape_for(self, queue: Queue, shape: Shape) -> Shape:
        """Return ``shape`` without the node groups in which ``queue`` may not allocate another such pod."""
        if not self.callbacks.full_node_groups:
            return shape
        full = self._groups_too_full(queue, shape.amounts)
        if not full:
            return shape
        key = shape, tuple(sorted(full))
        if key not in self._limited_shapes:
            self._limited_shapes[key] = self.model.without_node_groups(*key)
        return self._limited_shapes[key]

    def backfillable(self, queue: Queue, task: Task) -> bool:
        """Return True if ``queue`` may allocate ``task`` beyond its share, from unused shares."""
        return self.gang_of(task).has_quota_for(task) and all(
            callback(queue, task) for callback in self.callbacks.backfillable
        )

    def preemptive(self, queue: Queue, request: Amounts) -> bool:
        """Return True if tasks of other queues may be reclaimed for ``request`` of ``queue``."""
        return all(callback(queue, request) for callback in self.callbacks.preemptive)

    def reclaims_back(self, queue: Queue, claim: Amounts, other: Queue, request: Amounts) -> bool:
        """Return True if ``queue``, from which ``other`` has reclaimed ``request``, may reclaim ``claim``."""
        callbacks = self.callbacks.reclaims_back
        return self.preemptive(queue, claim) and all(
            callback(queue, claim, other, request) for callback in callbacks
        )

    def gang_reclaimable(self, gang: Gang, queue: Queue) -> bool:
        """Return True if ``queue``, which is not the gang's, may have all of ``gang`` evicted."""
        callbacks = self.callbacks.gang_reclaimable
        return bool(callbacks) and all(callback(gang, queue) for callback in callbacks)

    # Results.

    def wake(self, at: float | None) -> None:
        """Have the next session run by ``at``, in seconds since the epoch; ``None``: at any time."""
        if at is not None and at > self.now and (self.wake_at is None or at < self.wake_at):
            self.wake_at = at

    def record_event(
        self, gang: Gang, type_: Literal["Normal", "Warning"], reason: str, message: str, about: str = ""
    ) -> None:
        """Record an event of ``gang``, unless one of this reason and ``about`` was recorded lately."""
        if gang.reported.is_event_due(reason, about, self.now):
            self.events.append(GroupEvent(gang.key, gang.uid, type_, reason, message))

    def report_further_members(self, gang: Gang, cause: r.Cause) -> None:
        """Set why members of ``gang``, which is ready, wait (profile ``design``)."""
        if gang.schedulable and self.rules.reports_reasons:
            self.pending_reasons[gang.key] = r.FurtherMembersWait(len(gang.schedulable), cause)

    # Moves.

    def statement(self) -> Statement:
        return Statement(self)

    def apply(self, move: Move) -> None:
        assert (move.task.status, move.task.node) == (move.from_status, move.from_node), f"{move} is stale"
        self.model.set_task_status(move.task, move.to_status, move.to_node)
        self._moved.add(move.task.gang)
        if (move.from_status in CHARGED_STATUSES) == (move.to_status in CHARGED_STATUSES):
            return
        is_charged = move.to_status in CHARGED_STATUSES
        for callback in self.callbacks.on_allocate if is_charged else self.callbacks.on_deallocate:
            callback(move.task)

    def pop_moved_gangs(self) -> set[Key]:
        """Return the gangs with tasks moved since the last call."""
        moved, self._moved = self._moved, set()
        return moved

    @contextmanager
    def rehearsal(self) -> Iterator[Sequence[Move]]:
        """Yield the moves that are made within; undo them at the end, and write none."""
        revision, reasons = self.model.revision, self.pending_reasons.copy()
        moves = self._rehearsed = []
        try:
            yield moves
        finally:
            self._rehearsed = None
            for move in reversed(moves):
                self.apply(move.inverse)
            self.model.revision, self.pending_reasons = revision, reasons

    def hold(self, moves: Iterable[Move]) -> None:
        """Keep ``moves`` of a gang that cannot be bound yet until the session ends."""
        if self._rehearsed is not None:
            self._rehearsed.extend(moves)
            return
        for move in moves:
            self._held[move.task.key] = move.task

    def dispatch(
        self, moves: Sequence[Move], gang: Gang, action: EvictionAction = "preempt", *, whole: bool = False
    ) -> None:
        """Have ``moves``, made for ``gang``, written to the API: its evictions and binds.

        Pipelined tasks keep their nodes until the session ends.  The first task that is pipelined after
        evictions is nominated to its node; in profile ``design``, with ``whole``, or of unequal tasks, all on
        nodes that pods are leaving are, or the first one if only the queue's share was short.  Without the
        plugin ``gang``, with which the others of the gang would wait for the first one, all tasks of the plan
        are.
        """
        if self._rehearsed is not None:
            self._rehearsed.extend(moves)
            return
        is_alone = not self.settings.has_plugin("gang")
        evicts = any(move.to_status is TaskStatus.RELEASING for move in moves)
        pipelined = [move for move in moves if move.to_status is TaskStatus.PIPELINED]
        nodes = {move.to_node for move in pipelined}
        # Unequal tasks, placed one after the other, might take the nodes that others of the gang need.
        are_unequal = len({move.task.shape for move in pipelined}) > 1
        all_share = whole or are_unequal or self.rules.nominates_all
        # Whether the next pipelined task is nominated: evictions precede it, or freed no node of the plan.
        is_next = whole and evicts and not any(map(self.cluster.has_leaving_pods, nodes))
        for move in moves:
            task = move.task
            match move.to_status:
                case TaskStatus.RELEASING:
                    is_next = is_next or not whole
                    self.model.assumed.evict(task, move.from_status)
                    self.evictions.append(Eviction(task.key, task.uid, task.gang, gang.key, action, whole))
                    if whole:
                        self._evicted_gangs.add(task.gang)
                case TaskStatus.ALLOCATED:
                    self.bind(task)
                case TaskStatus.PIPELINED:
                    self._held[task.key] = task
                    is_left = all_share and self.cluster.has_leaving_pods(task.node)
                    if is_next or (evicts and (is_alone or is_left)):
                        self._nominate(task)
                    is_next = False
                case _:
                    raise AssertionError(f"{move} cannot be written to the API")

    def _nominate(self, task: Task) -> None:
        if task.nominated_node != task.node:
            task.nominated_node = task.node
            self.nominations.append(Nomination(task.key, task.uid, task.node))

    def bind(self, task: Task) -> None:
        assert task.status is TaskStatus.ALLOCATED, f"{task.key} is {task.status}"
        self._held.pop(task.key, None)
        self.model.assumed.bind(task)
        self.binds.append(Bind(task.key, task.uid, task.gang, task.node, task.created))

    @property
    def pipelined(self) -> dict[Key, str]:
        """The node of each pipelined task."""
        return {key: task.node for key, task in self._held.items() if task.status is TaskStatus.PIPELINED}

    @property
    def held(self) -> tuple[tuple[Key, TaskStatus, str], ...]:
        """The tasks that are allocated or pipelined until the session ends, with their nodes."""
        return tuple((key, task.status, task.node) for key, task in self._held.items())

    @property
    def pipelined_gangs(self) -> Sequence[Gang]:
        """The gangs that have pipelined tasks, each once."""
        keys = dict.fromkeys(task.gang for task in self._held.values() if task.status is TaskStatus.PIPELINED)
        return [self.model.gangs[key] for key in keys]

    def undo(self) -> None:
        """Undo all moves of a session that failed: none of its decisions is written.

        Open statements have been undone when the exception left them.
        """
        for bind in self.binds:
            self.model.assumed.bind_failed(bind)
        for eviction in self.evictions:
            self.model.assumed.eviction_failed(eviction)
        for nomination in self.nominations:
            self.model.assumed.nomination_failed(nomination)
        self.release_held()

    def release_held(self) -> Sequence[Move]:
        """End the session: make tasks pending again that were held and not bound; return the moves."""
        moves = [Move(task, task.status, task.node, TaskStatus.PENDING, "") for task in self._held.values()]
        for move in moves:
            if move.from_status in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED):
                self.model.set_task_status(move.task, move.to_status, move.to_node)
        self._held.clear()
        return moves


def _never_fits_queue(reason: object) -> bool:
    return isinstance(reason, r.QueueQuotaExceeded) and r.can_never_fit(reason)
