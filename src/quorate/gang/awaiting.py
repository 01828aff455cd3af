"""What gangs wait for whose members were promised nodes: for others to leave these."""

from quorate.gang.session import Session
from quorate.gang.task import Standing
from quorate.gang.verdicts import AwaitsRoom
from quorate.placement.cluster import AllocationState


def note_awaited(session: Session) -> None:
    """Have each gang that holds promises say so, and no longer why it found no node before that."""
    for gang in session.promised_gangs:
        nodes = {task.node for task in gang.with_standing(Standing.PIPELINED, Standing.ALLOCATED)}
        leaving = sum(_leaving(session, node) for node in nodes)
        session.verdicts[gang.key] = AwaitsRoom(len(nodes), leaving)


def _leaving(session: Session, node: str) -> int:
    index = session.cluster.index(node)
    assert index is not None, f"{node} was promised and is not there"
    residents = session.cluster.pod_counts(index)
    return sum(count for (_, hold), count in residents.items() if hold is AllocationState.RELEASING)
