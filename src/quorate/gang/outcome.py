"""The decisions of one session: the only output of the core."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quorate.api.meta import Key, Uid
from quorate.api.volcano import PodGroupCondition
from quorate.gang.admission_record import NO_ADMISSION, AdmissionRecord
from quorate.gang.pending_reasons import PendingReason

# What evicts: an action for another gang, or the repair of a gang that has been partially bound for too long.
EvictionAction = Literal["preempt", "reclaim", "repair"]


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind ``task`` to ``node``."""

    task: Key
    uid: Uid
    gang: Key
    node: str
    created: float  # when its pod was created, in seconds since the epoch


@dataclass(frozen=True, slots=True)
class Eviction:
    """Delete the pod ``task`` so that the gang ``beneficiary`` can be placed."""

    task: Key
    uid: Uid
    gang: Key
    beneficiary: Key  # the task's own gang if that was partially bound
    action: EvictionAction
    whole: bool  # all tasks of its gang are evicted


@dataclass(frozen=True, slots=True)
class Nomination:
    """Write ``node`` to the pod's ``nominatedNodeName``, because pods are evicted there for it."""

    task: Key
    uid: Uid
    node: str


@dataclass(frozen=True, slots=True)
class Counts:
    running: int
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class GangStatus:
    """The status of one pod group, annotations included.  Part of an outcome only if it changed."""

    gang: Key
    uid: Uid  # of the pod group it was computed for: a group created anew under the name starts afresh
    phase: str
    conditions: tuple[PodGroupCondition, ...]
    counts: Counts
    admission: AdmissionRecord = NO_ADMISSION


@dataclass(frozen=True, slots=True)
class AdmittedGang:
    """A pod group that may have pods from now on."""

    gang: Key
    queue: str
    waited_s: float  # since it was created
    victims: tuple[Key, ...] = ()  # the tasks to be evicted for it, as far as its pods are known


@dataclass(frozen=True, slots=True)
class RefusedGang:
    """A pod group that starts to wait, or is rolled back to wait, for ``reason``."""

    gang: Key
    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """An event about a pod group."""

    gang: Key
    uid: Uid
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The decisions of one session, each list in the order of the decisions."""

    binds: tuple[Bind, ...]
    evictions: tuple[Eviction, ...]
    nominations: tuple[Nomination, ...]
    pipelined: Mapping[Key, str]  # the node of each task that waits for pods to leave it
    statuses: tuple[GangStatus, ...]
    events: tuple[GroupEvent, ...]
    admitted: tuple[AdmittedGang, ...]
    refused: tuple[RefusedGang, ...]  # one for each change of a group's reason
    rolled_back: tuple[RefusedGang, ...]
    pending_reasons: Mapping[Key, PendingReason]  # of each gang that waits
    wake_at: float | None  # when the next session is due even if no object changes
