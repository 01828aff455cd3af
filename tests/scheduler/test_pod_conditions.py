"""The reason of PodScheduled: autoscalers add nodes for Unschedulable only."""

import pytest

from quorate.gang.pending_reasons import (
    AwaitsEvictions,
    Cause,
    GangUnschedulable,
    NotEnoughResources,
    NotEnoughTasks,
    PendingReason,
    QueueNotOpen,
    ReservedWindow,
)
from quorate.scheduler.pod_conditions import reason_of


@pytest.mark.parametrize(
    ("pending_reason", "want"),
    [
        (NotEnoughResources(()), "Unschedulable"),
        (GangUnschedulable(1, 2, Cause("0/1 nodes are available")), "Unschedulable"),
        (AwaitsEvictions(nodes=2, leaving=1), "Schedulable"),
        (NotEnoughTasks(1, 2), "NotEnoughTasks"),
        (QueueNotOpen("q"), "QueueNotOpen"),
        (ReservedWindow("night", 0.0, 60.0, 1, 1, 2), "ReservedWindow"),
    ],
)
def test_only_a_shortage_of_nodes_is_unschedulable(pending_reason: PendingReason, want: str) -> None:
    assert reason_of(pending_reason) == want
