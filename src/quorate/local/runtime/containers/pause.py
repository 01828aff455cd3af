"""The process that holds the PID namespace of a pod with ``shareProcessNamespace``."""

import asyncio
import os
from pathlib import Path
from typing import Final

from quorate.local.runtime.containers.environment import DEFAULT_PATH
from quorate.local.runtime.containers.processes import (
    FIRST_POLL_S,
    Attempt,
    children_of,
    is_running,
    start,
    tool_path,
)

PAUSE: Final = ".pause"  # in the place of the name of a container, which never begins with a dot
INIT: Final = "sleep infinity & wait"  # the shell also reaps processes without a parent


async def start_pause(state: Path, pod_uid: str) -> int:
    """Start the process and return its id.  Raises OSError."""
    command = (tool_path("unshare"), "--pid", "--fork", "--kill-child", "--", "/bin/sh", "-c", INIT)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        process = start(Attempt(state, pod_uid, PAUSE, 0), command, {"PATH": DEFAULT_PATH}, [null] * 3)
    finally:
        os.close(null)
    while not children_of(process):
        if not is_running(process):
            raise OSError("unshare cannot make a PID namespace for the pod")
        await asyncio.sleep(FIRST_POLL_S)
    return process


def namespace_of(process: int) -> Path:
    """Return the PID namespace that the process with this id holds.  Raises OSError if it has ended."""
    for child in children_of(process):
        return Path(f"/proc/{child}/ns/pid")
    raise OSError("the PID namespace of the pod has ended")
