"""The states of a queue: open, closing while pod groups are left in it, closed.

Source: Volcano's queue controller (v1.15).
"""

from typing import Final, Literal

from quorate.api.volcano import CLOSED, CLOSING, OPEN, ROOT_QUEUE, UNKNOWN

QueueAction = Literal["sync", "open", "close"]
STATES: Final = ("", OPEN, CLOSED, CLOSING)


class Protected(Exception):
    """The root of all queues cannot be closed: nothing could be open below it."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue

    def __str__(self) -> str:
        return f"queue {self.queue}: cannot be closed (close the queues below it)"


def next_state(queue: str, state: str, action: QueueAction, pod_groups: int) -> str:
    """The state of ``queue`` after ``action``, with as many pod groups as refer to it.

    Raises ``Protected``.
    """
    match action:
        case "open":
            return OPEN
        case "close":
            if queue == ROOT_QUEUE:
                raise Protected(queue)
            return CLOSING if pod_groups else CLOSED
        case "sync":
            return _synced(state, pod_groups)


def _synced(state: str, pod_groups: int) -> str:
    if state in ("", OPEN):
        return OPEN
    if state in (CLOSING, CLOSED):
        return CLOSING if pod_groups else CLOSED
    return UNKNOWN
