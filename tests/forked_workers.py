"""``pytest --workers N``: run modules side by side in N processes forked after the tests are collected.

Each worker of pytest-xdist collects all tests again, which takes 6 s of processor time.  A forked worker has
them, and the imported modules.  The numbers of the modules are in a pipe.  A worker reads the next number
when it starts the last test of a module.  It sends its parent the calls of the hooks that report.
"""

import array
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

# What a worker sends: names and arguments of hooks of pytest; None when it has no more tests.
Message = list[tuple[str, dict[str, Any]]] | None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, metavar="N", help="processes that run the modules")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Return True when the workers have run all tests, or None: pytest runs them itself."""
    count: int = session.config.getoption("--workers")
    if not count or session.config.option.collectonly or session.testsfailed:
        return None
    modules: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in session.items:
        modules[item.path].append(item)
    numbers, written = os.pipe()
    os.write(written, array.array("H", range(len(modules))))
    os.close(written)
    workers: dict[Connection, int] = {}
    for _ in range(count):
        reader, writer = Pipe(duplex=False)
        pid = os.fork()
        if pid == 0:
            _report_to(writer, session.config)
            _run(session, _taken(list(modules.values()), numbers))
            writer.send(None)
            return True
        writer.close()
        workers[reader] = pid
    os.close(numbers)
    _follow(session, workers)
    return True


def _taken(modules: Sequence[list[pytest.Item]], numbers: int) -> Iterator[pytest.Item]:
    while number := os.read(numbers, 2):
        yield from modules[array.array("H", number)[0]]


def _run(session: pytest.Session, items: Iterator[pytest.Item]) -> None:
    for item, following in pairwise(chain(items, (None,))):
        assert item is not None
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            break


class _Reporting:
    """The hooks of a worker that its parent calls again: the first of a test at once, others at its end."""

    def __init__(self, writer: Connection, config: pytest.Config) -> None:
        self._writer = writer
        self._config = config
        self._reports: list[tuple[str, dict[str, Any]]] = []

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._writer.send([("pytest_runtest_logstart", {"nodeid": nodeid, "location": location})])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(("pytest_runtest_logreport", {"report": data}))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        finish = ("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location})
        self._writer.send([*self._reports, finish])
        self._reports.clear()


def _report_to(writer: Connection, config: pytest.Config) -> None:
    """Let this process, a new worker, report to its parent only, and capture output into files of its own."""
    config.workerinput = {}  # type: ignore[attr-defined]  # plugins write no results, as in workers of xdist
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(_Reporting(writer, config))
    if (capture := config.pluginmanager.getplugin("capturemanager")) is not None:
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()


def _follow(session: pytest.Session, workers: Mapping[Connection, int]) -> None:
    """Call the hooks of the workers until these have ended; the test in which a worker ends has failed."""
    hooks = session.config.hook
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    terminal.showfspath = False  # the modules alternate
    running: dict[Connection, dict[str, Any]] = {}
    following = set(workers)
    while following:
        for reader in wait(following):
            assert isinstance(reader, Connection)
            message = _next_message(reader)
            if isinstance(message, list):
                for name, arguments in message:
                    if name == "pytest_runtest_logstart":
                        running[reader] = arguments
                    elif name == "pytest_runtest_logreport":
                        data = arguments["report"]
                        arguments["report"] = hooks.pytest_report_from_serializable(
                            config=session.config, data=data
                        )
                    getattr(hooks, name)(**arguments)
                continue
            following.remove(reader)
            code = os.waitstatus_to_exitcode(os.waitpid(workers[reader], 0)[1])
            if message is not None:
                problem = f"the worker ended with {code}; the rest of the module did not run"
                report = pytest.TestReport(
                    **running[reader], keywords={}, outcome="failed", longrepr=problem, when="call"
                )
                hooks.pytest_runtest_logreport(report=report)


def _next_message(reader: Connection) -> Message | EOFError:
    try:
        message: Message = reader.recv()
    except EOFError as error:
        return error
    return message
