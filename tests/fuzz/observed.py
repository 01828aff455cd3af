"""Run ``quorate`` in this process and report each time that its event loop is blocked.

    python -m tests.fuzz.observed REPORT.jsonl LIMIT_MS controllers --kubeconfig ...
    python -m tests.fuzz.observed REPORT.jsonl LIMIT_MS components KUBECONFIG

``components`` runs the controllers and nodes of the local cluster against any API server.  A thread posts a
callback to the loop and measures the CPU time that the loop's thread spends until it runs, so that other
processes of the machine do not count.
"""

import asyncio
import gc
import json
import random
import sys
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvloop

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.log import configure
from quorate.kube.rest.config import load_rest_config
from quorate.local.controllers.start import run_controllers
from quorate.local.nodes import NodePool, run_nodes

INTERVAL_S: Final = 0.02
STACK_DEPTH: Final = 12
NODES: Final = 2


class LoopWatcher(threading.Thread):
    """Write a JSON line for each block of the loop of the main thread beyond the limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Path, limit_s: float) -> None:
        super().__init__(name="loop watcher", daemon=True)
        self._loop = loop
        self._report = report
        self._limit_s = limit_s
        self._cpu_clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
        self._collecting_s = 0.0  # CPU time of garbage collections so far
        self._collection_began_s = 0.0
        gc.callbacks.append(self._on_collection)

    def run(self) -> None:
        with self._report.open("a", encoding="utf-8") as report:
            while True:
                time.sleep(INTERVAL_S)
                try:
                    block = self._measure()
                except RuntimeError:  # the loop is closed
                    return
                if block is not None:
                    report.write(json.dumps(block) + "\n")
                    report.flush()

    def _measure(self) -> dict[str, Any] | None:
        ran = threading.Event()
        cpu_s, wall_s, collecting_s = self._cpu(), time.monotonic(), self._collecting_s
        stack: list[str] = []
        subject = ""
        self._loop.call_soon_threadsafe(ran.set)
        while not ran.wait(0.01):
            if self._cpu() - cpu_s > self._limit_s / 2 and not stack:
                stack, subject = _sample()
        spent_s = self._cpu() - cpu_s
        if spent_s < self._limit_s:
            return None
        return {
            "cpu_s": spent_s,
            "wall_s": time.monotonic() - wall_s,
            "collecting_s": self._collecting_s - collecting_s,
            "stack": stack,
            "subject": subject,
        }

    def _cpu(self) -> float:
        return time.clock_gettime(self._cpu_clock)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if phase == "start":
            self._collection_began_s = time.thread_time()
        else:
            self._collecting_s += time.thread_time() - self._collection_began_s


def _sample() -> tuple[list[str], str]:
    """Return what the main thread executes, innermost first, and the object that it works on."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    stack: list[str] = []
    subject = ""
    while frame is not None and len(stack) < STACK_DEPTH:
        code = frame.f_code
        stack.append(f"{code.co_filename}:{frame.f_lineno} {code.co_qualname}")
        subject = subject or _subject_of(frame)
        frame = frame.f_back
    return stack, subject


def _subject_of(frame: FrameType) -> str:
    for value in list(frame.f_locals.values()):
        if isinstance(value, Key):
            return str(value)
        metadata = getattr(value, "metadata", None)
        name = getattr(metadata, "name", None)
        if isinstance(name, str) and name:
            return f"{type(value).__name__} {name}"
    return ""


def observe_loops(report: Path, limit_s: float) -> None:
    """Watch each loop that ``uvloop.run`` starts from now on."""
    run_unobserved = uvloop.run

    async def watched(main: Coroutine[Any, Any, Any]) -> Any:
        LoopWatcher(asyncio.get_running_loop(), report, limit_s).start()
        return await main

    def run(main: Coroutine[Any, Any, Any], **options: Any) -> Any:
        return run_unobserved(watched(main), **options)

    uvloop.run = run


async def run_components(kubeconfig: Path) -> None:
    rng, clock = random.Random(1), WallClock()
    async with Client(await load_rest_config(kubeconfig), rng) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(run_controllers(client, clock, rng))
        tasks.create_task(run_nodes(client, clock, [NodePool(NODES)], 1.0))


def main() -> None:
    report, limit_ms, command, *arguments = sys.argv[1:]
    observe_loops(Path(report), float(limit_ms) / 1000)
    if command == "components":
        configure("json")
        uvloop.run(run_components(Path(arguments[0])))
        return
    sys.argv = ["quorate", command, *arguments]
    from quorate.cli import main as quorate

    quorate()


if __name__ == "__main__":
    main()
