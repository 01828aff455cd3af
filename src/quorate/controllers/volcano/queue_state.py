"""The states of a Volcano queue (open, closing, closed) and of its child queues.

Source: Volcano's queue controller (v1.15).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec.structs import replace

from quorate.api.volcano import (
    CLOSED,
    CLOSING,
    COMPLETED,
    INQUEUE,
    OPEN,
    PENDING,
    ROOT_QUEUE,
    RUNNING,
    UNKNOWN,
    Queue,
    QueueStatus,
)
from quorate.queueing.lifecycle.transition import Event

QueueAction = Literal["sync", "open", "close"]
ACTIONS: Final[Mapping[str, QueueAction]] = {"OpenQueue": "open", "CloseQueue": "close"}  # of commands
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"  # an annotation of queues, "true" or "false"


class RootQueueCannotClose(Exception):
    """The root queue cannot be closed: no queue below it could be open."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue

    def __str__(self) -> str:
        return f"queue {self.queue}: cannot be closed (close its child queues)"


def next_state(queue: str, state: str, action: QueueAction, pod_groups: int) -> str:
    """Return the state of ``queue`` after ``action``, given the number of pod groups in it.

    Raises ``RootQueueCannotClose``.
    """
    match action:
        case "open":
            return OPEN
        case "close":
            if queue == ROOT_QUEUE:
                raise RootQueueCannotClose(queue)
            return CLOSING if pod_groups else CLOSED
        case "sync":
            return _synced_state(state, pod_groups)


def _synced_state(state: str, pod_groups: int) -> str:
    if state in ("", OPEN):
        return OPEN
    if state in (CLOSING, CLOSED):
        return CLOSING if pod_groups else CLOSED
    return UNKNOWN


@dataclass(frozen=True, slots=True)
class QueuePlan:
    status: QueueStatus
    annotations: Mapping[str, str] = field(default_factory=dict)  # to set
    parent: str = ""  # to set; empty: it does not change
    events: tuple[Event, ...] = ()


def decide(queue: Queue, parent: Queue | None, phases: Mapping[str, int], command: str = "") -> QueuePlan:
    """Return the plan for a queue, given its pod groups by phase and a command's action.

    All queues below a closed queue are closed and marked with the closed-by-parent annotation; marked queues
    open again with their parent.  A queue that a command closes loses the mark and stays closed.  A queue
    that a command opens while its parent is closed is marked instead.
    """
    action, marks = _action(queue, parent, command)
    name, state = queue.metadata.name, queue.status.state
    events: tuple[Event, ...] = ()
    try:
        after = next_state(name, state, action, sum(phases.values()))
    except RootQueueCannotClose as refusal:
        after, events = state or OPEN, (Event("Warning", "CloseQueue", str(refusal)),)
    if command == "OpenQueue" and action != "open":
        text = f"queue {name} opens when its parent queue {queue.spec.parent} does (open that one first)"
        events = (Event("Warning", "OpenQueue", text),)
    elif action != "sync" and after != state:
        reason = "OpenQueue" if action == "open" else "CloseQueue"
        events = (Event("Normal", reason, f"queue {name} is {after}"),)
    status = replace(
        queue.status,
        state=after,
        pending=phases.get(PENDING, 0) + phases.get("", 0),
        inqueue=phases.get(INQUEUE, 0),
        running=phases.get(RUNNING, 0),
        unknown=phases.get(UNKNOWN, 0),
        completed=phases.get(COMPLETED, 0),
    )
    stored = queue.metadata.annotations
    changed = {key: value for key, value in marks.items() if stored.get(key, "false") != value}
    has_no_parent = not queue.spec.parent and name != ROOT_QUEUE
    return QueuePlan(status, changed, ROOT_QUEUE if has_no_parent else "", events)


def _action(queue: Queue, parent: Queue | None, command: str) -> tuple[QueueAction, Mapping[str, str]]:
    """Return the action on the queue, and its closed-by-parent annotation afterwards."""
    action = ACTIONS.get(command, "sync")
    parent_closed = parent is not None and parent.status.state in (CLOSED, CLOSING)
    if parent_closed and action != "close" and queue.status.state in ("", OPEN):
        return "close", {CLOSED_BY_PARENT: "true"}
    if parent_closed and action == "open":
        return "sync", {CLOSED_BY_PARENT: "true"}
    if action != "sync":
        return action, {CLOSED_BY_PARENT: "false"}
    if parent is None:
        return "sync", {}
    marked = queue.metadata.annotations.get(CLOSED_BY_PARENT) == "true"
    if marked and parent.status.state == OPEN:
        return "open", {CLOSED_BY_PARENT: "false"}
    return "sync", {}
