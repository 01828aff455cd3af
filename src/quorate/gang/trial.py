"""Moves made on a session that are undone unless kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from quorate.gang.task import Standing, Task


@dataclass(frozen=True, slots=True)
class Move:
    """``task`` goes from one standing and node to another; "" is no node."""

    task: Task
    was: Standing
    was_on: str
    becomes: Standing
    on: str

    @property
    def inverse(self) -> "Move":
        return Move(self.task, self.becomes, self.on, self.was, self.was_on)


def place(task: Task, node: str) -> Move:
    """Give it room that is free now."""
    return Move(task, task.standing, task.node, Standing.ALLOCATED, node)


def promise(task: Task, node: str) -> Move:
    """Let it have room there that others are about to give back."""
    return Move(task, task.standing, task.node, Standing.PIPELINED, node)


def withdraw(task: Task) -> Move:
    """Take back what it was given or promised."""
    return Move(task, task.standing, task.node, Standing.PENDING, "")


def evict(task: Task) -> Move:
    """Have it give its room back."""
    return Move(task, task.standing, task.node, Standing.RELEASING, task.node)


class Board(Protocol):
    """Where moves are made: a session."""

    def apply(self, move: Move) -> None: ...


class Trial:
    """Moves on ``board``.  Leaving the ``with`` block without ``keep()``, by any road, undoes them all."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._moves: list[Move] = []
        self._kept = False

    def __enter__(self) -> "Trial":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._kept:
            self.back_to(0)

    @property
    def moves(self) -> Sequence[Move]:
        """All made and not undone, in order."""
        return self._moves

    def do(self, move: Move) -> None:
        self._board.apply(move)
        self._moves.append(move)  # after apply: a refused move needs no undo

    def back_to(self, length: int) -> None:
        """Undo all but the first ``length`` moves, the last one first."""
        while len(self._moves) > length:
            self._board.apply(self._moves.pop().inverse)

    def keep(self) -> tuple[Move, ...]:
        """Let the moves stand: the plan."""
        self._kept = True
        return tuple(self._moves)
