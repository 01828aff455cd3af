"""Annotations that control the simulated behavior of a pod.

docs/reference/simulated-pods.md documents them for users.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from quorate.api.batch import JOB_COMPLETION_INDEX
from quorate.local.nodes.commands import Run

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
