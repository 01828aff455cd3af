"""Evaluation of CEL expressions within a budget, by processes that end when they exceed it.

A call blocks its thread, not the event loop: ``in_thread`` runs what evaluates expressions.  Each of the few
threads has a process, which starts with the first expression and ends with the server.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pipe
from typing import Any, Final, TypeVar

from quorate.local.objects.cel.worker import MEMORY_BYTES, ExpressionData, Result

MAX_PROCESSOR_S: Final = 1.0
"""for the rules of an object or the expressions of a policy; about as much as kube-apiserver allows"""
PROCESSES: Final = 4
_PROGRAM: Final = "from quorate.local.objects.cel.worker import main; main()"
_NULL_DEVICE: Final = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
"""for stderr, on which the runtime reports that it has too little memory"""

T = TypeVar("T")


@cache
def _threads_of(process: int) -> ThreadPoolExecutor:
    """Return the threads that evaluate CEL expressions in the process with the id ``process``.

    The pytest plugin forks its clusters from a process that may have such threads; a fork has none of them.
    """
    return ThreadPoolExecutor(PROCESSES, thread_name_prefix="cel")


class BudgetExceeded(Exception):
    """Expressions take too much processor time or memory; the text says which."""


@dataclass(slots=True)
class Budget:
    """The processor time that is left for some expressions."""

    left_s: float = MAX_PROCESSOR_S


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a function that evaluates expressions."""
    return await asyncio.get_running_loop().run_in_executor(_threads_of(os.getpid()), function, *arguments)


def evaluate(expressions: Sequence[ExpressionData], budget: Budget) -> list[Result]:
    """Return the results of expressions, in order, and charge the budget.  Raises BudgetExceeded."""
    if not expressions:
        return []
    if budget.left_s <= 0:
        raise _time_exceeded()
    used_s, results = _process_of_thread().evaluate((budget.left_s, expressions))
    budget.left_s -= used_s
    return results


class _Process:
    """A process that evaluates expressions, and the connection to it."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-c", _PROGRAM],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), _NULL_DEVICE],
                setpgroup=0,  # Ctrl-C of a terminal is for the server, which ends this process by its end
            )

    def evaluate(self, request: tuple[float, Sequence[ExpressionData]]) -> tuple[float, list[Result]]:
        try:
            self._connection.send(request)
            answer: tuple[float, list[Result]] = self._connection.recv()
        except (EOFError, OSError) as error:
            del _local.process
            status = self.end()
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
                raise _time_exceeded() from error
            raise BudgetExceeded(f"more than {MEMORY_BYTES >> 20} MiB of memory") from error
        return answer

    def has_ended(self) -> bool:
        """Return True if the process ended without a request, for example for lack of memory."""
        return self._connection.poll()

    def end(self) -> int:
        """Close the connection, which ends the process, and return its wait status."""
        self._connection.close()
        return os.waitpid(self._pid, 0)[1]


def _time_exceeded() -> BudgetExceeded:
    return BudgetExceeded(f"more than {MAX_PROCESSOR_S:g} s of processor time")


_local: Final = threading.local()


def _process_of_thread() -> _Process:
    process: _Process | None = getattr(_local, "process", None)
    if process is not None and process.has_ended():
        process.end()
        process = None
    if process is None:
        process = _local.process = _Process()
    return process
