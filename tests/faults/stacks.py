"""Stacks of all waiting tasks, to explain a run that does not end."""

import asyncio
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any


def waiting_tasks() -> str:
    """Return all tasks of the loop except the current one, by name, with frames from the outermost."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    sections = (f"{_heading(task)}\n{_frames(task)}" for task in sorted(tasks, key=_name))
    return "\n".join(sections)


def _name(task: asyncio.Task[Any]) -> tuple[int, str]:
    return len(task.get_name()), task.get_name()  # Task-9 before Task-10


def _heading(task: asyncio.Task[Any]) -> str:
    cancelled = task.cancelling()
    return task.get_name() + (f", cancelled {cancelled} times" if cancelled else "")


def _frames(task: asyncio.Task[Any]) -> str:
    return "\n".join(f"  {location}" for location in _await_chain(task.get_coro()))


def _await_chain(awaited: Any) -> Iterator[str]:
    """Yield the code locations of a coroutine and of the coroutines that it awaits.

    ``Task.get_stack`` returns only the outermost frame of a waiting task.
    """
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            code: CodeType | None = getattr(awaited, f"{kind}_code", None)
            if code is not None:
                frame: FrameType | None = getattr(awaited, f"{kind}_frame")
                line = frame.f_lineno if frame is not None else code.co_firstlineno
                yield f"{code.co_filename}:{line} {code.co_qualname}"
                inside = "gi_yieldfrom" if kind == "gi" else f"{kind}_await"
                awaited = getattr(awaited, inside)
                break
        else:
            yield f"{awaited!r}"
            return
