"""Where every task waits: what is needed to understand a run that does not end."""

import asyncio
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any


def waiting_tasks() -> str:
    """Each task of the running loop but the current one, by name, with its frames from the outermost on."""
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
    """The places of a coroutine and of all that it awaits in turn, down to what is no coroutine.

    ``Task.get_stack`` knows but the outermost of a task that waits.
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
