"""What a forecast reads and returns.

The controllers exchange these values with the process that plays the queues, and import no simulation.
"""

import msgspec

from quorate.api.explanation import Confidence, StartAnswer
from quorate.api.meta import Key
from quorate.queueing.planning.work_kinds import WorkKind


class WaitingStart(msgspec.Struct, frozen=True):
    """When one waiting workload is expected to start, epoch seconds; None: in fewer of the runs."""

    namespace: str
    name: str
    p50: float | None
    p90: float | None
    runs: int
    run_times: str  # where its run time is from
    samples: int  # finished workloads that its run time is of
    confidence: Confidence

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


class LearnedBound(msgspec.Struct, frozen=True):
    """A run time that most workloads of one kind do not exceed."""

    kind: WorkKind
    seconds: float


class Refresh(msgspec.Struct, frozen=True):
    at: float  # the moment of the world, epoch seconds
    starts: tuple[WaitingStart, ...]  # by key
    runs: int  # of this refresh
    processor_s: float  # that it took, with all that was put since the refresh before
    bounds: tuple[LearnedBound, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    answer: StartAnswer
    processor_s: float  # that it took, with all that was put since the last refresh or answer
