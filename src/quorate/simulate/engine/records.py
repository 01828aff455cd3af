"""What a run records: the fate of every job, and the use of quota over time.

Memory is bounded by a few numbers per job and per queue: a run of a million jobs takes tens of megabytes.
"""

from array import array
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from quorate.quota.amount import FlavorResource, Usage
from quorate.simulate.limits import MAX_SAMPLES

NEVER: Final = -1


class Outcome(IntEnum):
    WAITING = 0  # at the end of the run
    RUNNING = 1
    SUCCEEDED = 2
    FAILED = 3
    DEACTIVATED = 4


class JobRecords:
    """One entry per job in each array, in the order of submission.  Times are in ms after the start."""

    def __init__(self) -> None:
        self.class_index = array("H")
        self.queue_index = array("I")  # of the local queue, see ``Run.queues``
        self.submitted_ms = array("q")
        self.runs_ms = array("q")  # with all its pods and without interruption
        self.pods = array("I")
        self.admitted_ms = array("q")  # for the first time; NEVER
        self.ended_ms = array("q")  # NEVER if it had not at the end of the run
        self.admissions = array("I")
        self.preemptions = array("I")
        self.evictions = array("I")  # for another reason
        self.outcome = array("B")

    def __len__(self) -> int:
        return len(self.submitted_ms)

    def add(self, class_index: int, queue_index: int, submitted_ms: int, runs_ms: int, pods: int) -> int:
        """Add a job that waits and return its number."""
        self.class_index.append(class_index)
        self.queue_index.append(queue_index)
        self.submitted_ms.append(submitted_ms)
        self.runs_ms.append(runs_ms)
        self.pods.append(pods)
        self.admitted_ms.append(NEVER)
        self.ended_ms.append(NEVER)
        for zeros in (self.admissions, self.preemptions, self.evictions, self.outcome):
            zeros.append(0)
        return len(self.submitted_ms) - 1


class Transition(IntEnum):
    ADMITTED = 0
    PREEMPTED = 1
    EVICTED = 2  # for another reason


class TransitionRecords:
    """Every admission and eviction in order, one entry in each array."""

    def __init__(self) -> None:
        self.at_ms = array("q")
        self.job = array("I")  # its number
        self.kind = array("B")

    def __len__(self) -> int:
        return len(self.at_ms)

    @property
    def columns(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """The times, jobs and kinds."""
        return self.at_ms, self.job, self.kind

    def add(self, at_ms: int, job: int, kind: Transition) -> None:
        self.at_ms.append(at_ms)
        self.job.append(job)
        self.kind.append(kind)


class _Meter:
    """The amount in use of one flavor and resource in one cluster queue."""

    __slots__ = ("integral", "level", "since_ms")

    def __init__(self) -> None:
        self.level = 0
        self.since_ms = 0
        self.integral = 0  # amount times ms, until ``since_ms``

    def add(self, amount: int, now_ms: int) -> None:
        self.integral += self.level * (now_ms - self.since_ms)
        self.level += amount
        self.since_ms = now_ms

    def until(self, now_ms: int) -> int:
        return self.integral + self.level * (now_ms - self.since_ms)


class UsageRecords:
    """The use of each pair of cluster queue (or node) and flavor resource, sampled at equal intervals.

    A sample is the integral since the start (amount in base units times ms), so that the mean over any
    interval between samples is exact.
    """

    def __init__(self, interval_ms: int, most_samples: int = MAX_SAMPLES) -> None:
        self._most_samples = most_samples
        self.interval_ms = interval_ms
        self.sampled_ms: list[int] = []
        self.samples: dict[tuple[str, FlavorResource], list[int]] = {}
        self.waiting: list[int] = []  # jobs, at each sample
        self._meters: dict[tuple[str, FlavorResource], _Meter] = {}
        self._next_ms = interval_ms

    def change(self, queue: str, usage: Usage | Mapping[FlavorResource, int], sign: int, now_ms: int) -> None:
        """Count ``sign`` times ``usage`` in a cluster queue from now on."""
        for pair, amount in usage.items():
            meter = self._meters.get((queue, pair))
            if meter is None:
                meter = self._meters[queue, pair] = _Meter()
                self.samples[queue, pair] = [0] * len(self.sampled_ms)
            meter.add(sign * amount, now_ms)

    def advance(self, now_ms: int, waiting: int) -> None:
        """Take the samples that are due before or at ``now_ms``; ``waiting`` jobs waited until now."""
        while self._next_ms <= now_ms:
            self._sample(self._next_ms, waiting)
            self._next_ms += self.interval_ms
            if len(self.sampled_ms) >= self._most_samples:
                self._halve()

    def finish(self, now_ms: int, waiting: int) -> None:
        """Take the last sample, at the end of the run."""
        self.advance(now_ms, waiting)
        if not self.sampled_ms or self.sampled_ms[-1] < now_ms:
            self._sample(now_ms, waiting)

    def mean(self, queue: str, flavor: str, resource: str, until_ms: int) -> float:
        """Return the mean amount in use from the start until ``until_ms``, the end of the run."""
        meter = self._meters.get((queue, FlavorResource(flavor, resource)))
        return 0.0 if meter is None or not until_ms else meter.until(until_ms) / until_ms

    def _sample(self, at_ms: int, waiting: int) -> None:
        self.sampled_ms.append(at_ms)
        self.waiting.append(waiting)
        samples = self.samples
        for pair, meter in self._meters.items():  # ``until``, without a call for each of thousands
            samples[pair].append(meter.integral + meter.level * (at_ms - meter.since_ms))

    def _halve(self) -> None:
        self.sampled_ms = self.sampled_ms[1::2]
        self.waiting = self.waiting[1::2]
        self.samples = {pair: series[1::2] for pair, series in self.samples.items()}
        self.interval_ms *= 2
        self._next_ms = self.sampled_ms[-1] + self.interval_ms
