"""When limits were lowered: what was admitted under a higher limit may stay above the present one."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

from quorate.api.kueue import ClusterQueue, Cohort
from quorate.api.meta import Uid
from quorate.witness.limits import Holder, Kept
from quorate.witness.report import Reason

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Seen:
    limit: int | None  # None: no limit
    queues: frozenset[str]  # the cluster queues that share it
    kept: Mapping[Holder, Kept]  # below it: use within what is kept does not count


class SpecVersions:
    """The versions of the specs of cluster queues and cohorts that the last observation saw.

    Changes may be closer together than observations.  What was admitted under a version in between may be
    above the limits before and after it.
    """

    def __init__(self) -> None:
        self._seen: dict[Holder, tuple[Uid, int]] = {}

    def missed(self, objects: Iterable[ClusterQueue | Cohort]) -> frozenset[Holder]:
        """Return the holders with a version since the last observation that is not that of ``objects``."""
        metadata = {
            Holder("ClusterQueue" if isinstance(obj, ClusterQueue) else "Cohort", obj.metadata.name): (
                obj.metadata.uid, obj.metadata.generation
            )
            for obj in objects
        }  # fmt: skip
        missed = set()
        for holder, (uid, generation) in metadata.items():
            old_uid, old_generation = self._seen.get(holder, (uid, 0))
            if generation > (old_generation if uid == old_uid else 0) + 1:
                missed.add(holder)
        self._seen = metadata
        return frozenset(missed)


class LoweredLimits(Generic[K]):
    """The limits of the last observation, and the last moment at which each was lowered.

    A cluster queue that joins a cohort lowers what the cohort has left, too, if the queue existed before, and
    so does a child that keeps less of its quota for its queues, or that one of these leaves.  A resource that
    newly gets quota had no quota for the usage that runs already.
    """

    def __init__(self) -> None:
        self._seen: dict[K, _Seen] = {}
        self._queues: frozenset[str] = frozenset()
        self._lowered: dict[K, float] = {}
        self._started_at: float | None = None

    def observation(self, now: float) -> "_Observation[K]":
        if self._started_at is None:
            self._started_at = now
        return _Observation(self, now)

    def reason(self, lowered_at: float) -> Reason:
        """Return the reason of a difference that is excused by the limit before ``lowered_at``."""
        return Reason.BEFORE_START if lowered_at == self._started_at else Reason.LIMIT_LOWERED

    def _lowered_at(self, key: K, new: _Seen, now: float, *, may_be_lower: bool) -> float:
        old = self._seen.get(key)
        is_lower = bool(new.queues & self._queues) if old is None else self._is_lower(new, old)
        if now == self._started_at or is_lower or may_be_lower:
            self._lowered[key] = now
        return self._lowered.get(key, -inf)

    def _is_lower(self, new: _Seen, old: _Seen) -> bool:
        if new.limit is not None and (old.limit is None or new.limit < old.limit):
            return True
        if any(_holds_less(kept, new.kept.get(holder)) for holder, kept in old.kept.items()):
            return True
        return bool((new.queues - old.queues) & self._queues)

    def _replace(self, seen: dict[K, _Seen]) -> None:
        self._seen = seen
        self._queues = frozenset().union(*(limit.queues for limit in seen.values()))
        self._lowered = {key: at for key, at in self._lowered.items() if key in seen}


@dataclass(slots=True)
class _Observation(Generic[K]):
    """One observation; limits that it does not ask about do not exist any more at its ``end``."""

    _limits: LoweredLimits[K]
    _now: float
    _seen: dict[K, _Seen] = field(default_factory=dict)

    def lowered_at(
        self,
        key: K,
        limit: int | None,
        queues: frozenset[str],
        kept: Mapping[Holder, Kept],
        *,
        may_be_lower: bool = False,
    ) -> float:
        """Return when the limit was last lowered, -inf if it never was.

        ``may_be_lower``: limits between the last observation and this observation are not known.
        """
        self._seen[key] = seen = _Seen(limit, queues, kept)
        return self._limits._lowered_at(key, seen, self._now, may_be_lower=may_be_lower)

    def end(self) -> None:
        self._limits._replace(self._seen)


def _holds_less(old: Kept, new: Kept | None) -> bool:
    return new is None or new.amount < old.amount or bool(old.queues - new.queues)
