"""Trying everything: a computation is run again and again, each time with other answers to its questions.

A question is asked only when its answer matters, so whole families of worlds that differ only in what
nobody looks at cost one run.  (The idea is that of bounded exhaustive testing by backtracking: the answers
form the digits of a counter, and only the digits that were used are counted through.)
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar, cast

Answer = TypeVar("Answer")
Result = TypeVar("Result")


class Choices:
    """The answers of one run; the same question is answered the same way throughout."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = script  # the answers to the first questions, by index
        self._answers: dict[Hashable, object] = {}
        self.taken: list[tuple[int, int]] = []  # of each question: index of the answer, number of answers

    def choose(self, question: Hashable, answers: Sequence[Answer]) -> Answer:
        if question not in self._answers:
            asked = len(self.taken)
            index = self._script[asked] if asked < len(self._script) else 0
            self.taken.append((index, len(answers)))
            self._answers[question] = answers[index]
        return cast(Answer, self._answers[question])

    def __repr__(self) -> str:
        return f"Choices({self._answers})"


def every(run: Callable[[Choices], Result]) -> Iterator[tuple[Choices, Result]]:
    """``run`` under each combination of answers to the questions that it asks."""
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
