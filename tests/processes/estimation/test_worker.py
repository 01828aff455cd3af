"""The process of the estimates ends with the controllers, whatever it does at that moment."""

import os
import signal
import sys
import time
from subprocess import PIPE, Popen
from typing import Final

PARENT: Final = """
import os, subprocess, sys, time
worker = [sys.executable, "-m", "quorate.processes.estimation.worker", str(os.getpid())]
print(subprocess.Popen(worker).pid, flush=True)
time.sleep(600)
"""


def test_the_process_ends_with_its_parent_although_its_input_does_not() -> None:
    with Popen([sys.executable, "-c", PARENT], stdin=PIPE, stdout=PIPE) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert runs(worker)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        deadline = time.monotonic() + 60
        while runs(worker):
            assert time.monotonic() < deadline, "the process outlives its parent"
            time.sleep(0.05)


def runs(pid: int) -> bool:
    """Return True while a process runs; one that has ended and was not waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not os.path.exists("/proc")
