"""The states of a queue: open, closing while pod groups are left in it, closed; and what follows for others.

Source: Volcano's queue controller (v1.15).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec.structs import replace

from quorate.api.meta import ObjectMeta
from quorate.api.volcano import (
    CLOSED,
    CLOSING,
    COMPLETED,
    DEFAULT_QUEUE,
    INQUEUE,
    OPEN,
    PENDING,
    ROOT_QUEUE,
    RUNNING,
    UNKNOWN,
    Queue,
    QueueSpec,
    QueueStatus,
)
from quorate.queueing.lifecycle.transition import Event

QueueAction = Literal["sync", "open", "close"]
ACTIONS: Final[Mapping[str, QueueAction]] = {"OpenQueue": "open", "CloseQueue": "close"}  # of commands
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"  # an annotation of queues, "true" or "false"
BUILT_IN_QUEUES: Final = (
    Queue(metadata=ObjectMeta(name=ROOT_QUEUE), spec=QueueSpec(reclaimable=False)),
    Queue(metadata=ObjectMeta(name=DEFAULT_QUEUE), spec=QueueSpec(parent=ROOT_QUEUE)),
)


class RootQueueCannotClose(Exception):
    """The root of all queues cannot be closed: nothing could be open below it."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue

    def __str__(self) -> str:
        return f"queue {self.queue}: cannot be closed (close the queues below it)"


def next_state(queue: str, state: str, action: QueueAction, pod_groups: int) -> str:
    """The state of ``queue`` after ``action``, with as many pod groups as refer to it.

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
            return _synced(state, pod_groups)


def _synced(state: str, pod_groups: int) -> str:
    if state in ("", OPEN):
        return OPEN
    if state in (CLOSING, CLOSED):
        return CLOSING if pod_groups else CLOSED
    return UNKNOWN


@dataclass(frozen=True, slots=True)
class QueuePlan:
    status: QueueStatus
    annotations: Mapping[str, str] = field(default_factory=dict)  # to set
    parent: str = ""  # to set; empty: it stays
    events: tuple[Event, ...] = ()


def decide(queue: Queue, parent: Queue | None, phases: Mapping[str, int], command: str = "") -> QueuePlan:
    """What becomes of a queue, with as many pod groups in it by phase, when it is told ``command``.

    Below a queue that is closed all are closed, and marked; those that are marked open again with it.  A
    queue closed by hand loses the mark, and stays closed; one that is to open below a closed one is marked.
    """
    action, marks = _action(queue, parent, command)
    name, state = queue.metadata.name, queue.status.state
    events: tuple[Event, ...] = ()
    try:
        after = next_state(name, state, action, sum(phases.values()))
    except RootQueueCannotClose as protected:
        after, events = state or OPEN, (Event("Warning", "CloseQueue", str(protected)),)
    if command == "OpenQueue" and action != "open":
        above = queue.spec.parent
        text = f"queue {name} opens when queue {above} above it does (open that one first)"
        events = (Event("Warning", "OpenQueue", text),)
    elif action != "sync" and after != state:
        reason = "OpenQueue" if action == "open" else "CloseQueue"
        events = (Event("Normal", reason, f"queue {name} is {after} now"),)
    status = replace(
        queue.status,
        state=after,
        pending=phases.get(PENDING, 0) + phases.get("", 0),
        inqueue=phases.get(INQUEUE, 0),
        running=phases.get(RUNNING, 0),
        unknown=phases.get(UNKNOWN, 0),
        completed=phases.get(COMPLETED, 0),
    )
    stated = queue.metadata.annotations
    changed = {key: value for key, value in marks.items() if stated.get(key, "false") != value}
    orphan = not queue.spec.parent and name != ROOT_QUEUE
    return QueuePlan(status, changed, ROOT_QUEUE if orphan else "", events)


def _action(queue: Queue, parent: Queue | None, command: str) -> tuple[QueueAction, Mapping[str, str]]:
    """What to do with the queue, and the mark it has afterwards."""
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
