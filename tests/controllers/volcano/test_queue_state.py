"""Queue states: a queue drains before it is closed; child queues follow their parent."""

import pytest

from quorate.api.meta import ObjectMeta
from quorate.api.volcano import Queue, QueueSpec, QueueStatus
from quorate.controllers.volcano.queue_controller import QueueAction, RootQueueCannotClose, decide, next_state


@pytest.mark.parametrize(
    ("state", "action", "pod_groups", "want"),
    [
        pytest.param("", "sync", 0, "Open", id="a new queue is open"),
        pytest.param("", "sync", 3, "Open", id="a new queue with pod groups is open"),
        pytest.param("Open", "sync", 2, "Open", id="an open queue stays open"),
        pytest.param("Open", "close", 2, "Closing", id="with pod groups: closing"),
        pytest.param("", "close", 0, "Closed", id="without pod groups: closed"),
        pytest.param("Closing", "sync", 1, "Closing", id="closing with a pod group left"),
        pytest.param("Closing", "sync", 0, "Closed", id="closing without pod groups: closed"),
        pytest.param("Closed", "sync", 0, "Closed", id="closed stays closed"),
        pytest.param("Closed", "sync", 1, "Closing", id="closed with a new pod group: closing"),
        pytest.param("Closing", "open", 1, "Open", id="open while closing"),
        pytest.param("Closed", "open", 0, "Open", id="open a closed queue"),
        pytest.param("Strange", "sync", 0, "Unknown", id="unknown state"),
        pytest.param("Unknown", "open", 0, "Open", id="open a queue in state Unknown"),
    ],
)
def test_next_state(state: str, action: QueueAction, pod_groups: int, want: str) -> None:
    assert next_state("research", state, action, pod_groups) == want


def test_the_root_queue_cannot_close() -> None:
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
        pytest.param("Open", "", "Closed", "", "Closed true", id="parent closed: child closes"),
        pytest.param("Open", "", "Closing", "", "Closed true", id="parent closing: child closes"),
        pytest.param("Closed", "true", "Closed", "", "Closed", id="parent closed: child stays closed"),
        pytest.param("Closed", "true", "Open", "", "Open false", id="parent open: marked child opens"),
        pytest.param("Closed", "", "Open", "", "Closed", id="parent open: unmarked child stays closed"),
        pytest.param(
            "Closed", "true", "Closed", "CloseQueue", "Closed false", id="CloseQueue removes the mark"
        ),
        pytest.param("Open", "", "Open", "CloseQueue", "Closed", id="CloseQueue"),
        pytest.param("Closed", "", "Open", "OpenQueue", "Open", id="OpenQueue"),
        pytest.param("Open", "", "Open", "Dance", "Open", id="unknown command"),
        pytest.param(
            "Closed", "", "Closed", "OpenQueue", "Closed true", id="OpenQueue below a closed parent marks"
        ),
        pytest.param(
            "Open", "", "Closing", "OpenQueue", "Closed true", id="OpenQueue below a closing parent marks"
        ),
    ],
)
def test_child_queues_close_and_open_with_their_parent(
    state: str, mark: str, parent_state: str, command: str, want: str
) -> None:
    parent = a_queue("research", parent_state)
    plan = decide(a_queue("vision", state, parent="research", mark=mark), parent, {}, command)
    assert " ".join([plan.status.state, *plan.annotations.values()]) == want


def test_pod_groups_are_counted_by_phase_and_new_ones_are_pending() -> None:
    phases = {"": 1, "Pending": 2, "Inqueue": 3, "Running": 4, "Unknown": 5, "Completed": 6}
    status = decide(a_queue("vision", "Open"), None, phases).status
    counts = (status.pending, status.inqueue, status.running, status.unknown, status.completed)
    assert counts == (3, 3, 4, 5, 6)


def test_a_queue_without_parent_gets_the_root_queue_as_parent() -> None:
    assert decide(a_queue("vision", "", parent=""), None, {}).parent == "root"
    assert decide(a_queue("vision", "", parent="research"), None, {}).parent == ""
    assert decide(a_queue("root", "", parent=""), None, {}).parent == ""


def test_opening_a_queue_below_a_closed_parent_is_an_event() -> None:
    parent = a_queue("research", "Closed")
    (event,) = decide(a_queue("vision", "Closed", parent="research"), parent, {}, "OpenQueue").events
    assert event.message == "queue vision opens when its parent queue research does (open that one first)"


def test_closing_the_root_queue_is_a_warning_event() -> None:
    plan = decide(a_queue("root", "Open", parent=""), None, {}, "CloseQueue")
    assert plan.status.state == "Open"
    assert [(event.type, event.reason) for event in plan.events] == [("Warning", "CloseQueue")]
