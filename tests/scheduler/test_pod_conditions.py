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
from quorate.scheduler.limits import CONDITION_REPEATED_S, CONDITION_REWORDED_S
from quorate.scheduler.pod_conditions import GangCondition, reason_of, write_at


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


def says(message: str, at: float, reason: str = "Unschedulable", pending: int = 2) -> GangCondition:
    return GangCondition(reason, message, pending, at)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, says("a", 3), 3, id="the first condition is written at once"),
        pytest.param(says("a", 0), says("a", 300), None, id="the same text is not written again"),
        pytest.param(says("a", 0), says("a", 3, reason="QueueNotOpen"), 3, id="nor does a new reason wait"),
        pytest.param(says("a", 0), says("a", 3, pending=3), 3, id="nor a new pod"),
        pytest.param(says("1 of 2", 0), says("2 of 2", 3), CONDITION_REPEATED_S, id="other numbers wait"),
        pytest.param(says('for "a"', 0), says('for "b"', 3), CONDITION_REPEATED_S, id="so do other names"),
        pytest.param(says("1 of 2", 0), says("2 of 2", 300), 300, id="but not after a while"),
        pytest.param(
            says("1 of 2", 60), says("2 of 2", 9), 60, id="a write that is due has the newest numbers"
        ),
        pytest.param(
            says("1 claim", 0), says("1 node", 3), CONDITION_REWORDED_S, id="another text waits less"
        ),
        pytest.param(says("a", 0), says("b", 9), 9, id="and is written at once after that"),
    ],
)
def test_when_a_condition_is_written_again(
    old: GangCondition | None, new: GangCondition, want: float | None
) -> None:
    assert write_at(old, new) == want
