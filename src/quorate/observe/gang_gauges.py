"""Gauges of queues and pod groups, computed from the model of the gang scheduler at each scrape.

Deleted objects therefore have no series, and neither has a limit that is unlimited.
"""

from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from prometheus_client.core import GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.registry import Collector

from quorate.api.meta import Key, Uid
from quorate.api.volcano import INQUEUE, PENDING
from quorate.gang.cache.model import Model
from quorate.gang.cache.reservations import quota_claim_of
from quorate.gang.reports import GangReport, QueueReport, gang_reports, queue_reports
from quorate.kube.clock import Clock
from quorate.observe.gang_families import BY_NAME, PHASES, QUEUE_RESOURCES
from quorate.placement.resources import MEMORY
from quorate.quota.amount import CPU, PODS, Amount
from quorate.scheduler.observer import SchedulerStatus

Labels = tuple[str, ...]
Values = Mapping[Labels, float]


@dataclass(slots=True)
class GroupRecord:
    """What is counted per pod group."""

    retries: int = 0  # sessions in which it was not admitted or not placed
    placed_at: float | None = None  # when members were last given nodes, in seconds since the epoch


class GangGauges(Collector):
    def __init__(self, status: SchedulerStatus, records: Mapping[Uid, GroupRecord], clock: Clock) -> None:
        self._status = status
        self._records = records
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        model, settings, now = self._status.model, self._status.settings, self._clock.now()
        if model is None or settings is None:
            return
        yield from _counts_by_phase(model)
        yield from queue_gauges(queue_reports(model, settings, now))
        yield from _group_series(gang_reports(model, settings), self._records)
        yield _family("inqueue_age_seconds", {(queue,): age for queue, age in _ages(model, now).items()})
        yield _family("quota_reserved", _reserved(model, now))


def _family(name: str, values: Values) -> Metric:
    """Return the series ``volcano_<name>``; a counter without the suffix "_total" is untyped."""
    family = BY_NAME[f"volcano_{name}"]
    kind = GaugeMetricFamily if family.kind == "gauge" else UnknownMetricFamily
    metric = kind(family.name, family.help, labels=family.labels)
    for labels, value in sorted(values.items()):
        metric.add_metric(labels, value)
    return metric


def _counts_by_phase(model: Model) -> Iterator[Metric]:
    counts = Counts(
        (gang.queue, gang.phase or PENDING) for gang in model.gangs.values() if gang.queue in model.queues
    )
    for phase in PHASES:
        values: Values = {(queue,): counts[queue, phase] for queue in model.queues}
        yield _family(f"queue_pod_group_{phase.lower()}_count", values)


def _group_series(reports: Mapping[Key, GangReport], records: Mapping[Uid, GroupRecord]) -> Iterator[Metric]:
    """Series with the only label ``job_id``, as in Volcano, sum the groups of that name in all namespaces."""
    missing: Counts[Labels] = Counts()
    retries: Counts[Labels] = Counts()
    created: dict[Labels, float] = {}
    placed: dict[Labels, float] = {}
    durations_ms: dict[Labels, float] = {}
    shares: dict[Labels, float] = {}
    for key, report in reports.items():
        labels = key.name, report.queue, key.namespace
        created[labels] = report.created
        if report.missing_members is not None:
            missing[(key.name,)] += report.missing_members
        record = records.get(report.uid)
        if record is not None and record.retries:
            retries[(key.name,)] += record.retries
        if record is not None and record.placed_at is not None:
            placed[labels] = record.placed_at
            durations_ms[labels] = 1000 * max(0.0, record.placed_at - report.created)
        if report.share is not None:
            shares[key.namespace, key.name] = float(report.share)
    yield _family("e2e_job_scheduling_duration", durations_ms)
    yield _family("e2e_job_scheduling_start_time", created)
    yield _family("e2e_job_scheduling_last_time", placed)
    yield _family("unschedule_task_count", missing)
    yield _family(
        "unschedule_job_count", {(): sum(bool(report.missing_members) for report in reports.values())}
    )
    yield _family("job_retry_counts", retries)
    yield _family("job_share", shares)


def _ages(model: Model, now: float) -> Mapping[str, float]:
    ages: dict[str, float] = {}
    for gang in model.gangs.values():
        since = gang.admission.inqueue_since
        if gang.phase == INQUEUE and since is not None and not gang.has_started:
            ages[gang.queue] = max(ages.get(gang.queue, 0.0), now - since)
    return ages


def _reserved(model: Model, now: float) -> Values:
    """Return the quota claims of active groups in namespaces that have a quota."""
    limited = {key.namespace for key in model.quotas}
    reserved: Counts[Labels] = Counts()
    for gang in model.gangs.values():
        if gang.is_active and gang.key.namespace in limited:
            for resource, amount in quota_claim_of(gang, now).items():
                reserved[gang.key.namespace, resource] += amount
    return reserved


def queue_gauges(reports: Mapping[str, QueueReport]) -> Iterator[GaugeMetricFamily]:
    """Yield the series of all queues that have a report."""
    families = {
        family.name: GaugeMetricFamily(family.name, family.help, labels=family.labels)
        for family in QUEUE_RESOURCES
    }
    for queue in sorted(reports):
        for name, labels, value in _queue_values(reports[queue]):
            families[f"volcano_queue_{name}"].add_metric([queue, *labels], value)
    yield from families.values()


QueueValue = tuple[str, tuple[str, ...], float]


def _queue_values(queue: QueueReport) -> Iterator[QueueValue]:
    """Yield name without prefix, labels without the queue, and value."""
    yield "weight", (), queue.weight
    yield from _amount_values("allocated", queue.allocated)
    yield from _amount_values("request", queue.request)
    yield from _amount_values("inqueue", queue.reserved)
    yield from _amount_values("capacity", queue.capability, limits=True)
    if queue.share is not None:
        yield from _amount_values("deserved", queue.share.deserved)
        yield from _amount_values("real_capacity", queue.share.at_most, limits=True)
        yield "share", (), float(queue.share.share)
        yield "overused", (), float(queue.share.overused)


def _amount_values(
    kind: str, amounts: Mapping[str, Amount | Fraction], *, limits: bool = False
) -> Iterator[QueueValue]:
    """``limits``: a missing cpu or memory means unlimited instead of 0."""
    for resource, series in ((CPU, "milli_cpu"), (MEMORY, "memory_bytes")):
        amount = amounts.get(resource)
        if isinstance(amount, int | Fraction):
            yield f"{kind}_{series}", (), float(amount)
        elif amount is None and not limits:
            yield f"{kind}_{series}", (), 0.0
    for resource, amount in sorted(amounts.items()):
        if resource not in (CPU, MEMORY) and isinstance(amount, int | Fraction):
            factor = 1 if resource == PODS else 1000
            yield f"{kind}_scalar_resources", (resource,), float(amount * factor)
