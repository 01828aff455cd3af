"""Counters and histograms, kept while this replica decides; who stands by counts nothing twice."""

from collections import Counter as Counts
from collections.abc import Callable, Mapping
from typing import Any, Final

import prometheus_client
from prometheus_client import CollectorRegistry, Histogram

from quorate.api.configuration.metric_labels import LabelSource
from quorate.api.kueue import ClusterQueue, Cohort, LocalQueue, Workload
from quorate.kube.informer import Change
from quorate.observe.asked import resource_of
from quorate.observe.bare_counter import counter_of
from quorate.observe.catalogue import BY_NAME, FAMILIES, ROLE, Family
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.milestones import Sample, milestones
from quorate.observe.view import is_shown, local_queue_labels, local_queue_of
from quorate.queueing.decisions import CycleResult, Decision, Preempt, Reserve
from quorate.queueing.state import State

NOTHING_ELSE: Final[Mapping[str, str]] = {}


class Recorder:
    def __init__(self, role: Callable[[], str], custom: CustomLabels) -> None:
        # Kueue has no series that say when others were created.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._role = role
        self.custom = custom
        self.preemption_skips: Counts[str] = Counts()  # in the last cycle, by cluster queue
        self.differences: int | None = None  # between the model and what is stored, as last found
        self._counters = {
            family.name: counter_of(family, self.labels_of(family), self.registry)
            for family in FAMILIES
            if family.kind == "counter"
        }
        self._histograms = {
            family.name: Histogram(
                family.name,
                family.help,
                self.labels_of(family),
                registry=self.registry,
                buckets=family.buckets,
            )
            for family in FAMILIES
            if family.kind == "histogram"
        }

    def labels_of(self, family: Family) -> tuple[str, ...]:
        return (*family.labels, *self.custom.names(family.sources))

    def record(
        self,
        name: str,
        labels: Mapping[str, str],
        seconds: float | None = None,
        about: Mapping[str, str] = NOTHING_ELSE,
    ) -> None:
        """Count one, or the ``seconds`` it took; ``labels`` without the role and custom ones.

        ``about``: labels that name what those are of, where the series itself does not.
        """
        family = BY_NAME[name]
        every = {**labels, **self.custom.of(family.sources, {**labels, **about})}
        if ROLE in family.labels:
            every[ROLE] = self._role()
        if seconds is None:
            counter = self._counters[name]
            (counter.labels(**every) if every else counter).inc()
        else:
            histogram = self._histograms[name]
            time = seconds * 1000 if name.endswith("_milliseconds") else seconds
            (histogram.labels(**every) if every else histogram).observe(time)

    def cycle_ended(self, cycle: CycleResult, seconds: float) -> None:
        if not cycle.decisions:
            return  # nobody was up for a decision
        self.preemption_skips = Counts(cycle.preemption_skips)
        admits = any(isinstance(each, Reserve) for each in cycle.decisions)
        result = {"result": "success" if admits else "inadmissible"}
        self.record("kueue_admission_attempts_total", result)
        self.record("kueue_admission_attempt_duration_seconds", result, seconds)

        for decision in cycle.decisions:
            self.record("quorate_cycle_decisions_total", {"decision": type(decision).__name__.lower()})

    def request_answered(self, verb: str, path: str, code: int, seconds: float) -> None:
        """``code`` is 0 when there was no answer; see ``kube.client.OnResponse``."""
        asked = {"verb": verb, "resource": resource_of(path)}
        self.record("quorate_api_requests_total", asked | {"code": str(code)})
        self.record("quorate_api_request_duration_seconds", asked, seconds)

    def audited(self, differences: int, seconds: float) -> None:
        self.differences = differences
        self.record("quorate_audits_total", {"result": "different" if differences else "same"})
        self.record("quorate_audit_duration_seconds", {}, seconds)

    def decision_written(self, decision: Decision, state: State) -> None:
        if not isinstance(decision, Preempt):
            return  # seen when the workload comes back
        entry = state.ledger.entries.get(decision.preemptor)
        if entry is not None:
            labels = {"preempting_cluster_queue": entry.cluster_queue, "reason": decision.reason}
            self.record("kueue_preempted_workloads_total", labels)

    def workload_changed(self, change: Change[Workload], state: State) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            return  # what was true when we first saw it happened in another's time
        admission = new.status.admission or old.status.admission
        queue = admission.cluster_queue if admission is not None else ""
        for sample in milestones(old, new):
            self.record(f"kueue_{sample.name}", {"cluster_queue": queue, **sample.labels}, sample.seconds)
            self._record_for_local_queue(new, f"kueue_local_queue_{sample.name}", sample, state)
            if sample.name == "admitted_workloads_total" and queue in state.ledger.cluster_queues:
                for cohort in state.ledger.cluster_queues[queue].node.path():
                    name = "kueue_cohort_subtree_admitted_workloads_total"
                    self.record(name, {"cohort": cohort.name, **sample.labels})

    def _record_for_local_queue(self, workload: Workload, name: str, sample: Sample, state: State) -> None:
        key = local_queue_of(workload)
        queue = state.ledger.local_queues.get(key)
        if name in BY_NAME and queue is not None and is_shown(queue, state.configuration.metrics):
            self.record(name, {**local_queue_labels(key), **sample.labels}, sample.seconds)

    def cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        if self._series_end("ClusterQueue", change):
            self.forget({"cluster_queue": change.key.name})
            self.forget({"preempting_cluster_queue": change.key.name})

    def local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if self._series_end("LocalQueue", change):
            self.forget(local_queue_labels(change.key))

    def cohort_changed(self, change: Change[Cohort]) -> None:
        if self._series_end("Cohort", change):
            self.forget({"cohort": change.key.name})

    def _series_end(self, source: LabelSource, change: Change[Any]) -> bool:
        """Whether an object went, or is not as the custom labels of its series have it any more."""
        if change.old is None or change.new is None:
            return change.new is None
        before, after = (self.custom.values_of(source, each.metadata) for each in (change.old, change.new))
        return before != after

    def forget(self, labels: Mapping[str, str]) -> None:
        """Drop the series of something that is gone, which ``labels`` name."""
        for name, metric in (*self._counters.items(), *self._histograms.items()):
            if labels.keys() <= set(BY_NAME[name].labels):
                metric.remove_by_labels(dict(labels))
