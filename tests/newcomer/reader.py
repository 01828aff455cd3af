"""Type the commands of a page, as its reader does: one shell, one home directory, programs from the wheel."""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.docs.walk import File, Step, matches_output
from tests.newcomer.pages import Shown, blocks_of, shows

WITHIN_S: Final = 500.0  # of the longest command, the demo, beside other work
READY_S: Final = 180.0  # of what takes seconds, beside other work
_PAGES: Final = yaml.safe_load(Path(__file__).with_name("pages.yaml").read_text())
_NO_NOTES: Final[dict[str, Any]] = {
    "before": [], "files": {}, "first": {}, "again": {}, "exits": {}, "skip": {}, "shows": [], "says": {},
}  # fmt: skip
# What runs until Ctrl-C, and what it prints once it works.
_RUNS_ON: Final = (
    (re.compile(r"quorate local up(?!.*--detach)"), "export KUBECONFIG="),
    (re.compile(r"quorate (controllers|scheduler)(?!.*--check)"), "ready"),
    (re.compile(r"quorate (dashboard|witness)\b"), ""),
    (re.compile(r"kubectl .*port-forward"), "Forwarding"),
    (re.compile(r"quorate .*(--watch|--follow)"), ""),
)


class Differs(AssertionError):
    """A command fails, or prints something else than the page shows."""


class Reader:
    """The shell of a reader in ``directory``, a clone of the repository, with the wheel in ``programs``."""

    def __init__(self, page: str, directory: Path, programs: Path, environment: Mapping[str, str]) -> None:
        self._notes = {**_NO_NOTES, **_PAGES.get(page, {})}
        self._directory = directory
        self._state = directory.parent / "shell"
        self._state.write_text(f"cd {shlex.quote(str(directory))}\n")
        self._repository = environment["REPOSITORY"]
        self._environment = {
            **environment,
            "HOME": str(directory.parent / "home"),
            "PATH": f"{programs}:{environment['PATH']}",
            "COLUMNS": "200",
        }
        (directory.parent / "home").mkdir(exist_ok=True)
        self._running: list[tuple[str, subprocess.Popen[str], Path]] = []
        self._output = ""
        self.typed = 0
        self._unused = {
            *(start for kind in ("first", "again", "exits", "skip", "says") for start in self._notes[kind])
        }

    def read(self, text: str) -> None:
        """Type the commands of a page.  Raises ``Differs``."""
        try:
            blocks = list(blocks_of(text))
            for name, start in self._notes["files"].items():
                (shown,) = (
                    block.text
                    for block in blocks
                    if isinstance(block, Shown) and block.text.startswith(start)
                )
                (self._directory / name).write_text(shown)
            for command in self._notes["before"]:
                self._type(command)
            for block in blocks:
                match block:
                    case File(name, content):
                        path = self._directory / name
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_text(content)
                    case Step():
                        self._step(block)
                    case Shown():
                        self._compare(block)
        finally:
            self._end()
        if self._unused:
            raise Differs(f"the page has no command that begins with {sorted(self._unused)}")

    def _note(self, kind: str, command: str) -> object:
        """Return the note of this kind for a command, or None."""
        for start, note in self._notes[kind].items():
            if command.startswith(start):
                self._unused.discard(start)
                return note
        return None

    def _step(self, step: Step) -> None:
        if self._note("skip", step.command):
            return
        for command in self._note("first", step.command) or ():  # type: ignore[attr-defined]
            self._type(command)
        self.typed += 1
        for pattern, ready in _RUNS_ON:
            if pattern.match(step.command):
                self._start(step.command, ready)
                return
        deadline = time.monotonic() + READY_S
        want = self._note("exits", step.command) or 0
        says = str(self._note("says", step.command) or "")
        tries = int(str(self._note("again", step.command) or 1))
        while True:
            code, self._output = self._run(step.command)
            fits = matches_output(self._output, step.output) if step.output else says in self._output
            if code == want and fits:
                return
            tries -= 1
            if not (tries > 0 or (step.reads and time.monotonic() < deadline)):
                raise Differs(
                    f"$ {step.command}\nexit code {code}, expected {want}\n{self._output}\nthe page shows:\n"
                    f"{step.output or says}"
                )
            time.sleep(0.2)

    def _type(self, command: str) -> None:
        code, output = self._run(command)
        if code:
            raise Differs(f"$ {command}\nexit code {code}\n{output}")

    def _run(self, command: str) -> tuple[int, str]:
        """Run a command in the shell, which keeps its directory and its variables; return code and output."""
        state = shlex.quote(str(self._state))
        command = command.replace("git clone REPOSITORY", f"git clone {self._repository}")
        keep = f"{{ export -p; echo cd \"'$PWD'\"; }} > {state}"
        script = f". {state}\nset -a\n{command}\ncode=$?\nset +a\n{keep}\nexit $code"
        done = subprocess.run(
            ["bash", "-c", script], env=self._environment, text=True, timeout=WITHIN_S, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.returncode, done.stdout

    def _start(self, command: str, ready: str) -> None:
        """Start what runs until Ctrl-C; wait until it prints ``ready``; type the export that it prints."""
        log = self._directory.parent / f"{len(self._running)}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                ["bash", "-c", f". {shlex.quote(str(self._state))}\nexec {command}"], env=self._environment,
                text=True, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0,
            )  # fmt: skip
        self._running.append((command, process, log))
        deadline = time.monotonic() + READY_S
        while ready not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Differs(f"$ {command}\ndoes not print {ready!r}\n{log.read_text()}")
            time.sleep(0.05)
        self._output = log.read_text()
        if export := re.search(r"^export KUBECONFIG=\S+$", self._output, re.MULTILINE):
            self._type(export[0])

    def _compare(self, shown: Shown) -> None:
        compared = shown.after_command or any(shown.text.startswith(start) for start in self._notes["shows"])
        if compared and not shows(self._output, shown.text):
            raise Differs(f"the page shows\n{shown.text}\nand the command before printed\n{self._output}")

    def _end(self) -> None:
        """Press Ctrl-C in each terminal, the last first, and stop clusters in the background."""
        for _, process, _ in reversed(self._running):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
        home = self._environment["HOME"]
        if Path(home, ".quorate", "local").exists():
            self._run("quorate local down --delete")
