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
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Final

import typer

from quorate.cli import main
from quorate.install.crds import gang_definitions, queueing_definitions
from tests.local.clusters import install

_IMPORTED: Final = (
    "quorate.cli.controllers",
    "quorate.cli.local_up",
    "quorate.cli.run.command",
    "quorate.cli.simulate",
    "quorate.cli.verbs.explain.command",
    "quorate.cli.verbs.queue",
    "quorate.cli.verbs.submit",
    "numpy",
)
_PROGRAM: Final = """#!{python} -IS
import array, marshal, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
leads_session = os.getsid(0) == os.getpid()
request = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ), leads_session))
streams = array.array("i", (0, 1, 2))
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


def _serve(listener: socket.socket) -> bool:
    """Return True in a new process for each program, and False in this one when its input ends."""
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            if _is_command(connection):
                return True
            os._exit(0)
        connection.close()
        with suppress(ChildProcessError):  # there is none
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    return False


def _is_command(connection: socket.socket) -> bool:
    """Return True in the process of the command, and False in this one when it has ended."""
    streams = array.array("i")
    size, control, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * streams.itemsize))
    streams.frombytes(control[0][2])
    request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    pid = os.fork()
    if pid == 0:
        connection.close()
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
        return True
    for stream in streams:
        os.close(stream)
    connection.sendall(pid.to_bytes(4, "big"))
    ended = os.pidfd_open(pid)
    if ended in select.select([ended, connection.fileno()], [], [])[0]:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(code.to_bytes(2, "big", signed=True))
    else:
        os.kill(pid, signal.SIGKILL)
    return False


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
            main()
    shutil.rmtree(directory)


if __name__ == "__main__":
    _run()
