"""The pending workloads of one cluster queue: which one is next, and which ones need not be tried.

Workloads of one shape (see ``queueing.shape``) form a *lane*, in queue order.  What holds for the first of
a lane holds for all of it: when it cannot be admitted for lack of quota the whole lane is parked, and a
wake-up brings the whole lane back, both without touching its workloads.  So after a wake-up a queue of a
hundred thousand workloads costs as many evaluations as it has shapes.

A pending workload is in exactly one place: active (in the ready bucket of its lane), inadmissible (in the
parked bucket of its lane, backing off, or a stranger), or in flight (it is the head being decided on).

Removal from a heap is lazy: an item counts only while the workload still carries its bucket and ticket.
Stale items are dropped when they surface, or when they outnumber the live ones; amortised O(log n).
"""

from collections.abc import Callable, Container, Iterator
from enum import Enum
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.queueing.decisions import Hold
from quorate.queueing.pending.ordering import QueueOrder
from quorate.queueing.pending.shape import Shape

ShapeQueueKey = tuple[Shape, Key | None]  # the local queue only where local queues take turns


class RequeueReason(Enum):
    """Why a head was not admitted, as far as it decides when to try it again."""

    FAILED_AFTER_NOMINATION = "it could start, but somebody before it in the round took the room"
    PENDING_PREEMPTION = "its victims are being evicted"
    NO_FIT = "no flavor can serve it"
    NO_CANDIDATES = "only preemption could help, and there is nobody to preempt"
    AWAITING_PODS_READY = "it could start, but somebody with pods of the same flavor is not ready"
    NAMESPACE_MISMATCH = "the cluster queue does not serve its namespace"
    GENERIC = "anything else"

    def is_immediate(self, *, strict: bool) -> bool:
        """Whether it is tried again at once: always where a head blocks those behind it (StrictFIFO)."""
        if strict:
            return self is not RequeueReason.NAMESPACE_MISMATCH
        return self in (RequeueReason.FAILED_AFTER_NOMINATION, RequeueReason.PENDING_PREEMPTION)

    @property
    def holds_for_shape(self) -> bool:
        """Whether all workloads of the same shape would meet the same verdict."""
        return self in (RequeueReason.NO_FIT, RequeueReason.NO_CANDIDATES, RequeueReason.AWAITING_PODS_READY)


class LastAssignment(msgspec.Struct, frozen=True):
    """Where the next search for flavors goes on: per pod set and resource the last flavor tried.

    An index of -1 means that all were tried, and the next search starts at the first again.
    """

    last_tried_flavors: tuple[dict[str, int], ...]
    shape: Shape
    cycle: int  # in which it was recorded
    generation: int  # of the cluster queue's quota, then

    @property
    def has_untried_flavors(self) -> bool:
        return any(index != -1 for pod_set in self.last_tried_flavors for index in pod_set.values())


class PreemptingAssignment(msgspec.Struct, frozen=True):
    """What a workload preempted others for."""

    counts: tuple[int, ...]  # pods per pod set
    level: int  # how far up the cohort tree it was to borrow


class Entry:
    """One pending workload."""

    __slots__ = (
        "bucket",
        "cluster_queue",
        "hold",
        "key",
        "last_assignment",
        "order",
        "preempting_assignment",
        "shape",
        "ticket",
        "workload",
    )

    def __init__(self, workload: Workload, shape: Shape, order: QueueOrder) -> None:
        self.key = workload.metadata.key
        self.workload = workload
        self.shape = shape
        self.order = order
        self.bucket: EntryHeap | None = None  # the one it is in; None unless in a lane
        self.ticket = 0  # that of its item in ``bucket``
        self.cluster_queue = ""  # the one it is queued in; empty while its queues are missing or stopped
        self.last_assignment: LastAssignment | None = None
        self.preempting_assignment: PreemptingAssignment | None = None  # None while nobody goes for it
        self.hold: Hold | None = None  # why it waits, as last judged itself

    @property
    def local_queue(self) -> Key:
        return Key(self.workload.metadata.namespace, self.workload.spec.queue_name)


class EntryHeap:
    """Workloads of one shape, first one first."""

    __slots__ = ("_added", "_heap", "size")
    _SLACK: Final = 32

    def __init__(self) -> None:
        # No two items have the same ticket: a workload that left and came back may meet its stale item.
        self._heap: list[tuple[QueueOrder, int, Entry]] = []
        self._added = 0  # items ever
        self.size = 0  # of live items

    def add(self, entry: Entry) -> None:
        assert entry.bucket is None, f"{entry.key} is queued twice"
        self._added += 1
        entry.ticket = self._added
        entry.bucket = self
        self.size += 1
        heappush(self._heap, (entry.order, entry.ticket, entry))

    def discard(self, entry: Entry) -> None:
        assert entry.bucket is self, f"{entry.key} is not here"
        entry.bucket = None
        self.size -= 1
        if len(self._heap) > 2 * self.size + self._SLACK:
            self._heap = sorted(item for item in self._heap if self._is_live(item))

    def first(self) -> Entry | None:
        while self._heap:
            if self._is_live(self._heap[0]):
                return self._heap[0][2]
            heappop(self._heap)
        return None

    def take(self, other: "EntryHeap") -> None:
        """Move all of ``other`` here."""
        for item in other._heap:
            if other._is_live(item):
                item[2].bucket = None
                self.add(item[2])
        other._heap, other.size = [], 0

    def __iter__(self) -> Iterator[Entry]:
        return (item[2] for item in self._heap if self._is_live(item))

    def _is_live(self, item: tuple[QueueOrder, int, Entry]) -> bool:
        return item[2].bucket is self and item[2].ticket == item[1]


