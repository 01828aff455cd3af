"""Which gangs wait only because windows of Reservations keep nodes from them.

After the actions of a session the gangs without nodes, of which windows keep some, are placed once more as if
no window kept any.  A gang that has nodes then waits for the first window to begin that keeps one of them.
All these placements are undone.
"""

from collections import defaultdict

from quorate.api.meta import Key
from quorate.gang import pending_reasons as r
from quorate.gang.actions.gang_placement import place_gangs
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reserved_nodes import KeptNodes
from quorate.gang.session.session import Session
from quorate.gang.topology_reasons import NetworkTopologyUnsatisfied


def report_windows(session: Session) -> None:
    """Set the reason of each gang that would have nodes if no window kept any."""
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
