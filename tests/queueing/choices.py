"""Exhaustive search: a computation runs once for each combination of answers to its questions.

A question arises only when its answer matters, so worlds that differ only in unused answers cost one run.
This is bounded exhaustive testing by backtracking: the answers form the digits of a counter, of which only
the used ones are counted through.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar, cast

Answer = TypeVar("Answer")
Result = TypeVar("Result")


class Choices:
    """The answers of one run; the same question always has the same answer."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = script  # the answers to the first questions, by index
        self._answers: dict[Hashable, object] = {}
        self.taken: list[tuple[int, int]] = []  # per question: index of the answer, number of answers

    def choose(self, question: Hashable, answers: Sequence[Answer]) -> Answer:
        if question not in self._answers:
            position = len(self.taken)
            index = self._script[position] if position < len(self._script) else 0
            self.taken.append((index, len(answers)))
            self._answers[question] = answers[index]
        return cast(Answer, self._answers[question])

    def __repr__(self) -> str:
        return f"Choices({self._answers})"


def every(run: Callable[[Choices], Result]) -> Iterator[tuple[Choices, Result]]:
    """Return the result of ``run`` for each combination of answers."""
    script: list[int] = []
    while True:
        choices = Choices(script)
        yield choices, run(choices)
        taken = choices.taken
        while taken and taken[-1][0] == taken[-1][1] - 1:
            taken.pop()
        if not taken:
            return
        script = [index for index, _ in taken]
        script[-1] += 1
