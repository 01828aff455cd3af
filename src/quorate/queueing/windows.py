"""Windows: the quota and the nodes that Reservations keep, when, and for which workloads.

``scheduling.reserved_windows`` decides what may start beside them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from quorate.api.core.scheduling import Node
from quorate.api.meta import Key
from quorate.api.quorate import Reservation, reserved_nodes
from quorate.api.quorate.occurrences import Interval, Occurrences
from quorate.quota.amount import FlavorResource, base_units


class Window:
    """What one Reservation keeps, for which workloads, and when."""

    __slots__ = ("_cluster_queues", "_local_queues", "_namespaces", "_occurrences", "amounts", "name", "spec")

    def __init__(self, reservation: Reservation) -> None:
        self.name = reservation.metadata.name
        self.spec = reservation.spec
        self.amounts = {
            FlavorResource(amounts.flavor, resource): base_units(resource, quantity)
            for amounts in reservation.spec.amounts
            for resource, quantity in amounts.resources.items()
        }
        self._occurrences = Occurrences(reservation.spec)
        owners = reservation.spec.owners
        self._cluster_queues = frozenset(owners.cluster_queues)
        self._local_queues = frozenset(owners.local_queues)
        self._namespaces = frozenset(owners.namespaces)

    def occurrences(self, now: float) -> tuple[Interval, ...]:
        """Return the occurrences that end after ``now``, in order; see ``occurrences``."""
        return self._occurrences.at(now)

    def between(self, now: float, starts: float, ends: float) -> tuple[Interval, ...]:
        """Return, of the occurrences that end after ``now``, those between ``starts`` and ``ends``."""
        intervals = self._occurrences.at(now)
        first = bisect_right(intervals, starts, key=lambda interval: interval.closes)
        return intervals[first : bisect_left(intervals, ends, first, key=lambda interval: interval.opens)]

    def owns(self, local_queue: Key, cluster_queue: str) -> bool:
        """Return True if a workload of these queues may use what the window keeps."""
        return (
            cluster_queue in self._cluster_queues
            or local_queue in self._local_queues
            or local_queue.namespace in self._namespaces
        )


class KeptNodes(NamedTuple):
    """The nodes that a workload may not use, as it may run into a window that keeps them."""

    names: frozenset[str]
    window: Window  # the first to begin
    interval: Interval


class Windows:
    """The windows of all Reservations, by name."""

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}
        self._with_nodes: list[Window] = []
        self.keep_nodes = False  # a window keeps nodes
        self._nodes: dict[str, frozenset[str]] = {}  # by window, until a node or a window changes
        self._reached: float | None = None  # the last time that ``advance`` got
        self._starts_at: float | None = None  # when workloads would start that are evaluated; None: now

    def __iter__(self) -> Iterator[Window]:
        return iter(self._windows.values())

    def __bool__(self) -> bool:
        return bool(self._windows)

    def get(self, name: str) -> Window | None:
        return self._windows.get(name)

    def put(self, reservation: Reservation) -> bool:
        """Add or replace a window; return True if it differs from the former window."""
        stored = self._windows.get(reservation.metadata.name)
        if stored is not None and stored.spec == reservation.spec:
            return False
        self._windows[reservation.metadata.name] = Window(reservation)
        self._changed()
        return True

    def remove(self, name: str) -> bool:
        """Remove a window; return True if there was one."""
        if self._windows.pop(name, None) is None:
            return False
        self._changed()
        return True

    def _changed(self) -> None:
        self._with_nodes = [window for window in self if window.spec.nodes is not None]
        self.keep_nodes = bool(self._with_nodes)
        self.nodes_changed()

    def nodes_changed(self) -> None:
        """Forget which nodes are kept: a node has changed."""
        self._nodes.clear()

    def nodes_of(self, window: Window, nodes: Mapping[str, Node]) -> frozenset[str]:
        """Return the names of the nodes of a window, given all nodes by name."""
        if window.spec.nodes is None:
            return frozenset()
        if window.name not in self._nodes:
            labels = ((name, node.metadata.labels) for name, node in nodes.items())
            self._nodes[window.name] = reserved_nodes(window.spec.nodes, labels)
        return self._nodes[window.name]

    @contextmanager
    def starting_at(self, at: float) -> Iterator[None]:
        """Keep nodes as from workloads that start at a time, now or later."""
        self._starts_at = at
        try:
            yield
        finally:
            self._starts_at = None

    def kept_nodes(
        self, local_queue: Key, cluster_queue: str, now: float, bound_s: float, nodes: Mapping[str, Node]
    ) -> KeptNodes | None:
        """Return the nodes that a workload of these queues may not use, which runs for ``bound_s`` at most.

        It starts at ``now``, or later; see ``starting_at``.  None: it may use all nodes.
        """
        starts = now if self._starts_at is None else self._starts_at
        opening: list[tuple[Interval, Window]] = []
        for window in self._with_nodes:
            if not window.owns(local_queue, cluster_queue):
                reached = window.between(now, starts, starts + bound_s)
                opening += [(interval, window) for interval in reached[:1]]
        if not opening:
            return None
        interval, first = min(opening, key=lambda pair: (pair[0], pair[1].name))
        names = frozenset().union(*(self.nodes_of(window, nodes) for _, window in opening))
        return KeptNodes(names, first, interval) if names else None

    def advance(self, now: float) -> bool:
        """Return True if a window has begun or ended since the last call."""
        reached, self._reached = self._reached, now
        if reached is None or reached >= now:
            return False
        return any(
            reached < boundary <= now
            for window in self
            for interval in window.occurrences(reached)
            for boundary in interval
        )

    def next_boundary(self, now: float) -> float | None:
        """Return when the next window begins or ends; None: there is none."""
        boundaries = (
            boundary
            for window in self
            for interval in window.occurrences(now)[:1]
            for boundary in interval
            if boundary > now
        )
        return min(boundaries, default=None)
