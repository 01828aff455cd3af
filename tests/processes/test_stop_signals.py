"""The signals at which every process stops in an orderly way, and the one that nohup has ignored."""

import signal
import subprocess
import sys

import pytest

PROCESS = """
import asyncio, signal
from quorate.processes.process_setup import run_until_signal, wait_for_signal

async def serve() -> None:
    try:
        await run_until_signal(announced())
    finally:
        print("cleaned up")

async def announced() -> None:
    print("ready", flush=True)
    await asyncio.Event().wait()

{first}
try:
    asyncio.run({work})
except asyncio.CancelledError:
    pass
"""
WAIT = "wait_for_signal(lambda: print('ready', flush=True))"
NOHUP = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"


def stopped(work: str, *numbers: signal.Signals, first: str = "") -> tuple[int, str]:
    """Return the exit code and the output of a process that gets the signals, in order, once it is ready."""
    code = PROCESS.format(work=work, first=first)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in numbers:
            process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    return process.returncode, output


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_process_stops_in_order_also_when_its_terminal_is_closed(number: signal.Signals) -> None:
    assert stopped("serve()", number) == (0, "cleaned up\n")
    assert stopped(WAIT, number) == (0, "")


@pytest.mark.slow
def test_under_nohup_the_end_of_the_terminal_stops_nothing() -> None:
    """A signal that is ignored is not delivered later, so the exit code is that of the signal after it."""
    killed = -signal.SIGUSR1.value
    assert stopped("serve()", signal.SIGHUP, signal.SIGUSR1, first=NOHUP) == (killed, "")
