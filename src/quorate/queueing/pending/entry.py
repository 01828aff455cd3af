"""A pending workload with the results of its last evaluation, and the heap of workloads of one shape.

Removal from a heap is lazy: an item is valid only while its entry refers to the heap and the ticket of the
item.  Stale items are dropped when they reach the top, or when they outnumber the valid ones; O(log n)
amortized.
"""

from collections.abc import Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import Final

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.queueing.decisions import Hold
from quorate.queueing.inadmissible_reasons import PodSetReason
from quorate.queueing.pending.ordering import QueueOrder
from quorate.queueing.pending.shape import Shape


class RequeueReason(Enum):
    """Why a head was not admitted, as far as this decides when it is tried again."""

    FAILED_AFTER_NOMINATION = "an earlier head of the round took the quota"
    PENDING_PREEMPTION = "its preemption targets are being evicted"
    NO_FIT = "no flavor fits"
    NO_CANDIDATES = "only preemption could help, and there are no candidates"
    RESERVED = "what it needs is kept for an earlier workload"
    AWAITING_PODS_READY = "a workload with pods of the same flavor is not ready"
    NAMESPACE_MISMATCH = "the namespace selector of the cluster queue does not match"
    FAULT = "an internal error concerns it"
    GENERIC = "any other reason"

    def is_immediate(self, *, strict: bool) -> bool:
        """Return True if it is tried again at once; with StrictFIFO a head blocks the workloads after it."""
        if strict:
            return self not in (RequeueReason.NAMESPACE_MISMATCH, RequeueReason.FAULT)
        return self in (RequeueReason.FAILED_AFTER_NOMINATION, RequeueReason.PENDING_PREEMPTION)

    @property
    def holds_for_shape(self) -> bool:
        """Return True if every workload of the same shape would have the same outcome."""
        return self in (RequeueReason.NO_FIT, RequeueReason.NO_CANDIDATES, RequeueReason.AWAITING_PODS_READY)


class LastAssignment(msgspec.Struct, frozen=True):
    """Where the next search for flavors resumes: per pod set and resource the last flavor tried.

    An index of -1 means that all flavors were tried, so the next search begins at the first.
    """

    last_tried_flavors: tuple[dict[str, int], ...]
    shape: Shape
    round_number: int  # of the round that recorded it
    generation: int  # of the cluster queue at that time, see ``Ledger.generation``
    version: int  # of the tree when the search tried its first flavor, see ``Ledger.version``
    progress: int  # of all trees at that time, see ``Ledger.progress``
    rounds: int  # of the search, this one included
    has_lost: bool = False  # another head took the quota or the places that the search had found
    reasons: tuple[PodSetReason, ...] = ()  # of the flavors that the search has tried

    @property
    def has_untried_flavors(self) -> bool:
        for pod_set in self.last_tried_flavors:  # for each decision: a generator would cost more
            for index in pod_set.values():
                if index != -1:
                    return True
        return False


class PreemptingAssignment(msgspec.Struct, frozen=True):
    """The assignment for which the preemption targets of a workload are being evicted."""

    counts: tuple[int, ...]  # pods per pod set
    borrowing_level: int


class Entry:
    """A pending workload."""

    __slots__ = (
        "arrival",
        "cluster_queue",
        "heap",
        "hold",
        "is_explained",
        "key",
        "last_assignment",
        "order",
        "preempting_assignment",
        "requests_version",
        "shape",
        "ticket",
        "workload",
    )

    def __init__(self, workload: Workload, shape: Shape, order: QueueOrder, arrival: int = 0) -> None:
        self.key = workload.metadata.key
        self.workload = workload
        self.shape = shape
        self.requests_version = 0  # of the shape, see ``ShapeRegistry.version``
        self.order = order
        self.arrival = arrival  # how many entries were queued before it: stored times are whole seconds
        self.heap: EntryHeap | None = None  # None unless it is in a shape queue
        self.ticket = 0  # of its item in ``heap``
        self.cluster_queue = ""  # empty while its queues are missing or stopped
        self.last_assignment: LastAssignment | None = None
        self.preempting_assignment: PreemptingAssignment | None = None
        self.hold: Hold | None = None  # the outcome of its own last evaluation
        self.is_explained = (
            False  # an outcome, its own or that of its shape, was reported since it was queued
        )

    @property
    def local_queue(self) -> Key:
        return Key(self.workload.metadata.namespace, self.workload.spec.queue_name)


class EntryHeap:
    """Workloads of one shape in queue order."""

    __slots__ = ("_items", "_last_ticket", "size")
    _SLACK: Final = 32

    def __init__(self) -> None:
        # Tickets are unique: a workload that left and came back may find its stale item.
        self._items: list[tuple[QueueOrder, int, Entry]] = []
        self._last_ticket = 0
        self.size = 0  # number of valid items

    def add(self, entry: Entry) -> None:
        assert entry.heap is None, f"{entry.key} is queued twice"
        self._last_ticket += 1
        entry.ticket = self._last_ticket
        entry.heap = self
        self.size += 1
        heappush(self._items, (entry.order, entry.ticket, entry))

    def discard(self, entry: Entry) -> None:
        assert entry.heap is self, f"{entry.key} is not in this heap"
        entry.heap = None
        self.size -= 1
        if len(self._items) > 2 * self.size + self._SLACK:
            self._items = sorted(item for item in self._items if self._is_valid(item))

    def first(self) -> Entry | None:
        while self._items:
            _, ticket, entry = self._items[0]
            if entry.heap is self and entry.ticket == ticket:  # as ``_is_valid``, for each decision
                return entry
            heappop(self._items)
        return None

    def take_all(self, other: "EntryHeap") -> None:
        """Move all entries of ``other`` to this heap."""
        for item in other._items:
            if other._is_valid(item):
                item[2].heap = None
                self.add(item[2])
        other._items, other.size = [], 0

    def __iter__(self) -> Iterator[Entry]:
        return (item[2] for item in self._items if self._is_valid(item))

    def _is_valid(self, item: tuple[QueueOrder, int, Entry]) -> bool:
        return item[2].heap is self and item[2].ticket == item[1]
