"""The command ``quorate`` in processes forked from one that has imported it: imports take up to 1.5 s of CPU.

Run as a program, this module makes a program named ``quorate``, prints its path, and serves it until the
standard input ends.  The program sends its arguments, directory, environment and open streams, forwards
signals to the forked process and ends as that does, which is killed when the program is.
"""

import array
import asyncio
import atexit
import gc
import marshal
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, Final, Never

import typer

from quorate.cli import main
from quorate.install.crds import gang_definitions, queueing_definitions
from tests.local.clusters import install

_IMPORTED: Final = (
    "quorate.cli.controllers",
    "quorate.cli.existing_local_cluster",
    "quorate.cli.local",
    "quorate.cli.local_up",
    "quorate.cli.run.command",
    "quorate.cli.simulate",
    "quorate.cli.verbs.explain.command",
    "quorate.cli.verbs.flavor",
    "quorate.cli.verbs.queue",
    "quorate.cli.verbs.submit",
    "quorate.cli.verbs.workload",
    "numpy",
)
_PROGRAM: Final = """#!{python} -IS
import array, marshal, os, sys
import _signal as signal, _socket as socket  # without the modules around them: a third of the start
leads_session = os.getsid(0) == os.getpid()
request = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ), leads_session))
streams = array.array("i", (0, 1, 2))
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
server.sendmsg([len(request).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
server.sendall(request)
pid = int.from_bytes(server.recv(4), "big")
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = int.from_bytes(server.recv(2), "big", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
_STARTING: Final = Lock()


def forked_command() -> Path:
    """Return the path of the program, which works until this process ends."""
    with _STARTING:
        return _program()


@cache
def _program() -> Path:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forked_command"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    atexit.register(server.__exit__, None, None, None)
    assert server.stdout is not None
    return Path(server.stdout.readline().rstrip())


@dataclass(frozen=True)
class _Command:
    pid: int
    ended: int  # a descriptor that can be read when the process has ended
    program: socket.socket

    def close(self) -> None:
        self.program.close()
        os.close(self.ended)


def _serve(listener: socket.socket) -> bool:
    """Return True in a new process for each program, and False in this one when its input ends."""
    running: list[_Command] = []
    while True:
        awaited: list[Any] = [listener, sys.stdin]
        awaited += chain.from_iterable((command.ended, command.program) for command in running)
        ready = select.select(awaited, [], [])[0]
        for command in list(running):
            if command.ended in ready or command.program in ready:
                _end(command)
                running.remove(command)
        if sys.stdin in ready:
            for command in running:
                os.kill(command.pid, signal.SIGKILL)
            return False
        if listener in ready:
            program, _ = listener.accept()
            streams = array.array("i")
            size, control, _, _ = program.recvmsg(4, socket.CMSG_SPACE(3 * streams.itemsize))
            if not control:  # the program has been killed
                program.close()
                continue
            streams.frombytes(control[0][2])
            started = _start(program, size, streams)
            if started is None:
                listener.close()
                for command in running:
                    command.close()
                return True
            running.append(started)


def _start(program: socket.socket, size: bytes, streams: Sequence[int]) -> _Command | None:
    """Fork the process of a command with these open streams; return None in that process."""
    request = program.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    pid = os.fork()
    if pid == 0:
        program.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.argv, directory, environment, leads_session = marshal.loads(request)
        if leads_session:
            os.setsid()
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # a variable of the environment may set it
        return None
    for stream in streams:
        os.close(stream)
    with suppress(BrokenPipeError):  # the program has been killed
        program.sendall(pid.to_bytes(4, "big"))
    return _Command(pid, os.pidfd_open(pid), program)


def _end(command: _Command) -> None:
    """Send the exit code of a command to its program; kill the command if the program has ended."""
    if not select.select([command.ended], [], [], 0)[0]:
        os.kill(command.pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(command.pid, 0)[1])
    with suppress(BrokenPipeError):
        command.program.sendall(code.to_bytes(2, "big", signed=True))
    command.close()


def _run_command() -> Never:
    """Run the command, and end without freeing objects: that would copy the memory shared with the parent."""
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    threading._shutdown()  # type: ignore[attr-defined]  # wait for threads, as the interpreter does
    atexit._run_exitfuncs()
    if not isinstance(code, int):
        typer.echo(code, err=True)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run() -> None:
    for name in _IMPORTED:
        import_module(name)
    with tempfile.TemporaryDirectory() as scratch:
        # Fills the caches of definitions, of their schemas and rules, and of roles: a fifth of each start.
        definitions = (*queueing_definitions(), *gang_definitions())
        asyncio.run(install(Path(scratch) / "objects.db", definitions))
    gc.collect()
    gc.freeze()
    directory = Path(tempfile.mkdtemp())
    program, address = directory / "quorate", directory / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        program.write_text(_PROGRAM.format(python=sys.executable, address=str(address)))
        program.chmod(0o755)
        typer.echo(program)
        if _serve(listener):
            _run_command()
    shutil.rmtree(directory)


if __name__ == "__main__":
    _run()
