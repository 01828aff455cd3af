"""Jobs that a forecast expects: submissions go on as often as the recent ones of each kind of work.

The times between the submissions of a kind are exponential with the mean of the times that were seen.  Each
job has the pod sets and the priority of the latest, and as many pods as one of the recent ones.  Days and
weeks are not modelled: at the beginning of a night a forecast expects the submissions of the day.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.core.pod_templates import PlaceableTemplate
from quorate.api.interning import InternCache
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import epoch
from quorate.queueing.planning.work_kinds import WorkKind, kind_of
from quorate.simulate.estimates.run_time_store import RunTimeStore
from quorate.simulate.inputs.distributions import Choice, Distribution, Exponential
from quorate.simulate.inputs.scenario import Arrivals, JobClass, PodSetShape
from quorate.simulate.limits import FEWEST_EXPECTED, HORIZON_S, LEAST_SEEN_S, MAX_KINDS, MAX_RUN_TIMES

TIMES_SEEN: Final = 4.0  # what lasted for a time is expected to end within a few times as long


class _Submission(msgspec.Struct, frozen=True):
    created_s: float
    counts: tuple[int, ...]  # pods by pod set


class _Kind(msgspec.Struct):
    latest: Workload
    submissions: dict[str, _Submission]  # by uid, the latest last


class ArrivalStore:
    """The recent submissions of each kind of work, in bounded memory."""

    def __init__(self, most_kinds: int = MAX_KINDS, most_submissions: int = MAX_RUN_TIMES) -> None:
        self._most_kinds = most_kinds
        self._most_submissions = most_submissions
        self._kinds: dict[WorkKind, _Kind] = {}  # the one without a submission for the longest time first
        self._since_s: float | None = None  # the first submission

    def __len__(self) -> int:
        return len(self._kinds)

    def learn(self, workload: Workload) -> None:
        """Count the submission of a workload; a workload that is seen again counts once."""
        created, kind = workload.metadata.creation_timestamp, kind_of(workload)
        if created is None:
            return
        record = self._kinds.get(kind)
        uid = workload.metadata.uid or workload.metadata.name
        if record is not None and uid in record.submissions:
            return
        if not can_be_played(workload):
            return
        created_s = epoch(created)
        self._since_s = created_s if self._since_s is None else min(self._since_s, created_s)
        self._kinds.pop(kind, None)
        record = self._kinds[kind] = record or _Kind(workload, {})
        record.latest = workload
        record.submissions[uid] = _Submission(
            created_s, tuple(pod_set.count for pod_set in workload.spec.pod_sets)
        )
        if len(record.submissions) > self._most_submissions:
            del record.submissions[next(iter(record.submissions))]
        if len(self._kinds) > self._most_kinds:
            del self._kinds[next(iter(self._kinds))]

    def expected(self, run_times: RunTimeStore, now: float, assumed_s: float, waiting: int) -> "Expected":
        """Return a class of jobs for each kind, and how long they are submitted.

        They are expected for ``TIMES_SEEN`` as long as they were seen: ten minutes tell little of a week.
        About half as many jobs are expected as workloads wait, and ``FEWEST_EXPECTED``, which bounds the cost
        of a run.  Jobs of which nothing is known run as long as others of their queue, of all queues, or
        ``assumed_s``.
        """
        rates = {kind: self._rate(arrivals, now) for kind, arrivals in self._kinds.items()}
        total = sum(rates.values())
        seen_s = 0.0 if self._since_s is None else TIMES_SEEN * max(now - self._since_s, LEAST_SEEN_S)
        horizon_s = min(HORIZON_S, seen_s, (FEWEST_EXPECTED + waiting // 2) / total) if total else HORIZON_S
        everywhere = run_times.everywhere() or (assumed_s,)
        classes = []
        for number, kind in enumerate(sorted(self._kinds)):
            arrivals, best = self._kinds[kind], run_times.best_kind(kind)
            times = everywhere if best is None else run_times.times_of(best)
            every = Exponential(1 / rates[kind])
            classes.append(
                _class(number, arrivals, equally_likely(times), Arrivals(every=every, until=horizon_s))
            )
        return Expected(tuple(classes), horizon_s)

    def _rate(self, record: _Kind, now: float) -> float:
        """Return the submissions of a kind per second, since the first one that is kept."""
        since_s = now if self._since_s is None else self._since_s
        if len(record.submissions) >= self._most_submissions:
            since_s = min(submission.created_s for submission in record.submissions.values())
        return len(record.submissions) / max(now - since_s, LEAST_SEEN_S)


def can_be_played(workload: Workload) -> bool:
    """Return False if a pod template cannot be decoded, which no definition requires."""
    return all(_is_readable(bytes(pod_set.template)) for pod_set in workload.spec.pod_sets)


def _decodes(template: bytes) -> bool:
    try:
        decode_template(msgspec.Raw(template))
        codec.decode(PlaceableTemplate, template)
    except msgspec.ValidationError:
        return False
    return True


_is_readable: Final = InternCache(_decodes)  # most workloads of a queue have equal templates


class Expected(msgspec.Struct, frozen=True):
    classes: tuple[JobClass, ...]
    horizon_s: float  # after which no jobs are submitted


def arrivals_of(workloads: Iterable[Workload]) -> ArrivalStore:
    """Return what ``workloads``, finished or not, tell about submissions."""
    store = ArrivalStore()
    dated = [workload for workload in workloads if workload.metadata.creation_timestamp is not None]
    for workload in sorted(dated, key=lambda dated: (dated.metadata.creation_timestamp, dated.metadata.key)):
        store.learn(workload)
    return store


def equally_likely(values: Sequence[float]) -> Distribution:
    return Choice(tuple(values), tuple(map(float, range(1, len(values) + 1))))


def _class(number: int, record: _Kind, runs: Distribution, arrivals: Arrivals) -> JobClass:
    workload = record.latest
    pod_sets = tuple(
        _shape(pod_set, [made.counts[at] for made in record.submissions.values() if at < len(made.counts)])
        for at, pod_set in enumerate(workload.spec.pod_sets)
    )
    return JobClass(
        name=f"expected-{number}",
        namespace=workload.metadata.namespace,
        queues=(workload.spec.queue_name,),
        arrivals=arrivals,
        pod_sets=pod_sets,
        runs=runs,
        priority=workload.spec.priority,
        maximum_execution_s=workload.spec.maximum_execution_time_seconds,
    )


def _shape(pod_set: PodSet, counts: Sequence[int]) -> PodSetShape:
    least = pod_set.min_count
    return PodSetShape(
        name=pod_set.name,
        count=equally_likely(sorted(map(float, counts))),
        min_count=None if least is msgspec.UNSET else least,
        template=pod_set.template,
        topology_request=None if pod_set.topology_request is msgspec.UNSET else pod_set.topology_request,
    )
