"""The reason of PodScheduled: autoscalers add nodes for Unschedulable only."""

import pytest

from quorate.gang.verdicts import (
    AwaitsRoom,
    GangUnschedulable,
    NotEnoughResources,
    NotEnoughTasks,
    QueueNotOpen,
    Verdict,
)
from quorate.scheduler.pod_conditions import reason_of


@pytest.mark.parametrize(
    ("verdict", "want"),
    [
        (NotEnoughResources(()), "Unschedulable"),
        (GangUnschedulable(1, 2, "0/1 nodes are available"), "Unschedulable"),
        (AwaitsRoom(nodes=2, leaving=1), "Schedulable"),
        (NotEnoughTasks(1, 2), "NotEnoughTasks"),
        (QueueNotOpen("q"), "QueueNotOpen"),
    ],
)
def test_only_a_shortage_of_nodes_is_unschedulable(verdict: Verdict, want: str) -> None:
    assert reason_of(verdict) == want
