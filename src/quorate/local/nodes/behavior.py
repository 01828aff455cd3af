"""The simulated behavior of a pod, by its annotations or by simple commands of its containers.

docs/reference/simulated-pods.md documents the annotations for users. Manifests that were written to try a
queue run ``sleep 60`` or ``exit 1``: how long such commands sleep, and their exit codes, are known. Of all
other commands the effect is not known.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from quorate.api.batch import JOB_COMPLETION_INDEX
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
_SLEEP_UNIT_S: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_INSTANT: Final = ("echo", "printf", "true", ":", "date", "hostname", "set", "export")
_SERVERS: Final = ("pause", "nginx", "httpd", "redis", "memcached")  # images that serve until stopped
_MAX_SCRIPT: Final = 1_000  # characters; longer ones are no simple commands


def run_of(containers: Iterable[Container]) -> Run | None:
    """Return how long a pod runs and with which exit code it ends, by the commands of its ``containers``.

    The longest container decides how long, and the first exit code other than 0 is the exit code of the pod.
    Return None if the command of a container is not a simple command.
    """
    runs = [_run(container.image, container.command, container.args) for container in containers]
    finite = [run for run in runs if run is not None]
    if not finite or len(finite) < len(runs):
        return None
    code = next((run.exit_code for run in finite if run.exit_code), 0)
    durations = [run.duration_s for run in finite]
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
    """Return the sum of times such as ``10``, ``1.5m`` or ``infinity``; None for a text that is no time."""
    if any(time in ("infinity", "inf") for time in times):
        return _UNTIL_STOPPED
    matches = [_SLEEP.fullmatch(time) for time in times]
    parts = [match.groups() for match in matches if match is not None]
    if len(parts) < len(matches):
        return None
    return Run(sum(float(amount) * _SLEEP_UNIT_S[unit] for amount, unit in parts))


PREFIX: Final = "simulate.quorate.dev/"
START_DELAY: Final = PREFIX + "start-delay"
STOP_DELAY: Final = PREFIX + "stop-delay"
DURATION: Final = PREFIX + "duration"
TOGETHER: Final = PREFIX + "together"
EXIT_CODE: Final = PREFIX + "exit-code"
USAGE: Final = PREFIX + "usage"  # of each container: cpu=250m,memory=1Gi
FOREVER: Final = "forever"

_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class PodBehavior:
    start_delay_s: float = 1.0
    duration_s: float | None = 1.0  # None: runs until deleted
    together: int | None = 1  # number of pods of its owner that must run for time to count; None: all
    exit_code: int = 0
    stop_delay_s: float = 0.0  # from the deletion of the pod until its containers have ended


RUNS_TO_COMPLETION: Final = PodBehavior()
RUNS_UNTIL_DELETED: Final = PodBehavior(duration_s=None)
COMMUNICATES: Final = PodBehavior(duration_s=10.0, together=None)


class InvalidBehavior(ValueError):
    """An annotation has an invalid value."""

    def __init__(self, annotation: str, value: str, rule: str) -> None:
        super().__init__(annotation, value, rule)
        self.annotation, self.value, self.rule = annotation, value, rule

    def __str__(self) -> str:
        return f"annotation {self.annotation}: {self.value!r} {self.rule}"


def parse_behavior(
    annotations: Mapping[str, str], restart_policy: str, subdomain: str = "", run: Run | None = None
) -> PodBehavior:
    """Parse the annotations of a pod; ``run`` is what its commands do.  Raises ``InvalidBehavior``.

    Without an annotation, a pod runs as its commands say, and where these are not known, one with restart
    policy Always runs until it is deleted.  A pod of an Indexed Job
    with a subdomain has a DNS name that its peers can compute, as they need to communicate with each other
    (https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication/): it waits until all of them run.
    """
    default = RUNS_TO_COMPLETION
    if restart_policy == "Always":
        default = RUNS_UNTIL_DELETED
    elif subdomain and JOB_COMPLETION_INDEX in annotations:
        default = COMMUNICATES
    if run is not None:
        default = replace(default, duration_s=run.duration_s, exit_code=run.exit_code)
    start_delay, duration = annotations.get(START_DELAY), annotations.get(DURATION)
    together = default.together
    if TOGETHER in annotations:
        together = _whole_number(annotations, TOGETHER, 1, 1, 1_000_000)
    return PodBehavior(
        start_delay_s=default.start_delay_s if start_delay is None else _seconds(START_DELAY, start_delay),
        duration_s=default.duration_s if duration is None else _seconds_or_forever(duration),
        together=together,
        exit_code=_whole_number(annotations, EXIT_CODE, default.exit_code, 0, 255),
        stop_delay_s=_seconds(STOP_DELAY, annotations.get(STOP_DELAY, "0s")),
    )


def _seconds(annotation: str, text: str) -> float:
    if not _DURATION.fullmatch(text):
        raise InvalidBehavior(annotation, text, "is not a duration (write 500ms, 2s or 1m30s)")
    return sum(float(amount) * _UNIT_S[unit] for amount, unit in _DURATION_PART.findall(text))


def _seconds_or_forever(text: str) -> float | None:
    return None if text == FOREVER else _seconds(DURATION, text)


def _whole_number(annotations: Mapping[str, str], annotation: str, default: int, low: int, high: int) -> int:
    text = annotations.get(annotation)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
        raise InvalidBehavior(annotation, text, f"is not a whole number from {low} to {high}")
    return int(text)
