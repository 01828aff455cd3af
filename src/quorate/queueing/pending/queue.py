"""The pending workloads of one cluster queue: which is the next head, and which need not be tried.

Workloads of equal shape (see ``pending.shape``) form a *shape queue*, in queue order.  The outcome for its
first workload holds for all of them: if the first does not fit, the whole shape queue becomes inadmissible,
and a requeue makes it active again, both without a pass over its workloads.  After a requeue, a cluster queue
with a hundred thousand workloads therefore costs as many evaluations as it has shapes.

With priority ageing (see ``PriorityAging``) a shape queue has the workloads of one priority only.  An older
one of these never has waited less, so its order is fixed: a step changes the order between shape queues, not
within them.

A pending workload is in exactly one place: active (in the ``active`` heap of its shape queue), inadmissible
(in the ``inadmissible`` heap of its shape queue, backing off, or with a mismatched namespace), or in flight
(the head that is being decided on).
"""

import math
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush, nsmallest
from operator import attrgetter
from typing import Final

import msgspec

from quorate.api.configuration.priority_aging import PriorityAging
from quorate.api.meta import Key
from quorate.queueing.decisions import Hold
from quorate.queueing.pending.entry import Entry, EntryHeap
from quorate.queueing.pending.ordering import QueueOrder
from quorate.queueing.pending.shape import Shape

BoundOf = Callable[[Entry], float]  # how long a workload runs at most, seconds
# The local queue only with admission fair sharing, the priority (negated) only with priority ageing.
ShapeQueueKey = tuple[Shape, Key | None, int | None]


class ShapeOutcome(msgspec.Struct, frozen=True):
    """The outcome of an inadmissible workload, which holds for later workloads of its shape.

    If quota is kept for an earlier workload, it holds only for workloads that may run at least as long.
    """

    order: QueueOrder  # in which it precedes those: that of preemption, or queue order if quota is kept
    hold: Hold | None
    least_bound_s: float = 0.0


class ShapeQueue:
    """The workloads of one shape in one cluster queue.

    With admission fair sharing of one local queue, with priority ageing of one priority.
    """

    __slots__ = ("active", "head_order", "inadmissible", "key", "unexplained")

    def __init__(self, key: ShapeQueueKey) -> None:
        self.key = key
        self.active = EntryHeap()
        self.inadmissible = EntryHeap()
        self.unexplained: dict[Key, Entry] = {}  # exactly those of its entries that are not explained
        self.head_order: QueueOrder | None = None  # of its newest item in ``PendingQueue._heads``, if any

    def make_inadmissible(self) -> None:
        if self.inadmissible.size < self.active.size:
            self.active, self.inadmissible = self.inadmissible, self.active
        self.inadmissible.take_all(self.active)

    def make_active(self) -> None:
        if self.active.size < self.inadmissible.size:
            self.active, self.inadmissible = self.inadmissible, self.active
        self.active.take_all(self.inadmissible)


