"""Whether a waiting group has room on nodes that no window of a Reservation keeps from it.

The action ``enqueue`` admits no group for room that it may not use: its pods would be created, and wait until
the window ends.  Admitted groups that may use the nodes of the window are expected there first.  A group that
is overdue (plugin ``sla``) is admitted without room, as it is without windows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from quorate.gang.actions.member_room import MemberRoom
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reservations import node_claim_of
from quorate.gang.cache.reserved_nodes import KeptNodes
from quorate.gang.pending_reasons import ReservedWindow
from quorate.gang.session.session import Session
from quorate.placement.cluster import Cluster
from quorate.placement.vectors import Vector, np

Keeping = Sequence[KeptNodes]


class WindowRoom:
    """What windows keep from groups, beside the claims of admitted groups."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._windows = session.model.reserved_nodes
        self._charged: list[Gang] = []

    def charge(self, gang: Gang) -> None:
        """Count the claims of ``gang``, which is admitted."""
        if self._windows:
            self._charged.append(gang)

    def keeping(self, gang: Gang) -> Keeping:
        """Return the windows that keep nodes from ``gang``, which waits; none from one that needs no room."""
        if not self._windows or gang.min_resources is None or self._session.is_overdue(gang):
            return ()
        return self._windows.that_keep_from(gang)

    def kept(self, keeping: Keeping) -> Mapping[str, int]:
        """Return what is idle on the nodes of windows beyond the claims of the groups that may use these."""
        cluster, index = self._session.cluster, self.nodes(keeping)
        factor = self._session.settings.enqueue.idle_factor
        capacity = cluster.allocatable[:, index] * factor.numerator // factor.denominator
        idle = np.maximum(capacity - cluster.used[:, index] + cluster.releasing[:, index], 0).sum(axis=1)
        kept = Counter({resource: int(idle[row]) for resource, row in cluster.rows.items()})
        names = {kept_nodes.reservation.metadata.name for kept_nodes in keeping}
        for gang in self._charged:
            from_it = self._windows.that_keep_from(gang)
            if names.isdisjoint(kept_nodes.reservation.metadata.name for kept_nodes in from_it):
                kept.subtract(node_claim_of(gang))
        return {resource: amount for resource, amount in kept.items() if amount > 0}

    def refusal(self, gang: Gang, keeping: Keeping, *, is_short: bool) -> ReservedWindow | None:
        """Return the window that ``gang`` has to wait for; None: it has room on other nodes.

        ``is_short``: whether these have too little for its ``minResources``.
        """
        nodes = self.nodes(keeping)
        factor = self._session.settings.enqueue.idle_factor
        short = MemberRoom(self._session.cluster, factor, within=self.beside(keeping)).check(gang)
        if short is None and not is_short:
            return None
        missing = gang.min_member if short is None else short.members - short.fitting
        name = keeping[0].reservation.metadata.name
        return ReservedWindow(name, *keeping[0].interval, len(nodes), missing, gang.min_member)

    def beside(self, keeping: Keeping) -> Vector:
        """Return the indexes of the nodes that none of ``keeping`` keeps."""
        return np.setdiff1d(np.arange(self._session.cluster.size), self.nodes(keeping))

    def nodes(self, keeping: Keeping) -> list[int]:
        """Return the indexes of the ready nodes of windows."""
        return ready_nodes(self._session.cluster, keeping)


def ready_nodes(cluster: Cluster, keeping: Keeping) -> list[int]:
    """Return the indexes of the ready nodes that windows keep."""
    rows = (cluster.index(name) for name in {name for kept in keeping for name in kept.nodes})
    return sorted(index for index in rows if index is not None and cluster.ready[index])
