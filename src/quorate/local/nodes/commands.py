"""What simple commands do on a simulated node: how long they sleep, and with which code they exit.

Manifests that were written to try a queue run ``sleep 60`` or ``exit 1``. Of all other commands the effect is
not known.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from quorate.local.nodes.pod_types import Container


class Run(NamedTuple):
    """What a command does."""

    duration_s: float | None  # None: it runs until it is stopped
    exit_code: int = 0


_UNTIL_STOPPED: Final = Run(None)
_SHELLS: Final = ("sh", "bash", "ash", "dash")
_SCRIPT_FLAG: Final = re.compile(r"-[a-z]*c")
_SEPARATOR: Final = re.compile(r"(;|&&|\n)")
_OTHER_SYNTAX: Final = re.compile(r"[|&<>`(){}*]|\$\(")
_SLEEP: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_UNIT_S: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_INSTANT: Final = ("echo", "printf", "true", ":", "date", "hostname", "set", "export")
_SERVERS: Final = ("pause", "nginx", "httpd", "redis", "memcached")  # images that serve until stopped
_MAX_SCRIPT: Final = 1_000  # characters; longer ones are no simple commands


def run_of(containers: Iterable[Container]) -> Run | None:
    """Return how long a pod runs and with which exit code it ends, by the commands of its ``containers``.

    The longest container decides how long, and the first exit code other than 0 is the exit code of the pod.
    Return None if the command of a container is not a simple command.
    """
    runs = [_run(container.image, container.command, container.args) for container in containers]
    known = [run for run in runs if run is not None]
    if not known or len(known) < len(runs):
        return None
    code = next((run.exit_code for run in known if run.exit_code), 0)
    durations = [run.duration_s for run in known]
    return Run(
        None if None in durations else max(duration for duration in durations if duration is not None), code
    )


@lru_cache(maxsize=1_024)
def _run(image: str, command: tuple[str, ...], args: tuple[str, ...]) -> Run | None:
    words = (*command, *args)
    name = image.rpartition("/")[2].partition(":")[0].partition("@")[0]
    if sum(map(len, words)) > _MAX_SCRIPT:
        return None
    if not words and name in _SERVERS:
        return _UNTIL_STOPPED
    if not command and args and name == "sleep":  # of Kubernetes' tests: its first argument is the time
        return _sleep(args[:1])
    if not words:
        return None
    program = words[0].rpartition("/")[2]
    if program in _SHELLS and len(words) == 3 and _SCRIPT_FLAG.fullmatch(words[1]):
        return _script(words[2])
    return _UNTIL_STOPPED if words == ("pause",) else _statement((program, *words[1:]))


def _script(text: str) -> Run | None:
    """Return what a script of simple statements does."""
    total_s, code = 0.0, 0
    parts = ["\n", *_SEPARATOR.split(text.strip())]
    for separator, written in zip(parts[::2], parts[1::2], strict=True):
        if separator == "&&" and code:
            continue
        if _OTHER_SYNTAX.search(written):
            return None
        try:
            words = shlex.split(written, comments=True)
        except ValueError:
            return None
        if not words:
            continue
        run = _statement(words)
        if run is None or run.duration_s is None:
            return run
        total_s, code = total_s + run.duration_s, run.exit_code
        if words[0] == "exit":
            break
    return Run(total_s, code)


def _statement(words: Sequence[str]) -> Run | None:
    match words:
        case ["sleep", *times] if times:
            return _sleep(times)
        case ["tail", "-f", "/dev/null"]:
            return _UNTIL_STOPPED
        case ["exit"]:
            return Run(0.0)
        case ["exit", code] if code.isascii() and code.isdecimal():
            return Run(0.0, int(code) % 256)
        case ["false"]:
            return Run(0.0, 1)
        case [name, *_] if name in _INSTANT:
            return Run(0.0)
    return None


def _sleep(times: Sequence[str]) -> Run | None:
    """Return the sum of times such as ``10``, ``1.5m`` or ``infinity``; None if one is none."""
    if any(time in ("infinity", "inf") for time in times):
        return _UNTIL_STOPPED
    found = [_SLEEP.fullmatch(time) for time in times]
    parts = [match.groups() for match in found if match is not None]
    if len(parts) < len(found):
        return None
    return Run(sum(float(amount) * _UNIT_S[unit] for amount, unit in parts))
