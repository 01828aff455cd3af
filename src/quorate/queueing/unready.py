"""The workloads that hold quota and are not ready, and whom they hold back.

With ``blockAdmission`` these keep others from being admitted: all of them, or only those that were to get
some of a flavor of which an unready one holds some.  The latter is enough to keep two workloads from each
holding half of the pods' room: pods of different flavors do not run on the same nodes.  Who is held back in
one flavor tries the next one that its queue offers.
"""

from collections.abc import Iterable, Iterator

from quorate.api.meta import Key
from quorate.queueing.causes import AwaitingPodsReady
from quorate.queueing.queues import ClusterQueueState, Reservation


class Unready:
    """See the module."""

    def __init__(self) -> None:
        self._all: dict[Key, None] = {}  # in the order in which they took quota, or lost a pod
        self._holding: dict[str, dict[Key, None]] = {}  # by flavor, those that hold some of it; none empty
        self._held_back: dict[str, dict[ClusterQueueState, None]] = {}  # by flavor, whose heads wait for it

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._all)

    def add(self, reservation: Reservation) -> None:
        self._all[reservation.key] = None
        for flavor in _flavors(reservation):
            self._holding.setdefault(flavor, {})[reservation.key] = None

    def discard(self, reservation: Reservation) -> tuple[ClusterQueueState, ...]:
        """Forget one that is ready, or gone; the queues whose heads nobody holds back any more."""
        if reservation.key not in self._all:
            return ()
        del self._all[reservation.key]
        freed: dict[ClusterQueueState, None] = {}
        for flavor in _flavors(reservation):
            holding = self._holding[flavor]
            del holding[reservation.key]
            if not holding:
                del self._holding[flavor]
                freed |= self._held_back.pop(flavor, {})
        return tuple(freed)

    def first(self) -> Key:
        """Any one; there must be one."""
        return next(iter(self._all))

    def awaited(self, flavors: Iterable[str]) -> AwaitingPodsReady | None:
        """Who must be ready first, holding some of the first by name of ``flavors`` that anybody holds."""
        for flavor in sorted(set(flavors)):
            if flavor in self._holding:
                return AwaitingPodsReady(next(iter(self._holding[flavor])), flavor)
        return None

    def hold_back(self, queue: ClusterQueueState, flavor: str) -> None:
        """Remember that ``discard`` must name ``queue`` once nobody unready holds any of ``flavor``."""
        self._held_back.setdefault(flavor, {})[queue] = None


def _flavors(reservation: Reservation) -> list[str]:
    return sorted({pair.flavor for pair in reservation.usage})
