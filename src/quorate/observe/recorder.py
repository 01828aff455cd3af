"""Counters and histograms of the controllers; only the replica that decides records, so none counts twice.

They are counted here, a dozen times for each workload, and become metrics of the client library at a scrape:
its own counters and histograms take several times as long.
"""

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, UnknownMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from quorate.api.kueue import ClusterQueue, LocalQueue, Workload
from quorate.api.meta import Key, find_condition
from quorate.api.quorate import Reservation
from quorate.kube.informer import Change
from quorate.kube.object_faults import ObjectFault
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.exposition import is_refused_write, resource_of
from quorate.observe.families import BY_NAME, FAMILIES, ROLE, Family
from quorate.observe.view import is_shown, local_queue_labels, local_queue_of
from quorate.observe.workload_transitions import (
    Sample,
    planned_start_samples,
    transition_samples,
    wait_by_size,
)
from quorate.queueing.conditions import PLANNED_START
from quorate.queueing.decisions import CycleResult, Decision, Hold, Preempt, Reserve
from quorate.queueing.inadmissible_reasons import ReservedWindow
from quorate.queueing.state import State

NO_LABELS: Final[Mapping[str, str]] = {}


class _Series:
    """What was recorded with one set of labels: a total, and for a histogram also the counts by bucket."""

    __slots__ = ("_bounds", "_factor", "counts", "total")

    def __init__(self, family: Family) -> None:
        self._bounds = family.buckets
        self._factor = 1000 if family.name.endswith("_milliseconds") else 1
        self.counts = [0] * (len(family.buckets) + 1)  # the last one is of what exceeds all bounds
        self.total: float = 0

    def observe(self, seconds: float) -> None:
        value = seconds * self._factor
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def add(self, seconds: float | None, count: int = 1) -> None:
        """Add ``count`` to a counter, or observe ``seconds``."""
        if seconds is None:
            self.total += count
        else:
            self.observe(seconds)


