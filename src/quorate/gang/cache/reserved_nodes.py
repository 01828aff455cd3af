"""The nodes that windows of Reservations keep, held while nodes are chosen for the gangs of others.

A gang of an owner may use them, and one that ends before the window begins, by the maximum execution time in
the label of all its pods.  The owners that are known here are namespaces and local queues, which pods name.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from quorate.api.meta import Key
from quorate.api.names.kueue import MAX_EXEC_TIME_SECONDS, QUEUE_NAME
from quorate.api.quorate import Reservation, reserved_nodes
from quorate.api.quorate.occurrences import Interval, Occurrences, occurrences
from quorate.api.syntax import positive_int32
from quorate.gang.cache.gang import Gang
from quorate.placement.cluster import Cluster
from quorate.placement.shapes import Shape

WINDOWS: Final = "windows"  # the owner of what is held


class _Window(NamedTuple):
    reservation: Reservation
    occurrences: Occurrences


class KeptNodes(NamedTuple):
    """The ``nodes`` that ``reservation`` keeps from others during ``interval``, its open or next window."""

    reservation: Reservation
    interval: Interval
    nodes: frozenset[str]


class ReservedNodes:
    """The nodes that windows keep at the time of a session; nothing is held outside of ``kept_from``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._windows: dict[str, _Window] = {}  # those with nodes
        self._kept: tuple[KeptNodes, ...] = ()
        self._now = 0.0

    def put(self, reservation: Reservation) -> None:
        if reservation.spec.nodes is None:
            self.remove(reservation.metadata.name)
        else:
            self._windows[reservation.metadata.name] = _Window(reservation, Occurrences(reservation.spec))

    def remove(self, name: str) -> None:
        self._windows.pop(name, None)

    def __bool__(self) -> bool:
        return bool(self._kept)

    def advance(self, now: float) -> bool:
        """Find the nodes that windows keep at ``now``; return True if windows kept other nodes before."""
        before, self._now = self._kept, now
        present = self._cluster.nodes if self._windows else ()
        nodes = [(node.metadata.name, node.metadata.labels) for node in present if node is not None]
        self._kept = tuple(
            KeptNodes(window.reservation, interval, reserved_nodes(window.reservation.spec.nodes, nodes))
            for _, window in sorted(self._windows.items())
            for interval in window.occurrences.at(now)[:1]
            if window.reservation.spec.nodes is not None
        )
        return self._kept != before

    @property
    def next_boundary(self) -> float | None:
        """When the next window begins or ends; None: there is none."""
        boundaries = (moment for kept in self._kept for moment in kept.interval if moment > self._now)
        return min(boundaries, default=None)

    @contextmanager
    def kept_from(self, gang: Gang) -> Iterator[None]:
        """Hold the nodes that ``gang`` may not use."""
        for name in sorted({name for kept in self.that_keep_from(gang) for name in kept.nodes}):
            index = self._cluster.index(name)
            if index is not None:
                allocatable = self._cluster.allocatable[:, index].tolist()
                amounts = dict(zip(self._cluster.resources, allocatable, strict=False))
                self._cluster.hold((WINDOWS, name), Shape(amounts=amounts), name, 1, WINDOWS)
        try:
            yield
        finally:
            self._cluster.release_all(WINDOWS)

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Keep no nodes from any gang."""
        kept, self._kept = self._kept, ()
        try:
            yield
        finally:
            self._kept = kept

    def closings(self) -> set[float]:
        """Return when the next windows end, epoch seconds; see ``occurrences`` for how many."""
        return {interval.closes for kept in self._kept for interval in self._intervals(kept)}

    def that_keep_from(self, gang: Gang, at: float | None = None) -> list[KeptNodes]:
        """Return the windows that keep nodes from ``gang``, the first to begin first.

        ``at``: when the gang starts, epoch seconds; None: now.
        """
        at = self._now if at is None else at
        ends = at + _bound_s(gang)
        keeping = [
            kept
            for kept in (self._kept if at == self._now else self._kept_at(at))
            if kept.nodes and kept.interval.opens < ends and not _owns(kept.reservation, gang)
        ]
        return sorted(keeping, key=lambda kept: (kept.interval, kept.reservation.metadata.name))

    def _kept_at(self, at: float) -> Iterator[KeptNodes]:
        """Yield the nodes that windows keep at a later time; none for an infinite time."""
        for kept in self._kept:
            intervals = self._intervals(kept)
            if (
                intervals[-1].closes <= at < math.inf
            ):  # perhaps there are more, which are not computed at once
                intervals = occurrences(kept.reservation.spec, at)
            interval = next((candidate for candidate in intervals if candidate.closes > at), None)
            if interval is not None:
                yield kept._replace(interval=interval)

    def _intervals(self, kept: KeptNodes) -> tuple[Interval, ...]:
        return self._windows[kept.reservation.metadata.name].occurrences.at(self._now)


def _labels(gang: Gang) -> list[Mapping[str, str]]:
    """Return the labels of each pod of the gang."""
    return [task.pod.metadata.labels for task in gang.tasks.values()]


def _bound_s(gang: Gang) -> float:
    """Return how long the pods of ``gang`` run at most; infinite: at least one does not tell.

    Before it has pods, its own label tells.
    """
    if not gang.tasks:
        maximum_s = gang.metadata.maximum_s
        return math.inf if maximum_s is None else maximum_s
    bounds = [positive_int32(labels.get(MAX_EXEC_TIME_SECONDS, "")) for labels in _labels(gang)]
    return max((math.inf if bound is None else float(bound) for bound in bounds), default=math.inf)


def _owns(reservation: Reservation, gang: Gang) -> bool:
    owners, namespace = reservation.spec.owners, gang.key.namespace
    queues = {labels.get(QUEUE_NAME, "") for labels in _labels(gang)}
    return namespace in owners.namespaces or any(
        Key(namespace, name) in owners.local_queues for name in queues or {gang.metadata.local_queue}
    )
