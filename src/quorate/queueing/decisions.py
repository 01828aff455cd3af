"""What a cycle decides.  Values only: the shell turns them into writes, ``explain`` into words."""

from typing import Literal

import msgspec

from quorate.api.kueue import Admission, PodSetRequest
from quorate.api.meta import Key, Uid
from quorate.queueing.inadmissible_reasons import InadmissibleReason, inadmissible_message

PreemptionReason = Literal[
    "InClusterQueue", "InCohortReclamation", "InCohortFairSharing", "InCohortReclaimWhileBorrowing"
]


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """Take quota for a workload.

    The state counts it as reserving already; if it cannot be written, tell ``State.forget``.
    """

    key: Key
    uid: Uid
    resource_version: str
    cluster_queue: str
    admission: Admission
    admitted: bool  # no admission check is outstanding: it may start with this very write
    waited_s: float  # since it was created or last requeued


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Do not admit a workload, and say why."""

    key: Key
    uid: Uid
    resource_version: str
    reason: Literal["Pending", "Waiting", "Inadmissible"]
    reasons: tuple[InadmissibleReason, ...]
    requests: tuple[PodSetRequest, ...]

    @property
    def message(self) -> str:
        return inadmissible_message(self.reasons)


class Preempt(msgspec.Struct, frozen=True, kw_only=True):
    """Evict a workload so that another may start.  It keeps its quota until its job has stopped."""

    key: Key
    uid: Uid
    resource_version: str
    reason: PreemptionReason
    message: str
    preemptor: Key


Decision = Reserve | Hold | Preempt


class CycleResult(msgspec.Struct, frozen=True):
    """The outcome of one run of the core."""

    decisions: tuple[Decision, ...]
    wake_at: float | None  # epoch seconds at which another run may decide more; None: when something changes
    # The cluster queue of each workload that would have preempted, but for those before it.
    preemption_skips: tuple[str, ...] = ()
