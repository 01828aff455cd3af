"""How long a workload may take to get ready: what the configuration says, its cluster queue, and it itself.

The configuration gives every workload the same clocks.  A cluster queue, which is the administrator's as
well, may give its workloads others, in ``spec.waitForPodsReady``; where the definition installed is Kueue's,
which has no such field, annotations of the queue do the same.  A workload, which is its user's, may ask by
annotation for what suits it, and gets it within the bounds of ``waitForPodsReady.overrides``.  Without an
upper bound nobody gets more than without asking: who waits longer keeps quota from others.
"""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.api.configuration import WaitForPodsReady
from quorate.api.duration import InvalidDuration, parse_duration
from quorate.api.kueue import ClusterQueueSpec

TIMEOUT: Final = "quorate.dev/pods-ready-timeout"
RECOVERY_TIMEOUT: Final = "quorate.dev/pods-recovery-timeout"
SCHEDULING_TIMEOUT: Final = "quorate.dev/pods-scheduling-timeout"
OVERRIDES: Final = (TIMEOUT, RECOVERY_TIMEOUT, SCHEDULING_TIMEOUT)


class Clocks(msgspec.Struct, frozen=True):
    """Limits in seconds; infinite where a clock never runs out."""

    timeout_s: float  # from admission until all pods are ready
    recovery_timeout_s: float = math.inf  # from the loss of a pod until all are ready again
    scheduling_timeout_s: float = math.inf  # from the creation of a pod until it has a node


class Overrides(msgspec.Struct, frozen=True):
    """Limits that somebody asked for; None where nobody did."""

    timeout_s: float | None = None
    recovery_timeout_s: float | None = None
    scheduling_timeout_s: float | None = None

    def over(self, clocks: Clocks) -> Clocks:
        return Clocks(
            clocks.timeout_s if self.timeout_s is None else self.timeout_s,
            clocks.recovery_timeout_s if self.recovery_timeout_s is None else self.recovery_timeout_s,
            clocks.scheduling_timeout_s if self.scheduling_timeout_s is None else self.scheduling_timeout_s,
        )


def clocks_of(annotations: Mapping[str, str], queue: Overrides, rules: WaitForPodsReady) -> Clocks:
    """The clocks of a workload with ``annotations`` in a cluster queue with overrides of its own."""
    configured = Clocks(
        rules.timeout_s, _or_never(rules.recovery_timeout_s), _or_never(rules.scheduling_timeout_s)
    )
    standing = queue.over(configured)
    asked = asked_by(annotations).over(standing)
    return Clocks(
        _bounded(asked.timeout_s, standing.timeout_s, rules),
        _bounded(asked.recovery_timeout_s, standing.recovery_timeout_s, rules),
        _bounded(asked.scheduling_timeout_s, standing.scheduling_timeout_s, rules),
    )


def queue_overrides(spec: ClusterQueueSpec, annotations: Mapping[str, str]) -> Overrides:
    """What a cluster queue gives its workloads; the field goes before the annotations."""
    if spec.wait_for_pods_ready is None:
        return asked_by(annotations)
    field = spec.wait_for_pods_ready
    return _overrides(field.timeout, field.recovery_timeout, field.scheduling_timeout)


def asked_by(annotations: Mapping[str, str]) -> Overrides:
    if annotations.keys().isdisjoint(OVERRIDES):
        return NONE
    return _overrides(*(annotations.get(key) for key in OVERRIDES))


def asked_findings(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with the overrides among ``annotations``, each of which counts as not given."""
    findings = []
    for key in OVERRIDES:
        problem = _problem(annotations[key]) if key in annotations else ""
        if problem:
            findings.append(f"metadata.annotations[{key}]: {problem}")
    return tuple(findings)


def _problem(text: str) -> str:
    try:
        seconds = parse_duration(text)
    except InvalidDuration as invalid:
        return str(invalid)
    return f"{text!r} is negative (write 0s or more)" if seconds < 0 else ""


def _bounded(asked_s: float, standing_s: float, rules: WaitForPodsReady) -> float:
    if asked_s == standing_s:
        return standing_s
    longest_s = standing_s if rules.longest_override_s is None else rules.longest_override_s
    return min(max(asked_s, rules.shortest_override_s), longest_s)


def _overrides(timeout: str | None, recovery: str | None, scheduling: str | None) -> Overrides:
    recovery_s, scheduling_s = _seconds(recovery), _seconds(scheduling)
    return Overrides(
        _seconds(timeout),
        None if recovery_s is None else _or_never(recovery_s),
        None if scheduling_s is None else _or_never(scheduling_s),
    )


def _seconds(text: str | None) -> float | None:
    """None also for what is no limit: it counts as not given."""
    return None if text is None or _problem(text) else parse_duration(text)


def _or_never(limit_s: float | None) -> float:
    """A limit of 0, or none, switches a clock off: so says the configuration of ``recoveryTimeout``."""
    return limit_s or math.inf


NONE: Final = Overrides()
