"""The decisions of an admission cycle, as values: controllers write them, ``explain`` shows them."""

from typing import Literal

import msgspec

from quorate.api.kueue import Admission, PodSetRequest, ResourceGroup
from quorate.api.meta import Key, Uid
from quorate.queueing.inadmissible_reasons import InadmissibleReason, NodesLackRoom, inadmissible_message
from quorate.queueing.planning.announced_starts import AnnouncedStart

PreemptionReason = Literal[
    "InClusterQueue", "InCohortReclamation", "InCohortFairSharing", "InCohortReclaimWhileBorrowing"
]


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """Reserve quota for a workload.

    The ledger counts the reservation already; if the write fails, ``State.forget`` undoes it.
    """

    key: Key
    uid: Uid
    resource_version: str
    cluster_queue: str
    admission: Admission
    admitted: bool  # no admission check is outstanding: it may start with this very write
    waited_s: float  # since it was created or last requeued
    checks: tuple[str, ...] = ()  # the admission checks of its flavors
    cluster: str = ""  # the worker cluster of the slice that it replaces: the job runs there
    executed_s: int | None = None  # how long the job has been admitted with the slices that it replaces
    unplaced: tuple[NodesLackRoom, ...] = ()  # admitted by quota, although no node has room for some pods


ConditionReason = Literal["Pending", "Waiting", "Inadmissible"]  # of QuotaReserved=False


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Keep a workload pending, for the given reasons."""

    key: Key
    uid: Uid
    resource_version: str
    condition_reason: ConditionReason
    reasons: tuple[InadmissibleReason, ...]
    requests: tuple[PodSetRequest, ...]
    groups: tuple[ResourceGroup, ...] = ()  # of its cluster queue
    evaluated_at: float | None = None  # epoch seconds; None: the reasons are those of now
    announced: AnnouncedStart | None = None  # its planned start

    @property
    def message(self) -> str:
        return inadmissible_message(self.reasons)


class Preempt(msgspec.Struct, frozen=True, kw_only=True):
    """Evict a workload in favor of ``preemptor``.  It keeps its quota until its job has stopped."""

    key: Key
    uid: Uid
    resource_version: str
    reason: PreemptionReason
    message: str
    preemptor: Key


class AssignTopology(msgspec.Struct, frozen=True):
    """Record the places of a second pass; no host is recorded as failed any more."""

    key: Key
    uid: Uid
    resource_version: str
    admission: Admission


class SecondPassFailed(msgspec.Struct, frozen=True):
    """Tell that a workload with quota got no places; it is tried again later."""

    key: Key
    uid: Uid
    resource_version: str
    message: str


class Evict(msgspec.Struct, frozen=True):
    """Evict a workload that cannot go on as admitted."""

    key: Key
    uid: Uid
    resource_version: str
    reason: str
    message: str


Decision = Reserve | Hold | Preempt | AssignTopology | SecondPassFailed | Evict


class CycleFault(msgspec.Struct, frozen=True):
    """An exception that the evaluation of one workload raised; it is kept pending."""

    key: Key
    error: Exception


RecomputationResult = Literal["new_targets", "deferred_fit", "skipped"]


class Recomputation(msgspec.Struct, frozen=True):
    """An assignment that was computed again without the preemption targets of earlier heads."""

    cluster_queue: str
    result: RecomputationResult


class CycleResult(msgspec.Struct, frozen=True):
    """The outcome of one run of the admission cycle."""

    decisions: tuple[Decision, ...]
    wake_at: float | None  # epoch seconds at which another run is due; None: after the next event
    # The cluster queue of each preemptor that was skipped because of an earlier head of its round.
    preemption_skips: tuple[str, ...] = ()
    faults: tuple[CycleFault, ...] = ()
    sampled: tuple[Key, ...] = ()  # the local queues of which the consumed usage changed by a sample
    # Pending workloads that became inadmissible with the outcome of another one; ``why_pending`` returns it.
    parked: tuple[Key, ...] = ()
    is_paused: bool = False  # as the caller asked for; then ``wake_at`` is the time of the run
    recomputations: tuple[Recomputation, ...] = ()
    announced: tuple[Key, ...] = ()  # pending workloads of which the planned start is to be told
