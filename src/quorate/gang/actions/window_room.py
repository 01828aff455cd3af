"""Whether a waiting group has room on nodes that no window of a Reservation keeps from it.

The action ``enqueue`` admits no group for room that it may not use: its pods would be created, and wait until
the window ends.  Admitted groups that may use the nodes of the window are expected there first.  A group that
is overdue (plugin ``sla``) is admitted without room, as it is without windows.  ``report_windows`` says so of
admitted gangs, too.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from quorate.api.meta import Key
from quorate.gang import pending_reasons as r
from quorate.gang.actions.gang_placement import place_gangs
from quorate.gang.actions.member_room import MemberRoom
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reservations import node_claim_of
from quorate.gang.cache.reserved_nodes import KeptNodes
from quorate.gang.session.session import Session
from quorate.gang.topology_reasons import NetworkTopologyUnsatisfied
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

    def refusal(self, gang: Gang, keeping: Keeping, *, is_short: bool) -> r.ReservedWindow | None:
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
        return r.ReservedWindow(name, *keeping[0].interval, len(nodes), missing, gang.min_member)

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


def report_windows(session: Session) -> None:
    """Set the reason of each gang that would have nodes if no window kept any.

    After the actions of a session the gangs without nodes, of which windows keep some, are placed once more
    as if no window kept any.  A gang that has nodes then waits for the first window to begin that keeps one
    of them. All these placements are undone.
    """
    windows = session.model.reserved_nodes
    if not windows or "allocate" not in session.settings.actions:
        return
    kept_from = {
        gang: kept
        for gang in session.gangs
        if _found_no_nodes(session.pending_reasons.get(gang.key)) and (kept := windows.that_keep_from(gang))
    }
    for key, nodes in _nodes_without_windows(session, list(kept_from)).items():
        gang = session.model.gangs[key]
        reason = session.pending_reasons[key]
        window = _window(gang, reason, kept_from[gang], nodes)
        if isinstance(reason, r.FurtherMembersWait):
            session.report_further_members(gang, r.Cause(window.window))
        else:
            session.pending_reasons[key] = window


def _found_no_nodes(reason: r.PendingReason | None) -> bool:
    return isinstance(reason, r.GangUnschedulable | NetworkTopologyUnsatisfied | r.FurtherMembersWait)


def _nodes_without_windows(session: Session, gangs: list[Gang]) -> dict[Key, set[str]]:
    """Return the nodes of the members that would have some."""
    nodes: dict[Key, set[str]] = defaultdict(set)
    if gangs:
        with session.rehearsal() as moves, session.model.reserved_nodes.ignored():
            place_gangs(session, gangs)
            for move in moves:
                nodes[move.task.gang].add(move.to_node)
    return nodes


def _window(
    gang: Gang, reason: r.PendingReason, keeping: list[KeptNodes], nodes: set[str]
) -> r.ReservedWindow:
    first = next((kept for kept in keeping if kept.nodes & nodes), keeping[0])
    reserved = nodes & {name for kept in keeping for name in kept.nodes}
    missing = gang.missing_members(with_best_effort=False)
    if isinstance(reason, r.GangUnschedulable):
        missing = reason.missing
    name = first.reservation.metadata.name
    return r.ReservedWindow(name, *first.interval, len(reserved), missing, gang.min_member)
