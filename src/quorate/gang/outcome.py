"""What a session decided: the only thing that leaves the core."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quorate.api.meta import Key, Uid
from quorate.api.volcano import PodGroupCondition
from quorate.gang.verdicts import Verdict

# What evicts: one of the actions, for another gang; or the end of the time that a gang may be half bound.
Evictor = Literal["preempt", "reclaim", "repair"]


@dataclass(frozen=True, slots=True)
class Bind:
    """Tell the API that ``task`` runs on ``node``; ``gang`` is bound whole or repaired."""

    task: Key
    uid: Uid
    gang: Key
    node: str
    created: float  # when its pod was, in seconds since the epoch


@dataclass(frozen=True, slots=True)
class Eviction:
    """Delete ``task`` so that ``beneficiary`` can be placed."""

    task: Key
    uid: Uid
    gang: Key
    beneficiary: Key  # a gang; its own, when that was half bound
    action: Evictor
    whole: bool  # with all of its gang


@dataclass(frozen=True, slots=True)
class Nomination:
    """Note on the pod that ``node`` is promised to it, because others are evicted there for it."""

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
    """What the status of one pod group, and our annotations on it, are to say.  Told only when it changed."""

    gang: Key
    uid: Uid  # of the pod group it was decided for: one made again under the name starts afresh
    phase: str
    conditions: tuple[PodGroupCondition, ...]
    counts: Counts
    inqueue_since: float | None  # seconds since the epoch; from its admission until it first runs
    not_before: float | None  # not admitted again earlier
    attempts: int  # how often it was rolled back since it last ran
    attempted: str = ""  # the digest of the spec that these were attempts with


@dataclass(frozen=True, slots=True)
class Admitted:
    """A group may have pods from now on."""

    gang: Key
    queue: str
    waited_s: float  # since it was created


@dataclass(frozen=True, slots=True)
class Refused:
    """A group waits, or goes back to wait, for ``reason``."""

    gang: Key
    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """An event to be told of one pod group."""

    gang: Key
    uid: Uid
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """All of one session, each list in the order it was decided."""

    binds: tuple[Bind, ...]
    evictions: tuple[Eviction, ...]
    nominations: tuple[Nomination, ...]
    promised: Mapping[Key, str]  # the node of each task that waits for room to be given back there
    statuses: tuple[GangStatus, ...]
    notices: tuple[Notice, ...]
    admitted: tuple[Admitted, ...]
    refused: tuple[Refused, ...]  # each once for every reason it has in turn
    sent_back: tuple[Refused, ...]
    verdicts: Mapping[Key, Verdict]  # of each gang that waits: why
    wake_at: float | None  # when time alone will change something
