"""Run a task page step by step: write its files, run its commands, compare their outputs.

A block ``yaml title="NAME"`` is a file.  In a block ``console`` a line that begins with ``$ `` is a command,
followed by its output, in which ``...`` matches any text and a line ``...`` matches any number of lines.
Runs of blanks count as one.  A command that only reads is repeated until the output matches; a command
that writes runs once.  One that ends with ``&`` runs until the end of the page.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e.commands import cluster, pause_s
from tests.forked_command import forked_command

TASKS: Final = Path(__file__).parents[2] / "docs" / "tasks"
WITHIN_S: Final = 40.0
_READS: Final = {"get", "describe", "list", "explain", "wait", "preflight", "logs", "auth", "grep", "status"}
_BLOCK: Final = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class File:
    name: str
    text: str


@dataclass(frozen=True)
class Step:
    command: str
    output: str

    @property
    def reads(self) -> bool:
        return not _READS.isdisjoint(self.command.split())


def blocks(page: str) -> Iterator[File | Step]:
    """Yield the files and the steps of ``page`` in order."""
    for language, title, text in _BLOCK.findall(page):
        if title:
            yield File(title, text)
        elif language == "console":
            for part in f"\n{text}".split("\n$ ")[1:]:
                command, _, output = part.partition("\n")
                yield Step(command, output)


def walk(
    name: str,
    directory: Path,
    commands: Sequence[Path] = (),
    within_s: float = WITHIN_S,
    beside: Callable[[Path], AbstractContextManager[None]] | None = None,
) -> None:
    """Run the steps of task page ``name`` on a separate cluster in ``directory``.

    Programs are looked up in ``commands`` first. Each step takes at most ``within_s``. ``beside`` starts what
    runs beside the cluster of a kubeconfig.
    """
    programs = [*commands, forked_command().parent, Path(sys.executable).parent]
    environment = {
        **os.environ,
        "KUBECONFIG": str(directory / "data" / "kubeconfig"),
        "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
        "HOME": str(directory),
    }
    with ExitStack() as running:
        for block in blocks((TASKS / name).read_text()):
            match block:
                case File(file_name, text):
                    path = directory / file_name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
                case Step(command, _) if command.startswith("quorate local up"):
                    options = [_existing_path(word, directory) for word in shlex.split(command)[3:]]
                    running.enter_context(cluster(directory / "data", *options))
                    if beside is not None:
                        running.enter_context(beside(directory / "data" / "kubeconfig"))
                case Step(command, _) if command.endswith("&"):
                    running.enter_context(_in_background(command, directory, environment))
                case Step():
                    _run_step(block, directory, environment, within_s)


def _existing_path(word: str, directory: Path) -> str:
    return str(directory / word) if (directory / word).is_file() else word


@contextmanager
def _in_background(command: str, directory: Path, environment: dict[str, str]) -> Iterator[None]:
    """Run a command and what it starts until the end of the block."""
    process = subprocess.Popen(
        command.removesuffix("&"), shell=True, cwd=directory, env=environment, process_group=0
    )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _run_step(step: Step, directory: Path, environment: dict[str, str], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while True:
        began = time.monotonic()
        done = subprocess.run(
            step.command, shell=True, cwd=directory, env=environment, text=True, timeout=within_s,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        if matches_output(done.stdout, step.output):
            return
        retry = step.reads and time.monotonic() < deadline
        assert retry, f"$ {step.command}\n{done.stdout}\ndiffers from the page:\n{step.output}"
        time.sleep(pause_s(time.monotonic() - began))


def matches_output(output: str, expected: str) -> bool:
    def normalized(text: str) -> str:
        return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())

    pattern = re.escape(normalized(expected)).replace(r"\.\.\.", ".*")
    pattern = re.sub(r"\\\n\.\*(?=\\\n|$)", r"(?:\\n(?s:.*))?", pattern)
    pattern = re.sub(r"^\.\*\\\n", r"(?:(?s:.*)\\n)?", pattern)
    return re.fullmatch(pattern, normalized(output)) is not None
