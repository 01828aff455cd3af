"""The way of pods to networks outside of the cluster: slirp4netns, if it is installed.

It is a port of the bridge, and its gateway has an address in the network of the pods. So no rules for
forwarding and address translation are needed.
"""

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

PROGRAM: Final = "slirp4netns"
DEVICE: Final = "egress"


class EgressUnavailable(Exception):
    """There is no way out; the message says why."""


class Egress:
    """A running slirp4netns; it ends with the kubelet, also if that is killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def close(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


async def start_egress(node: Path, network: str, log: Path) -> Egress:
    """Start slirp4netns with a device in the network namespace ``node``, for addresses in ``network``.

    ``log``: the file for what it reports. Raises ``EgressUnavailable``.
    """
    if shutil.which(PROGRAM) is None or shutil.which("setpriv") is None:
        raise EgressUnavailable(f"{PROGRAM} is not installed")
    ready, writer = os.pipe()
    reports = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "KILL",
            PROGRAM, "--netns-type=path", f"--ready-fd={writer}", f"--cidr={network}",
            "--disable-host-loopback", "--disable-dns", str(node), DEVICE,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=reports,
            pass_fds=(writer,),
        )  # fmt: skip
    finally:
        os.close(writer)
        os.close(reports)
    egress = Egress(process)
    if await asyncio.to_thread(_is_ready, ready):
        return egress
    await egress.close()
    reason = (await asyncio.to_thread(log.read_text, errors="replace")).strip().rpartition("\n")[2]
    raise EgressUnavailable(f"{PROGRAM}: {reason or 'not ready'}")


def _is_ready(ready: int) -> bool:
    """Return True once the program has written, False once it has ended."""
    try:
        return os.read(ready, 1) == b"1"
    finally:
        os.close(ready)
