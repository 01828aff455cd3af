"""The process that plays a cluster: how it is started, fed with objects, and asked."""

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.meta import Key
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import metadata_of
from quorate.observe.estimates import Question
from quorate.processes.estimation.messages import KINDS, Ask, Put, Remove, frame, read_reply
from quorate.simulate.estimates.exchange import Answer

QUESTION_BUDGET_S: Final = 2.0  # of processor time, for one question
DEADLINE_S: Final = 300.0  # of one refresh: it is starved of processor time, or does not end
SLICE_S: Final = 0.005  # of work on the event loop


async def answer_question(
    stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader, question: Question, now: float
) -> float:
    """Answer a question; return the processor time that it took, in seconds."""
    stdin.write(frame(Ask(msgspec.Raw(codec.encode(question.content)), now, QUESTION_BUDGET_S)))
    async with asyncio.timeout(DEADLINE_S):
        await stdin.drain()
        answered = await read_reply(stdout, Answer)
    if not question.answer.done():
        question.answer.set_result(answered.answer)
    return answered.processor_s


@asynccontextmanager
async def player_process() -> AsyncIterator[Process]:
    """Run the process while the block lasts."""
    command = (sys.executable, "-m", "quorate.processes.estimation.worker", str(os.getpid()))
    worker = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    try:
        yield worker
    finally:
        if worker.returncode is None:
            worker.kill()
        await worker.wait()


class ObjectChanges:
    """The objects of informers that the process does not have yet."""

    def __init__(self, informers: Iterable[Informer[Any]]) -> None:
        kinds = {(kind.api_version, kind.kind): number for number, kind in enumerate(KINDS)}
        self._informers = {
            kinds[informer.resource.api_version, informer.resource.kind]: informer
            for informer in informers
            if (informer.resource.api_version, informer.resource.kind) in kinds
        }
        self._changed: dict[tuple[int, Key], Any] = {}  # None: it was deleted
        self._has_process = False  # otherwise changes are not noted: a new process gets all objects
        for number, informer in self._informers.items():
            informer.subscribe(partial(self._note, number))

    def _note(self, number: int, change: Change[Any]) -> None:
        if self._has_process:
            self._changed[number, change.key] = change.new

    def start(self) -> None:
        """Send all objects to a new process, and then each change."""
        self._has_process = True
        for number, informer in self._informers.items():
            for obj in informer:
                self._changed[number, metadata_of(obj).key] = obj

    def stop(self) -> None:
        """Note no changes until the next process starts."""
        self._has_process = False
        self._changed.clear()

    async def send(self, stream: asyncio.StreamWriter) -> None:
        began_s = time.monotonic()
        while self._changed:
            (number, key), obj = next(iter(self._changed.items()))
            del self._changed[number, key]
            if obj is None:
                stream.write(frame(Remove(number, key)))
            else:
                stream.write(frame(Put(number, msgspec.Raw(KINDS[number].encode(obj)))))
            if time.monotonic() - began_s > SLICE_S:
                await stream.drain()
                await asyncio.sleep(0)
                began_s = time.monotonic()
        await stream.drain()
