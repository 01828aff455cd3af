"""The message of a start that failed, from what the launchers of a command write."""

import shutil
import subprocess

import pytest

from quorate.local.runtime.containers.running import start_failure
from quorate.local.runtime.containers.unshare_launcher import REAPER

ABSENT = 'exec: "nope": executable file not found in $PATH'
NO_FILE = 'exec: "/no/x": stat /no/x: no such file or directory'
FORBIDDEN = 'exec: "/etc/passwd": permission denied'


@pytest.mark.parametrize(
    ("code", "text", "message"),
    [
        (1, "bwrap: execvp nope: No such file or directory", ABSENT),
        (1, "bwrap: execvp /etc/passwd: Permission denied", FORBIDDEN),
        (127, "setpriv: failed to execute nope: No such file or directory", ABSENT),
        (126, "nsenter: failed to execute /etc/passwd: Permission denied", FORBIDDEN),
        (127, "init: 1: exec: nope: not found", ABSENT),
        (127, "init: 1: exec: /no/x: not found", NO_FILE),
        (127, "init: line 1: exec: nope: not found", ABSENT),
        (127, "init: line 1: /no/x: No such file or directory", NO_FILE),
        (127, "init: exec: line 0: nope: not found", ABSENT),
        (1, "bwrap: Can't mkdir /x: Read-only file system", "bwrap: Can't mkdir /x: Read-only file system"),
        # The shell is the command.
        (127, "sh: 1: nope: not found", ""),
        (127, "sh: 1: exec: nope: not found", ""),
        (126, "sh: 1: /etc/passwd: Permission denied", ""),
        (3, "bwrap: execvp nope: No such file or directory", ""),
    ],
)
def test_a_message_is_that_of_a_kubelet(code: int, text: str, message: str) -> None:
    assert start_failure(code, text) == message


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox"])
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("nope",), ABSENT),
        (("/no/x",), NO_FILE),
        (("/etc/passwd",), FORBIDDEN),
        (("set", "-e"), 'exec: "set": executable file not found in $PATH'),
        (("sh", "-c", "nope"), ""),
    ],
)
def test_any_shell_names_the_command_it_cannot_execute(
    shell: str, command: tuple[str, ...], message: str
) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"there is no {shell}")
    arguments = [path, *(["sh"] if shell == "busybox" else []), *REAPER[1:], *command]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert start_failure(result.returncode, result.stderr.strip()) == message
