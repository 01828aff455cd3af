"""What the kernel and the installed tools permit; found once, when the kubelet starts."""

import os
import shutil
import subprocess
from typing import Final

from quorate.local.runtime.containers.processes import tool_path
from quorate.local.runtime.containers.sandbox import Tools
from quorate.local.runtime.network.node_namespaces import ATTEMPTS

INSTALL: Final = "install the package bubblewrap"
_TRY: Final = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/", "--dev", "/dev")
TIMEOUT_S: Final = 20.0


class RuntimeUnavailable(Exception):
    """Pods cannot run as processes here; the message says why, and what to do."""


def find_tools() -> Tools:
    """Return how containers can be run on this machine.  Raises ``RuntimeUnavailable``."""
    missing = [tool for tool in ("unshare", "nsenter", "mount") if shutil.which(tool) is None]
    if missing:
        raise RuntimeUnavailable(f"{' and '.join(missing)} not found (install the package util-linux)")
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return _find_tools_without_bubblewrap()
    program = os.path.realpath(bwrap)
    problem = _problem([program, *_TRY, "--proc", "/proc", "--", "true"])
    if not problem:
        return Tools(program, own_proc=True)
    if not _problem([program, *_TRY, "--ro-bind", "/proc", "/proc", "--", "true"]):
        return Tools(program, own_proc=False)
    raise RuntimeUnavailable(f"bubblewrap cannot make a sandbox here: {problem}")


def _find_tools_without_bubblewrap() -> Tools:
    processes = [tool_path("unshare"), "--pid", "--fork", "--ipc", "--uts"]
    if not _problem([*processes, "--mount-proc", "--", "true"]):
        return Tools("", own_proc=True)
    if problem := _problem([*processes, "--", "true"]):
        raise RuntimeUnavailable(f"bubblewrap not found ({INSTALL}), and unshare fails: {problem}")
    return Tools("", own_proc=False)


def _problem(arguments: list[str]) -> str:
    """Return why a program cannot run in the namespaces of a node, or an empty string."""
    problem = ""
    for options in ATTEMPTS if os.geteuid() == 0 else ATTEMPTS[1:]:
        unshare = [tool_path("unshare"), *options, "--mount", "--"]
        try:
            result = subprocess.run(
                [*unshare, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if result.returncode == 0:
            return ""
        problem = result.stderr.strip() or f"exit code {result.returncode}"
    return problem
