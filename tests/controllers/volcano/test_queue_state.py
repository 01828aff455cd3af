"""A queue that is closed drains first, and is open again when somebody opens it."""

import pytest

from quorate.api.meta import ObjectMeta
from quorate.api.volcano import Queue, QueueSpec, QueueStatus
from quorate.controllers.volcano.queue_state import QueueAction, RootQueueCannotClose, decide, next_state


@pytest.mark.parametrize(
    ("state", "action", "pod_groups", "want"),
    [
        pytest.param("", "sync", 0, "Open", id="a new queue is open"),
        pytest.param("", "sync", 3, "Open", id="whatever is in it"),
        pytest.param("Open", "sync", 2, "Open", id="an open queue stays open"),
        pytest.param("Open", "close", 2, "Closing", id="one with groups drains"),
        pytest.param("", "close", 0, "Closed", id="one without is closed at once"),
        pytest.param("Closing", "sync", 1, "Closing", id="draining goes on"),
        pytest.param("Closing", "sync", 0, "Closed", id="until the last is gone"),
        pytest.param("Closed", "sync", 0, "Closed", id="closed stays closed"),
        pytest.param("Closed", "sync", 1, "Closing", id="one that gets a group after all drains"),
        pytest.param("Closing", "open", 1, "Open", id="draining may be called off"),
        pytest.param("Closed", "open", 0, "Open", id="and closing be undone"),
        pytest.param("Strange", "sync", 0, "Unknown", id="what is none of these is unknown"),
        pytest.param("Unknown", "open", 0, "Open", id="and can be opened"),
    ],
)
def test_next_state(state: str, action: QueueAction, pod_groups: int, want: str) -> None:
    assert next_state("research", state, action, pod_groups) == want


def test_the_root_is_never_closed() -> None:
    with pytest.raises(RootQueueCannotClose, match="queue root: cannot be closed"):
        next_state("root", "Open", "close", 0)
    assert next_state("root", "Closed", "open", 0) == "Open"


def a_queue(name: str, state: str, *, parent: str = "root", mark: str = "") -> Queue:
    annotations = {"volcano.sh/closed-by-parent": mark} if mark else {}
    return Queue(
        metadata=ObjectMeta(name=name, annotations=annotations),
        spec=QueueSpec(parent=parent),
        status=QueueStatus(state=state),
    )


@pytest.mark.parametrize(
    ("state", "mark", "parent_state", "command", "want"),
    [
        pytest.param("Open", "", "Closed", "", "Closed true", id="below a closed queue all are closed"),
        pytest.param("Open", "", "Closing", "", "Closed true", id="also while that one drains"),
        pytest.param("Closed", "true", "Closed", "", "Closed", id="and stay so"),
        pytest.param(
            "Closed", "true", "Open", "", "Open false", id="who closed with its parent opens with it"
        ),
        pytest.param("Closed", "", "Open", "", "Closed", id="who was closed by hand does not"),
        pytest.param("Closed", "true", "Closed", "CloseQueue", "Closed false", id="closed by hand as well"),
        pytest.param("Open", "", "Open", "CloseQueue", "Closed", id="by a command"),
        pytest.param("Closed", "", "Open", "OpenQueue", "Open", id="and opened by one"),
        pytest.param("Open", "", "Open", "Dance", "Open", id="a command that is none"),
        pytest.param("Closed", "", "Closed", "OpenQueue", "Closed true", id="below a closed one it waits"),
        pytest.param("Open", "", "Closing", "OpenQueue", "Closed true", id="nor stays open by a command"),
    ],
)
def test_closing_goes_down_and_opening_undoes_it(
    state: str, mark: str, parent_state: str, command: str, want: str
) -> None:
    parent = a_queue("research", parent_state)
    plan = decide(a_queue("vision", state, parent="research", mark=mark), parent, {}, command)
    assert " ".join([plan.status.state, *plan.annotations.values()]) == want


def test_groups_are_counted_by_phase_and_a_new_one_is_pending() -> None:
    phases = {"": 1, "Pending": 2, "Inqueue": 3, "Running": 4, "Unknown": 5, "Completed": 6}
    status = decide(a_queue("vision", "Open"), None, phases).status
    counts = (status.pending, status.inqueue, status.running, status.unknown, status.completed)
    assert counts == (3, 3, 4, 5, 6)


def test_a_queue_without_parent_is_below_the_root_and_only_the_root_is_not() -> None:
    assert decide(a_queue("vision", "", parent=""), None, {}).parent == "root"
    assert decide(a_queue("vision", "", parent="research"), None, {}).parent == ""
    assert decide(a_queue("root", "", parent=""), None, {}).parent == ""


def test_that_a_queue_below_a_closed_one_waits_for_that_is_told() -> None:
    parent = a_queue("research", "Closed")
    (event,) = decide(a_queue("vision", "Closed", parent="research"), parent, {}, "OpenQueue").events
    assert event.message == "queue vision opens when its parent queue research does (open that one first)"


def test_that_the_root_may_not_be_closed_is_told() -> None:
    plan = decide(a_queue("root", "Open", parent=""), None, {}, "CloseQueue")
    assert plan.status.state == "Open"
    assert [(event.type, event.reason) for event in plan.events] == [("Warning", "CloseQueue")]