class ShapeQueue:
    """All workloads of one shape in one cluster queue; where local queues take turns, of one of them."""

    __slots__ = ("key", "offered", "parked", "ready")

    def __init__(self, key: ShapeQueueKey) -> None:
        self.key = key
        self.ready = EntryHeap()
        self.parked = EntryHeap()
        self.offered: QueueOrder | None = (
            None  # of the newest item for this lane among the heads, if it is there
        )

    def park(self) -> None:
        if self.parked.size < self.ready.size:
            self.ready, self.parked = self.parked, self.ready
        self.parked.take(self.ready)

    def queue_inadmissible(self) -> None:
        if self.ready.size < self.parked.size:
            self.ready, self.parked = self.parked, self.ready
        self.ready.take(self.parked)


class PendingQueue:
    """See the module.  Who may enter, and when to wake, is decided outside."""

    _SLACK: Final = 32

    def __init__(self) -> None:
        # Past use of a local queue, which goes before everything else; None: local queues do not take turns.
        self.consumed_usage: Callable[[Key], float] | None = None
        self._lanes: dict[ShapeQueueKey, ShapeQueue] = {}
        # Holds an item with the order of the first of each lane that has something ready.  Others are stale.
        self._heads: list[tuple[QueueOrder, int, ShapeQueue]] = []
        self._offers = 0  # ever made: a tie-break that keeps lanes from being compared
        self._parked: dict[ShapeQueueKey, ShapeQueue] = {}  # exactly the lanes with something parked
        # Shapes of which the first was parked, and why: newcomers are parked unseen.
        self._blocked: dict[Shape, Hold | None] = {}
        self.backing_off: dict[Key, Entry] = {}  # not woken by events: only its own update can help
        self.namespace_mismatched: dict[
            Key, Entry
        ] = {}  # their namespace does not match the cluster queue's selector
        self.in_flight: Entry | None = None
        self.sticky: Entry | None = None  # goes first whatever arrives: its victims are being evicted
        self.requeues = 0  # ever: tells whether something happened while a head was in flight

    def __len__(self) -> int:
        return self.active_count + self.inadmissible_count

    @property
    def is_empty(self) -> bool:
        return not (self._lanes or self.in_flight or self.backing_off or self.namespace_mismatched)

    @property
    def active_count(self) -> int:
        """Workloads ready or in flight."""
        return sum(lane.ready.size for lane in self._lanes.values()) + (self.in_flight is not None)

    @property
    def inadmissible_count(self) -> int:
        parked = sum(lane.parked.size for lane in self._parked.values())
        return parked + len(self.backing_off) + len(self.namespace_mismatched)

    def active(self) -> list[Entry]:
        """In queue order, the one in flight included."""
        return self._in_order(self._active())

    def inadmissible(self) -> list[Entry]:
        return self._in_order(self._inadmissible())

    def all_entries(self) -> list[Entry]:
        """Active or not, in queue order."""
        return self._in_order([*self._active(), *self._inadmissible()])

    def _active(self) -> list[Entry]:
        entries = [entry for lane in self._lanes.values() for entry in lane.ready]
        return entries if self.in_flight is None else [*entries, self.in_flight]

    def _inadmissible(self) -> list[Entry]:
        entries = [entry for lane in self._parked.values() for entry in lane.parked]
        return [*entries, *self.backing_off.values(), *self.namespace_mismatched.values()]

    def _in_order(self, entries: list[Entry]) -> list[Entry]:
        if self.consumed_usage is None and self.sticky is None:  # there is nothing else to the rank then
            return sorted(entries, key=attrgetter("order"))
        return sorted(entries, key=self.rank)

    def is_active(self, entry: Entry) -> bool:
        lane = self._lanes.get(self._lane_key(entry))
        return entry is self.in_flight or (lane is not None and entry.bucket is lane.ready)

    def hold_of(self, entry: Entry) -> Hold | None:
        """Why ``entry`` waits: its own verdict, or that of the one its shape was judged by."""
        return entry.hold or self._blocked.get(entry.shape)

    def set_consumed_usage(self, consumed_usage: Callable[[Key], float] | None) -> None:
        """Let local queues take turns by their ``consumed_usage``, or not."""
        if (self.consumed_usage is None) == (consumed_usage is None):
            return
        ready = [entry for lane in self._lanes.values() for entry in lane.ready]
        parked = [entry for lane in self._parked.values() for entry in lane.parked]
        for entry in (*ready, *parked):
            entry.bucket = None
        self._lanes, self._heads, self._parked = {}, [], {}
        self.consumed_usage = consumed_usage
        for entry in ready:
            self.push(entry)
        for entry in parked:
            self.park(entry)

    def push(self, entry: Entry) -> bool:
        """Make ``entry`` active, unless its shape is known not to fit; whether it is active now."""
        if entry.shape in self._blocked:
            self.park(entry)
            return False
        lane = self._lane(entry)
        lane.ready.add(entry)
        self._offer(lane)
        return True

    def park(self, entry: Entry) -> None:
        """Make ``entry`` inadmissible until the next wake-up."""
        lane = self._lane(entry)
        lane.parked.add(entry)
        self._parked[lane.key] = lane

    def block(self, entry: Entry) -> None:
        """Park ``entry`` and with it, now and until the next wake-up, all of its shape."""
        self.park(entry)
        self._blocked[entry.shape] = entry.hold
        if self.consumed_usage is None:
            self._lane(entry).park()
            return
        for key, lane in self._lanes.items():
            if key[0] is entry.shape:
                lane.park()
                self._parked[key] = lane

    def remove(self, entry: Entry) -> None:
        """Forget ``entry``, wherever it is."""
        if self.sticky is entry:
            self.sticky = None
        if self.in_flight is entry:
            self.in_flight = None
        elif entry.bucket is not None:
            self._take_out(entry, entry.bucket)
        elif self.backing_off.pop(entry.key, None) is None:
            del self.namespace_mismatched[entry.key]

    def pop(self) -> Entry | None:
        """Take the first active workload in flight."""
        assert self.in_flight is None, "a head is popped while another is in flight"
        entry = self._first() if self.consumed_usage is None else self._first_by_turns()
        if entry is not None:
            assert entry.bucket is not None
            self._take_out(entry, entry.bucket)
            self.in_flight = entry
        return entry

    def queue_inadmissible(self, welcome: Container[str]) -> None:
        """Make active all that is parked; strangers only if their namespace is ``welcome`` now."""
        self.requeues += 1
        self._blocked.clear()
        for lane in self._parked.values():
            lane.queue_inadmissible()
            self._offer(lane)
        self._parked.clear()
        for entry in [
            entry for entry in self.namespace_mismatched.values() if entry.key.namespace in welcome
        ]:
            del self.namespace_mismatched[entry.key]
            self.push(entry)

    def rank(self, entry: Entry) -> tuple[float, bool, QueueOrder]:
        """The place of ``entry`` in queue order: smaller goes first."""
        consumed_usage = 0.0 if self.consumed_usage is None else self.consumed_usage(entry.local_queue)
        return consumed_usage, entry is not self.sticky, entry.order

    def _first(self) -> Entry | None:
        if self.sticky is not None and self.sticky.bucket is not None and self.is_active(self.sticky):
            return self.sticky
        while self._heads:
            order, _, lane = self._heads[0]
            first = lane.ready.first()
            if first is not None and first.order == order:
                return first
            heappop(self._heads)
            if lane.offered == order:
                lane.offered = None
        return None

    def _first_by_turns(self) -> Entry | None:
        """The same where past use, which changes all the time, comes first: the best of all lanes."""
        firsts = [first for lane in self._lanes.values() if (first := lane.ready.first()) is not None]
        if self.sticky is not None and self.sticky.bucket is not None and self.is_active(self.sticky):
            firsts.append(self.sticky)
        return min(firsts, key=self.rank, default=None)

    def _lane_key(self, entry: Entry) -> ShapeQueueKey:
        return entry.shape, None if self.consumed_usage is None else entry.local_queue

    def _lane(self, entry: Entry) -> ShapeQueue:
        key = self._lane_key(entry)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = ShapeQueue(key)
        return lane

    def _take_out(self, entry: Entry, bucket: EntryHeap) -> None:
        bucket.discard(entry)
        key = self._lane_key(entry)
        lane = self._lanes[key]
        if not lane.parked.size:
            self._parked.pop(key, None)
        if lane.ready.size:
            self._offer(lane)
        elif not lane.parked.size:
            del self._lanes[key]

    def _offer(self, lane: ShapeQueue) -> None:
        """Keep an item for the first of ``lane`` among the heads."""
        first = lane.ready.first()
        if first is None or first.order == lane.offered:
            return
        lane.offered = first.order
        self._offers += 1
        heappush(self._heads, (first.order, self._offers, lane))
        if len(self._heads) > 2 * len(self._lanes) + self._SLACK:
            self._offer_anew()

    def _offer_anew(self) -> None:
        """Drop the stale items, which outnumber the live ones."""
        self._heads = []
        for lane in self._lanes.values():
            first = lane.ready.first()
            lane.offered = first.order if first is not None else None
            if first is not None:
                self._offers += 1
                self._heads.append((first.order, self._offers, lane))
        heapify(self._heads)