class Recorder(Collector):
    def __init__(self, role: Callable[[], str], custom: CustomLabels) -> None:
        self.registry = CollectorRegistry()
        self._role = role
        self.custom = custom
        self.preemption_skips: Counts[str] = Counts()  # in the last cycle, by cluster queue
        self.differences = 0  # between model and stored objects, at the last audit
        self._counted_cohorts: set[str] = set()  # that have counters
        # By name and the values of ``labels_of``; a family without labels has its series from the beginning.
        self._series: dict[str, dict[tuple[str, ...], _Series]] = {
            family.name: {} if self.labels_of(family) else {(): _Series(family)}
            for family in FAMILIES
            if family.kind != "gauge"
        }
        # The same by name and labels as they are recorded.
        self._by_recorded_labels: dict[tuple[object, ...], _Series] = {}
        # By what decides, without custom labels, in which series a sample of a workload is recorded.
        self._by_sample: dict[tuple[object, ...], tuple[_Series, ...]] = {}
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the families of counters and histograms; Kueue has no ``_created`` series."""
        for name, series in self._series.items():
            family = BY_NAME[name]
            labels, text = self.labels_of(family), family.help
            if family.kind == "histogram":
                histogram = HistogramMetricFamily(name, text, labels=labels)
                bounds = (*map(floatToGoString, family.buckets), "+Inf")
                for values, one in series.items():
                    buckets = list(zip(bounds, accumulate(one.counts), strict=True))
                    histogram.add_metric(values, buckets, one.total)
                yield histogram
            else:  # a counter must have that suffix
                kind = CounterMetricFamily if name.endswith("_total") else UnknownMetricFamily
                counter = kind(name, text, labels=labels)
                for values, one in series.items():
                    counter.add_metric(values, one.total)
                yield counter

    def labels_of(self, family: Family) -> tuple[str, ...]:
        return (*family.labels, *self.custom.names(family.sources))

    def record(
        self,
        name: str,
        labels: Mapping[str, str],
        seconds: float | None = None,
        about: Mapping[str, str] = NO_LABELS,
        *,
        count: int = 1,
    ) -> None:
        """Add ``count`` to a counter, or observe ``seconds``.

        ``labels`` has neither the role nor custom labels, except the labels of a workload.
        ``about``: labels that identify the source of custom labels, if the series does not have them.
        """
        self._series_with(name, labels, about).add(seconds, count)

    def _series_with(
        self, name: str, labels: Mapping[str, str], about: Mapping[str, str] = NO_LABELS
    ) -> _Series:
        """Return the series of a family; ``labels`` and ``about`` as of ``record``."""
        family, role = BY_NAME[name], self._role()
        custom = self.custom.of(family.sources, labels, about)
        key = (name, role, *custom.items(), *labels.items())
        series = self._by_recorded_labels.get(key)
        if series is None:
            all_labels = {**custom, **labels, ROLE: role}
            names = self.labels_of(family)
            assert labels.keys() <= set(names), f"{name} has no labels {labels.keys() - set(names)}"
            values = tuple(all_labels[label] for label in names)
            series = self._by_recorded_labels[key] = self._series[name].setdefault(values, _Series(family))
        return series

    def cycle_ended(self, cycle: CycleResult, seconds: float) -> None:
        if not cycle.decisions:
            return  # no workload was evaluated
        self.preemption_skips = Counts(cycle.preemption_skips)
        admits = any(isinstance(decision, Reserve) for decision in cycle.decisions)
        result = {"result": "success" if admits else "inadmissible"}
        self.record("kueue_admission_attempts_total", result)
        self.record("kueue_admission_attempt_duration_seconds", result, seconds)

        for recomputation in cycle.recomputations:
            labels = {"cluster_queue": recomputation.cluster_queue, "result": recomputation.result}
            self.record("kueue_preemption_target_recomputations_total", labels)
        for kind, count in Counts(map(type, cycle.decisions)).items():
            self.record("quorate_cycle_decisions_total", {"decision": kind.__name__.lower()}, count=count)
        for reservation, count in Counts(_refusing_reservations(cycle.decisions)).items():
            self.record("quorate_reservation_refusals_total", {"reservation": reservation}, count=count)

    def reservation_changed(self, change: Change[Reservation]) -> None:
        if change.new is None:
            self.forget({"reservation": change.key.name})

    def request_answered(self, verb: str, path: str, code: int, seconds: float) -> None:
        """Record a response of the API server, code 0 for none (see ``kube.client.OnResponse``)."""
        labels = {"verb": verb, "resource": resource_of(path)}
        self.record("quorate_api_requests_total", labels | {"code": str(code)})
        if is_refused_write(verb, code):
            self.record("quorate_refused_writes_total", {"resource": labels["resource"], "code": str(code)})
        self.record("quorate_api_request_duration_seconds", labels, seconds)

    def object_fault(self, fault: ObjectFault) -> None:
        labels = {"resource": fault.resource.plural, "stage": fault.stage}
        self.record("quorate_object_faults_total", labels)

    def audited(self, differences: int, seconds: float) -> None:
        self.differences = differences
        self.record("quorate_audits_total", {"result": "different" if differences else "same"})
        self.record("quorate_audit_duration_seconds", {}, seconds)

    def decision_written(self, decision: Decision, state: State) -> None:
        if not isinstance(decision, Preempt):
            return  # counted when the watch delivers the workload
        entry = state.ledger.entries.get(decision.preemptor)
        reservation = state.ledger.reservations.get(decision.preemptor)  # it lacks only places
        queue = entry.cluster_queue if entry is not None else ""
        if reservation is not None:
            queue = reservation.admission.cluster_queue
        if queue:
            labels = {"preempting_cluster_queue": queue, "reason": decision.reason}
            self.record("kueue_preempted_workloads_total", labels)

    def workload_changed(self, change: Change[Workload], state: State) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            return  # an earlier process recorded what was true already
        self._record_plans(old, new, state)
        samples = tuple(transition_samples(old, new))
        if not samples:
            return  # also none of ``wait_by_size``
        admission = new.status.admission or old.status.admission
        queue = admission.cluster_queue if admission is not None else ""
        if admission is not None and (admitted_to := state.ledger.cluster_queues.get(queue)) is not None:
            samples += tuple(wait_by_size(old, new, admitted_to))
        local_queue = self._shown_local_queue(new, state)
        for sample in samples:
            key = (self._role(), queue, local_queue, sample.name, *sample.labels.items())
            of_sample = self._by_sample.get(key)
            if of_sample is None:
                of_sample = tuple(self._series_of(sample, queue, local_queue, new, state))
                if self.custom.is_empty:
                    self._by_sample[key] = of_sample
            for series in of_sample:
                series.add(sample.seconds)

    def _series_of(
        self, sample: Sample, queue: str, local_queue: Key | None, workload: Workload, state: State
    ) -> Iterator[_Series]:
        """Yield the series of a sample of ``workload``: of its cluster queue, local queue and cohorts."""
        of_queue = f"kueue_{sample.name}"
        yield self._series_with(
            of_queue if of_queue in BY_NAME else sample.name, {"cluster_queue": queue, **sample.labels}
        )
        name = f"kueue_local_queue_{sample.name}"
        if local_queue is not None and name in BY_NAME:
            labels = {**local_queue_labels(local_queue), **sample.labels}
            if "Workload" in BY_NAME[name].sources:
                labels |= self.custom.values_of("Workload", workload.metadata)
            yield self._series_with(name, labels)
        if sample.name == "admitted_workloads_total" and queue in state.ledger.cluster_queues:
            for cohort in state.ledger.cluster_queues[queue].node.path():
                self._counted_cohorts.add(cohort.name)
                name = "kueue_cohort_subtree_admitted_workloads_total"
                yield self._series_with(name, {"cohort": cohort.name, **sample.labels})

    def _record_plans(self, old: Workload, new: Workload, state: State) -> None:
        """Record what became of a planned start."""
        if find_condition(new.status.conditions, PLANNED_START) is None:
            return
        local_queue = state.ledger.local_queues.get(local_queue_of(new))
        queue = state.ledger.cluster_queues.get(local_queue.cluster_queue if local_queue is not None else "")
        if queue is None:
            return
        for sample in planned_start_samples(old, new):
            self.record(sample.name, {"cluster_queue": queue.name, **sample.labels}, sample.seconds)

    def _shown_local_queue(self, workload: Workload, state: State) -> Key | None:
        """Return the local queue of a workload; None if the local queue has no series."""
        key = local_queue_of(workload)
        queue = state.ledger.local_queues.get(key)
        return None if queue is None or not is_shown(queue, state.configuration.metrics) else key

    def cluster_queue_changed(self, change: Change[ClusterQueue], state: State) -> None:
        if change.new is None:
            self.forget({"cluster_queue": change.key.name})
            self.forget({"preempting_cluster_queue": change.key.name})
        self.cohorts_changed(state)

    def local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if change.new is None:
            self.forget(local_queue_labels(change.key))

    def cohorts_changed(self, state: State) -> None:
        """Drop the series of cohorts that have ended; a cohort may have queues and no object."""
        self._by_sample.clear()
        for name in sorted(self._counted_cohorts - state.ledger.cohorts.keys()):
            self._counted_cohorts.remove(name)
            self.forget({"cohort": name})

    def forget(self, labels: Mapping[str, str]) -> None:
        """Drop all series with ``labels``, which name a deleted object."""
        self._by_recorded_labels.clear()
        self._by_sample.clear()
        for name, series in self._series.items():
            names = self.labels_of(BY_NAME[name])
            if labels.keys() <= set(names):
                of = [(names.index(label), value) for label, value in labels.items()]
                for values in [key for key in series if all(key[at] == value for at, value in of)]:
                    del series[values]


def _refusing_reservations(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield the Reservation of each decision that it has refused."""
    for decision in decisions:
        reasons = decision.reasons if isinstance(decision, Hold) else ()
        yield from {reason.reservation for reason in reasons if isinstance(reason, ReservedWindow)}
