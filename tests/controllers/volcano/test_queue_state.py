"""A queue that is closed drains first, and is open again when somebody opens it."""

import pytest

from quorate.controllers.volcano.queue_state import Protected, QueueAction, next_state


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
    with pytest.raises(Protected, match="queue root: cannot be closed"):
        next_state("root", "Open", "close", 0)
    assert next_state("root", "Closed", "open", 0) == "Open"
