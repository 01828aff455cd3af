"""How queues and pod groups stand, read off the model of the gang scheduler when somebody asks.

So what is gone has no series.
"""

from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.registry import Collector

from quorate.api.meta import Key, Uid
from quorate.api.volcano import INQUEUE, PENDING
from quorate.gang.cache.model import Model
from quorate.gang.reports import GangReport, gang_reports, queue_reports
from quorate.gang.reservations import quota_claim_of
from quorate.kube.clock import Clock
from quorate.observe.gang_catalogue import BY_NAME, PHASES
from quorate.observe.queue_gauges import queue_gauges
from quorate.scheduler.scheduler import SchedulerStatus

Labels = tuple[str, ...]
Values = Mapping[Labels, float]


@dataclass(slots=True)
class Record:
    """What was counted of one pod group."""

    retries: int = 0  # sessions in which it was not admitted or not placed
    placed_at: float | None = None  # when members were last given nodes, in seconds since the epoch


class GangGauges(Collector):
    def __init__(self, seen: SchedulerStatus, records: Mapping[Uid, Record], clock: Clock) -> None:
        self._seen = seen
        self._records = records
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        model, settings, now = self._seen.model, self._seen.settings, self._clock.now()
        if model is None or settings is None:
            return
        yield from _counts_by_phase(model)
        yield from queue_gauges(queue_reports(model, settings, now))
        yield from _of_groups(gang_reports(model, settings), self._records)
        yield _family("inqueue_age_seconds", {(queue,): age for queue, age in _ages(model, now).items()})
        yield _family("quota_reserved", _reserved(model))


def _family(name: str, values: Values) -> Metric:
    """The series of one name, which is without prefix here; a counter among them does not end in "_total"."""
    family = BY_NAME[f"volcano_{name}"]
    kind = GaugeMetricFamily if family.kind == "gauge" else UnknownMetricFamily
    found = kind(family.name, family.help, labels=family.labels)
    for labels, value in sorted(values.items()):
        found.add_metric(labels, value)
    return found


def _counts_by_phase(model: Model) -> Iterator[Metric]:
    counts = Counts(
        (gang.queue, gang.phase or PENDING) for gang in model.gangs.values() if gang.queue in model.queues
    )
    for phase in PHASES:
        of_queues: Values = {(queue,): counts[queue, phase] for queue in model.queues}
        yield _family(f"queue_pod_group_{phase.lower()}_count", of_queues)


def _of_groups(reports: Mapping[Key, GangReport], records: Mapping[Uid, Record]) -> Iterator[Metric]:
    """Volcano leaves the namespace out where a label is ``job_id`` alone: those of a name are added up."""
    lacking: Counts[Labels] = Counts()
    retries: Counts[Labels] = Counts()
    created: dict[Labels, float] = {}
    placed: dict[Labels, float] = {}
    lasted: dict[Labels, float] = {}
    shares: dict[Labels, float] = {}
    for key, report in reports.items():
        labels = key.name, report.queue, key.namespace
        created[labels] = report.created
        if report.missing_members is not None:
            lacking[(key.name,)] += report.missing_members
        record = records.get(report.uid)
        if record is not None and record.retries:
            retries[(key.name,)] += record.retries
        if record is not None and record.placed_at is not None:
            placed[labels] = record.placed_at
            lasted[labels] = 1000 * max(0.0, record.placed_at - report.created)
        if report.share is not None:
            shares[key.namespace, key.name] = float(report.share)
    yield _family("e2e_job_scheduling_duration", lasted)
    yield _family("e2e_job_scheduling_start_time", created)
    yield _family("e2e_job_scheduling_last_time", placed)
    yield _family("unschedule_task_count", lacking)
    yield _family(
        "unschedule_job_count", {(): sum(bool(report.missing_members) for report in reports.values())}
    )
    yield _family("job_retry_counts", retries)
    yield _family("job_share", shares)


def _ages(model: Model, now: float) -> Mapping[str, float]:
    ages: dict[str, float] = {}
    for gang in model.gangs.values():
        if gang.phase == INQUEUE and gang.inqueue_since is not None and not gang.has_started:
            ages[gang.queue] = max(ages.get(gang.queue, 0.0), now - gang.inqueue_since)
    return ages


def _reserved(model: Model) -> Values:
    """In namespaces that have a quota."""
    limited = {key.namespace for key in model.quotas}
    reserved: Counts[Labels] = Counts()
    for gang in model.gangs.values():
        if gang.is_active and gang.key.namespace in limited:
            for resource, amount in quota_claim_of(gang).items():
                reserved[gang.key.namespace, resource] += amount
    return reserved