class PendingQueue:
    """The pending workloads of one cluster queue, by shape.

    The ledger decides which workloads enter and when they are requeued.
    """

    _SLACK: Final = 32

    def __init__(
        self,
        version: Callable[[], int],
        parked: dict[Key, None] | None = None,
        bound_s: BoundOf = lambda entry: math.inf,
    ) -> None:
        self._bound_s = bound_s
        self._version = version  # of the tree of the queue: an outcome of another version is void
        # Workloads that became inadmissible with the outcome of another one, which no decision reports.
        self._parked: dict[Key, None] = {} if parked is None else parked
        # Consumed usage of a local queue, which precedes the queue order; None: no admission fair sharing.
        self.consumed_usage: Callable[[Key], float] | None = None
        self.aging: PriorityAging | None = None
        self._step = 0  # of ``aging``, up to which waiting counts
        self._last_step = 0  # at or before which all workloads have the most that waiting gives
        self._shape_queues: dict[ShapeQueueKey, ShapeQueue] = {}
        # Contains the order of the first active entry of each shape queue that has one.  Others are stale.
        self._heads: list[tuple[QueueOrder, int, ShapeQueue]] = []
        self._last_head_ticket = 0  # breaks ties, so that shape queues are never compared
        # Exactly the shape queues that have inadmissible entries.
        self._with_inadmissible: dict[ShapeQueueKey, ShapeQueue] = {}
        # Shapes with an inadmissible workload, and its outcome: those after it are not evaluated.
        self._outcomes: dict[Shape, ShapeOutcome] = {}
        self._outcomes_version = 0  # of ``_outcomes``
        self.backing_off: dict[Key, Entry] = {}  # not requeued by events: only an update of the object helps
        self.namespace_mismatched: dict[Key, Entry] = {}
        self.in_flight: Entry | None = None
        self.sticky: Entry | None = None  # first of all: its preemption targets are being evicted
        self.preemptor: Entry | None = None  # the last head of which preemption targets were evicted
        self.preemptor_generation = 0  # of its object at that time

    def __len__(self) -> int:
        return self.active_count + self.inadmissible_count

    @property
    def is_empty(self) -> bool:
        return not (self._shape_queues or self.in_flight or self.backing_off or self.namespace_mismatched)

    @property
    def active_count(self) -> int:
        """Return the number of active workloads, the one in flight included."""
        return sum(queue.active.size for queue in self._shape_queues.values()) + (self.in_flight is not None)

    @property
    def inadmissible_count(self) -> int:
        in_heaps = sum(queue.inadmissible.size for queue in self._with_inadmissible.values())
        return in_heaps + len(self.backing_off) + len(self.namespace_mismatched)

    def active(self) -> list[Entry]:
        """Return the active workloads in queue order, the one in flight included."""
        return self._in_order(self._active())

    def inadmissible(self) -> list[Entry]:
        """Return the inadmissible workloads in queue order."""
        return self._in_order(self._inadmissible())

    def all_entries(self) -> list[Entry]:
        """Return all workloads, active or inadmissible, in queue order."""
        return self._in_order(self.unordered())

    def unordered(self) -> list[Entry]:
        """Return all workloads, active or inadmissible, in any order."""
        return [*self._active(), *self._inadmissible()]

    def _active(self) -> list[Entry]:
        entries = [entry for queue in self._shape_queues.values() for entry in queue.active]
        return entries if self.in_flight is None else [*entries, self.in_flight]

    def _inadmissible(self) -> list[Entry]:
        entries = [entry for queue in self._with_inadmissible.values() for entry in queue.inadmissible]
        return [*entries, *self.backing_off.values(), *self.namespace_mismatched.values()]

    def _in_order(self, entries: list[Entry]) -> list[Entry]:
        if self.consumed_usage is None and self.sticky is None:  # then the rank is the order alone
            return sorted(entries, key=attrgetter("order") if self.aging is None else self.order)
        return sorted(entries, key=self.rank)

    def is_active(self, entry: Entry) -> bool:
        queue = self._shape_queues.get(self._key(entry))
        return entry is self.in_flight or (queue is not None and entry.heap is queue.active)

    def is_preemptor(self, entry: Entry) -> bool:
        """Return True if ``entry`` waits for its preemption targets and its spec has not changed since."""
        return entry is self.preemptor and entry.workload.metadata.generation == self.preemptor_generation

    def set_preemptor(self, entry: Entry, *, sticky: bool) -> None:
        """Record that ``entry`` waits for its preemption targets; ``sticky``: it stays the first one."""
        self.preemptor, self.preemptor_generation = entry, entry.workload.metadata.generation
        if sticky:
            self.sticky = entry

    def is_inadmissible_shape(self, entry: Entry) -> bool:
        """Return True if an equal or earlier workload of the same shape is known to be inadmissible.

        A workload that precedes it may preempt newer workloads that it may not.
        """
        outcome = self._outcome(entry.shape)
        return outcome is not None and self._holds_for(outcome, entry)

    def _holds_for(self, outcome: ShapeOutcome, entry: Entry) -> bool:
        if outcome.least_bound_s:
            return outcome.order <= self.order(entry) and outcome.least_bound_s <= self._bound_s(entry)
        return outcome.order <= (entry.order if self.aging is None else self.preempting_order(entry))

    def _outcome(self, shape: Shape) -> ShapeOutcome | None:
        if self._outcomes and self._outcomes_version != self._version():
            self._outcomes.clear()
        return self._outcomes.get(shape)

    def hold_of(self, entry: Entry) -> Hold | None:
        """Return why ``entry`` is pending: the outcome recorded for its shape, or its own last one."""
        outcome = self._outcome(entry.shape)
        if outcome is None or outcome.hold is None:
            return entry.hold
        if entry.hold is not None and not self._holds_for(outcome, entry):
            return entry.hold
        return outcome.hold

    def explain_again(self) -> None:
        """Report the next outcome of every workload: what was reported before is no longer true."""
        for queue in self._shape_queues.values():
            for entry in (*queue.active, *queue.inadmissible):
                self.explain_later(entry)
        self._parked.update(dict.fromkeys(self.namespace_mismatched))

    def explain_later(self, entry: Entry) -> None:
        """Report the next outcome of ``entry``: none is known now."""
        if entry.heap is not None:
            entry.is_explained = False
            self._shape_queue(entry).unexplained[entry.key] = entry

    def set_consumed_usage(self, consumed_usage: Callable[[Key], float] | None) -> None:
        """Order local queues by ``consumed_usage``, or by queue order alone."""
        if (self.consumed_usage is None) == (consumed_usage is None):
            return
        with self._regrouping():
            self.consumed_usage = consumed_usage

    def set_aging(self, aging: PriorityAging | None, now: float) -> None:
        """Let waiting raise the priority of workloads by ``aging``."""
        with self._regrouping():
            self.aging = aging
            self._step = 0 if aging is None else aging.step_at(now)
            since = [entry.order[1] for entry in self.unordered()]
            self._last_step = 0 if aging is None else max(map(aging.last_step, since), default=0)

    @contextmanager
    def _regrouping(self) -> Iterator[None]:
        """Build the shape queues anew after a change of their keys."""
        active = [entry for queue in self._shape_queues.values() for entry in queue.active]
        inadmissible = [entry for queue in self._with_inadmissible.values() for entry in queue.inadmissible]
        yield
        for entry in (*active, *inadmissible):
            entry.heap = None
        self._shape_queues, self._heads, self._with_inadmissible = {}, [], {}
        for entry in active:
            self.push(entry)
        for entry in inadmissible:
            self.add_inadmissible(entry)

    def note_arrival(self, entry: Entry, now: float) -> None:
        """Count the waiting of an entry that is about to be queued."""
        assert self.aging is not None, "workloads of this queue do not age"
        if self.is_empty:
            self._step = max(self._step, self.aging.step_at(now))
        self._last_step = max(self._last_step, self.aging.last_step(entry.order[1]))

    def age(self, now: float) -> bool:
        """Count waiting until ``now``; return True if a step has begun since the last call.

        Costs a pass over the shape queues at each step, and nothing otherwise.
        """
        assert self.aging is not None, "workloads of this queue do not age"
        step = self.aging.step_at(now)
        if step <= self._step:
            return False
        self._step = step
        self._rebuild_heads()
        return True

    @property
    def next_step_at(self) -> float:
        """Return when the next step begins that may raise a workload, epoch seconds; infinite: none may."""
        if self.aging is None or self._step >= self._last_step or self.is_empty:
            return math.inf
        return float((self._step + 1) * self.aging.every_s)

    def order(self, entry: Entry) -> QueueOrder:
        """Return the queue order of ``entry``, with the priority that it has by waiting."""
        if self.aging is None:
            return entry.order
        priority, since, uid = entry.order
        return priority - self.aging.increase(since, self._step), since, uid

    def precedes(self, first: Entry, second: Entry) -> bool:
        """Return True if ``first`` has its turn before ``second``, or at the same position."""
        if self.aging is None and self.consumed_usage is None:
            return first.order <= second.order
        return self.turn(first) <= self.turn(second)

    def turn(self, entry: Entry) -> tuple[float, QueueOrder]:
        """Return the order of planned starts: the consumed usage of the local queue, then the queue order.

        The first workload that is evaluated is the first that may have a planned start: otherwise it would be
        held back for one behind it, which a StrictFIFO queue does not evaluate before it.
        """
        usage = 0.0 if self.consumed_usage is None else self.consumed_usage(entry.local_queue)
        return usage, self.order(entry)

    def preempting_order(self, entry: Entry) -> QueueOrder:
        """Return the queue order of ``entry`` as far as it decides about preemption."""
        return self.order(entry) if self.aging is not None and self.aging.also_preempts else entry.order

    def reserved_order(self, order: QueueOrder, reserved_at: float) -> QueueOrder:
        """Return the order in which a workload with quota is preempted, given its order without ageing.

        The workload keeps the priority with which it got quota, so that no workload behind it takes the quota
        again.  If raised priorities preempt, its priority rises like that of waiting workloads, and counts
        one step more: otherwise workloads of queues with different rules would preempt each other in turn.
        """
        if self.aging is None:
            return order
        if self.aging.also_preempts:
            step = self._step + 1
        else:
            step = self.aging.step_at(reserved_at) if math.isfinite(reserved_at) else self._step
        priority, since, uid = order
        return priority - self.aging.increase(since, step), since, uid

    def push(self, entry: Entry) -> bool:
        """Make ``entry`` active unless its shape is known to be inadmissible; return True if it is active."""
        if self.is_inadmissible_shape(entry):
            if not entry.is_explained:
                entry.is_explained = True
                self._parked[entry.key] = None
            self.add_inadmissible(entry)
            return False
        queue = self._shape_queue(entry)
        queue.active.add(entry)
        if not entry.is_explained:
            queue.unexplained[entry.key] = entry
        self._push_head(queue)
        return True

    def add_inadmissible(self, entry: Entry) -> ShapeQueue:
        """Keep ``entry`` inadmissible until the next requeue; return its shape queue."""
        queue = self._shape_queue(entry)
        queue.inadmissible.add(entry)
        if not entry.is_explained:
            queue.unexplained[entry.key] = entry
        self._with_inadmissible[queue.key] = queue
        return queue

    def add_inadmissible_shape(self, entry: Entry) -> None:
        """Keep ``entry`` and all workloads of its shape after it inadmissible until the next requeue."""
        own = self.add_inadmissible(entry)
        outcome = self._outcome(entry.shape)
        order = self.preempting_order(entry)
        if outcome is not None and not outcome.least_bound_s:
            order = min(outcome.order, order)
        self._outcomes_version = self._version()
        self._outcomes[entry.shape] = ShapeOutcome(order, entry.hold)
        for queue in self._with_shape_of(own):
            first = queue.active.first()
            if first is not None and self.preempting_order(first) < order:
                continue  # it is evaluated itself
            queue.make_inadmissible()
            self._with_inadmissible[queue.key] = queue
            if queue.unexplained:
                explained, queue.unexplained = queue.unexplained, {}  # iterating an emptied dict takes long
                for other in explained.values():
                    other.is_explained = True
                self._parked.update(dict.fromkeys(explained))

    def add_inadmissible_bound(self, entry: Entry) -> None:
        """Make ``entry`` inadmissible until a requeue, with later ones of its shape and no smaller bound."""
        own = self.add_inadmissible(entry)
        outcome = self._outcome(entry.shape)
        bound_s = self._bound_s(entry)
        if outcome is None or (outcome.least_bound_s and outcome.least_bound_s > bound_s):
            self._outcomes_version = self._version()
            self._outcomes[entry.shape] = ShapeOutcome(self.order(entry), entry.hold, max(bound_s, 1.0))
        for queue in self._with_shape_of(own):
            for other in [other for other in queue.active if self.is_inadmissible_shape(other)]:
                queue.active.discard(other)
                queue.inadmissible.add(other)
                if queue.unexplained.pop(other.key, None) is not None:
                    other.is_explained = True
                    self._parked[other.key] = None
            if queue.inadmissible.size:
                self._with_inadmissible[queue.key] = queue
            self._push_head(queue)

    def next_of_shape(self, entry: Entry, number: int) -> list[Entry]:
        """Return the first ``number`` workloads of the shape of ``entry`` after it, in queueing order."""
        own = self._shape_queues.get(self._key(entry))
        queues = [] if own is None else self._with_shape_of(own)
        heaps = (heap for queue in queues for heap in (queue.active, queue.inadmissible))
        entries = (queued for heap in heaps for queued in heap)
        order = self.order(entry)
        return nsmallest(number, (queued for queued in entries if self.order(queued) > order), self.order)

    def _with_shape_of(self, own: ShapeQueue) -> list[ShapeQueue]:
        """Return all shape queues of the shape of ``own``: by local queue and priority, or only itself."""
        if self.consumed_usage is None and self.aging is None:
            return [own]
        return [queue for (shape, _, _), queue in self._shape_queues.items() if shape is own.key[0]]

    def remove(self, entry: Entry) -> None:
        """Remove ``entry`` from wherever it is."""
        if self.sticky is entry:
            self.sticky = None
        if self.preemptor is entry:
            self.preemptor = None
        if self.in_flight is entry:
            self.in_flight = None
        elif entry.heap is not None:
            self._remove_from_heap(entry, entry.heap)
        elif self.backing_off.pop(entry.key, None) is None:
            del self.namespace_mismatched[entry.key]

    def pop(self) -> Entry | None:
        """Put the first active workload in flight and return it."""
        assert self.in_flight is None, "a head is popped while another is in flight"
        entry = self._first() if self.consumed_usage is None else self._first_by_consumed_usage()
        if entry is not None:
            assert entry.heap is not None
            self._remove_from_heap(entry, entry.heap)
            self.in_flight = entry
        return entry

    def queue_inadmissible(self, matching_namespaces: Container[str]) -> None:
        """Make inadmissible workloads active; mismatched ones only if their namespace matches now."""
        for queue in self._with_inadmissible.values():
            queue.make_active()
            self._push_head(queue)
        self._with_inadmissible.clear()
        mismatched = self.namespace_mismatched.values()
        for entry in [entry for entry in mismatched if entry.key.namespace in matching_namespaces]:
            del self.namespace_mismatched[entry.key]
            self.push(entry)

    def rank(self, entry: Entry) -> tuple[bool, tuple[float, QueueOrder]]:
        """Return the rank of ``entry`` in queue order; smaller comes first."""
        return entry is not self.sticky, self.turn(entry)

    def _first(self) -> Entry | None:
        if self.sticky is not None and self.sticky.heap is not None and self.is_active(self.sticky):
            return self.sticky
        while self._heads:
            order, _, queue = self._heads[0]
            first = queue.active.first()
            if first is not None and order == (first.order if self.aging is None else self.order(first)):
                return first
            heappop(self._heads)
            if queue.head_order == order:
                queue.head_order = None
        return None

    def _first_by_consumed_usage(self) -> Entry | None:
        """Return the best of all shape queues: consumed usage changes constantly, so no heap can order it."""
        firsts = [
            first for queue in self._shape_queues.values() if (first := queue.active.first()) is not None
        ]
        if self.sticky is not None and self.sticky.heap is not None and self.is_active(self.sticky):
            firsts.append(self.sticky)
        return min(firsts, key=self.rank, default=None)

    def _key(self, entry: Entry) -> ShapeQueueKey:
        return (
            entry.shape,
            None if self.consumed_usage is None else entry.local_queue,
            None if self.aging is None else entry.order[0],
        )

    def _shape_queue(self, entry: Entry) -> ShapeQueue:
        key = self._key(entry)
        queue = self._shape_queues.get(key)
        if queue is None:
            queue = self._shape_queues[key] = ShapeQueue(key)
        return queue

    def _remove_from_heap(self, entry: Entry, heap: EntryHeap) -> None:
        heap.discard(entry)
        key = self._key(entry)
        queue = self._shape_queues[key]
        queue.unexplained.pop(entry.key, None)
        if not queue.inadmissible.size:
            self._with_inadmissible.pop(key, None)
        if queue.active.size:
            self._push_head(queue)
        elif not queue.inadmissible.size:
            del self._shape_queues[key]

    def _push_head(self, queue: ShapeQueue) -> None:
        """Keep the heads up to date with the first active entry of ``queue``."""
        first = queue.active.first()
        if first is None:
            return
        order = first.order if self.aging is None else self.order(first)
        if order == queue.head_order:
            return
        queue.head_order = order
        self._last_head_ticket += 1
        heappush(self._heads, (order, self._last_head_ticket, queue))
        if len(self._heads) > 2 * len(self._shape_queues) + self._SLACK:
            self._rebuild_heads()

    def _rebuild_heads(self) -> None:
        """Drop the stale heads, which outnumber the valid ones or are of another step."""
        self._heads = []
        for queue in self._shape_queues.values():
            first = queue.active.first()
            queue.head_order = self.order(first) if first is not None else None
            if queue.head_order is not None:
                self._last_head_ticket += 1
                self._heads.append((queue.head_order, self._last_head_ticket, queue))
        heapify(self._heads)
