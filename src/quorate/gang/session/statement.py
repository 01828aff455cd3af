"""Statements: tentative changes to a session that are undone unless they are committed."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from quorate.gang.cache.task import Task, TaskStatus


class Move(NamedTuple):
    """The change of a task from one status and node to another; "" is no node."""

    task: Task
    from_status: TaskStatus
    from_node: str
    to_status: TaskStatus
    to_node: str

    @property
    def inverse(self) -> "Move":
        return Move(self.task, self.to_status, self.to_node, self.from_status, self.from_node)


class MoveTarget(Protocol):
    """What moves are applied to: a session."""

    def apply(self, move: Move) -> None: ...


class Statement:
    """Moves applied to ``target``; leaving the ``with`` block without ``commit()`` undoes them."""

    def __init__(self, target: MoveTarget) -> None:
        self._target = target
        self._moves: list[Move] = []
        self._committed = False

    def __enter__(self) -> "Statement":
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._committed:
            self.undo_after(0)

    @property
    def moves(self) -> Sequence[Move]:
        """The moves made and not undone, in order."""
        return self._moves

    def allocate(self, task: Task, node: str) -> None:
        """Give ``task`` resources of ``node`` that are idle now."""
        self._apply(task, TaskStatus.ALLOCATED, node)

    def pipeline(self, task: Task, node: str) -> None:
        """Give ``task`` resources of ``node`` that leaving pods are about to release."""
        self._apply(task, TaskStatus.PIPELINED, node)

    def unpipeline(self, task: Task) -> None:
        """Take the node of a pipelined ``task`` away."""
        self._apply(task, TaskStatus.PENDING, "")

    def evict(self, task: Task) -> None:
        """Have ``task`` release its resources; it keeps its node until its pod is gone."""
        self._apply(task, TaskStatus.RELEASING, task.node)

    def undo(self, task: Task) -> None:
        """Undo the move of ``task``, which has only one."""
        (index,) = (index for index, move in enumerate(self._moves) if move.task is task)
        self._target.apply(self._moves.pop(index).inverse)

    def redo(self, move: Move) -> None:
        """Make ``move``, which was made and undone before."""
        self._target.apply(move)
        self._moves.append(move)  # after apply: a move that is refused needs no undo

    def undo_after(self, length: int) -> None:
        """Undo all but the first ``length`` moves, the last one first."""
        while len(self._moves) > length:
            self._target.apply(self._moves.pop().inverse)

    def commit(self) -> tuple[Move, ...]:
        """Keep the moves after the ``with`` block, and return them."""
        self._committed = True
        return tuple(self._moves)

    def _apply(self, task: Task, status: TaskStatus, node: str) -> None:
        self.redo(Move(task, task.status, task.node, status, node))
