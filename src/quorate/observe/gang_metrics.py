"""``/metrics`` of the gang scheduler: Volcano's series of sessions, pods, groups and queues, and ours.

Counters and histograms are kept while this replica leads; a deleted queue takes its counters with it.
"""

from collections.abc import Collection, Iterable
from typing import Final

import prometheus_client
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, Histogram

from quorate.api.meta import Key, Uid
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.outcome import Outcome
from quorate.kube.clock import Clock
from quorate.kube.object_faults import ObjectFault
from quorate.observe.exposition import counter_of, is_refused_write, metrics_application, resource_of
from quorate.observe.gang_families import BY_NAME, FAMILIES
from quorate.observe.gang_gauges import GangGauges, GroupRecord
from quorate.scheduler.observer import Bound, SchedulerObserver, SchedulerStatus, SessionTimes

_OF_GROUPS: Final = "volcano_job_retry_counts"  # a gauge of GroupRecord, see gang_gauges


class GangMetrics(SchedulerObserver):
    """Observes the scheduler of ``status``."""

    def __init__(self, status: SchedulerStatus, clock: Clock) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self._status = status
        self._clock = clock
        self.records: dict[Uid, GroupRecord] = {}  # of pod groups, some of them deleted
        self._counters = {
            family.name: counter_of(family, family.labels, registry)
            for family in FAMILIES
            if family.kind == "counter" and family.name != _OF_GROUPS
        }
        self._histograms = {
            family.name: Histogram(
                family.name, family.help, family.labels, buckets=family.buckets, registry=registry
            )
            for family in FAMILIES
            if family.kind == "histogram"
        }
        victims = BY_NAME["volcano_pod_preemption_victims"]
        self._victims = Gauge(victims.name, victims.help, registry=registry)
        registry.register(GangGauges(status, self.records, clock))
        status.observers.append(self)

    def session_ended(self, outcome: Outcome, times: SessionTimes) -> None:
        model = self._status.model
        assert model is not None, "a session without a model"
        self._count_times(times)
        self._count_admission(outcome)
        self._count_placements(outcome, model)
        preempted = [eviction for eviction in outcome.evictions if eviction.action == "preempt"]
        if preempted:
            self._victims.set(len(preempted))
            self._count("total_preemption_attempts", by=len({eviction.beneficiary for eviction in preempted}))
        if len(self.records) > 2 * len(model.gangs):  # bounded without scrapes, too
            self._keep_groups(model.gangs.values())

    def bound(self, bound: Bound) -> None:
        waited_s = self._since(bound.bind.created)
        self._count("schedule_attempts_total", "scheduled")
        self._observe("task_scheduling_latency_milliseconds", max(0.0, waited_s - bound.bind_s), "PreBound")
        self._observe("task_scheduling_latency_milliseconds", waited_s, "Bound")
        self._observe("scheduling_stage_duration_milliseconds", bound.pre_bind_s, "PreBind")
        self._observe("scheduling_stage_duration_milliseconds", bound.bind_s, "Bind")

    def object_fault(self, fault: ObjectFault) -> None:
        self._count("object_faults_total", fault.resource.plural, fault.stage)

    def request_answered(self, verb: str, path: str, code: int, seconds: float) -> None:
        """Count a write that was refused (see ``kube.client.OnResponse``)."""
        if is_refused_write(verb, code):
            self._count("refused_writes_total", resource_of(path), str(code))

    def bind_failed(self, task: Key) -> None:
        self._count("schedule_attempts_total", "error")

    def _count_times(self, times: SessionTimes) -> None:
        self._observe("e2e_scheduling_latency_milliseconds", times.total_s)
        self._observe("open_session_duration_milliseconds", times.opening_s)
        for plugin, duration_s in times.plugins_s:
            self._observe("plugin_scheduling_latency_milliseconds", duration_s, plugin, "OnSessionOpen")
        for action, duration_s in times.actions_s:
            self._observe("action_scheduling_latency_milliseconds", duration_s, action)

    def _count_admission(self, outcome: Outcome) -> None:
        for admitted in outcome.admitted:
            self._count("enqueue_admitted_total", admitted.queue)
            self._histograms["volcano_inqueue_wait_seconds"].observe(max(0.0, admitted.waited_s))
        for refused in outcome.refused:
            self._count("enqueue_rejected_total", refused.queue, refused.reason)
        for rolled_back in outcome.rolled_back:
            self._count("inqueue_rollback_total", rolled_back.queue, rolled_back.reason)

    def _count_placements(self, outcome: Outcome, model: Model) -> None:
        for bind in outcome.binds:
            self._observe("task_scheduling_latency_milliseconds", self._since(bind.created), "Assumed")
        for key in {bind.gang for bind in outcome.binds}:
            gang = model.gangs[key]
            self._record(gang).placed_at = self._clock.now()
            self._observe("e2e_job_scheduling_latency_milliseconds", self._since(gang.created))
        without_node = 0
        for key in outcome.pending_reasons:
            gang = model.gangs[key]
            self._record(gang).retries += 1
            if not gang.is_pending:
                without_node += len(gang.schedulable)
        self._count("schedule_attempts_total", "unschedulable", by=without_node)

    def _count(self, name: str, *labels: str, by: int = 1) -> None:
        counter = self._counters[f"volcano_{name}"]
        (counter.labels(*labels) if labels else counter).inc(by)

    def _observe(self, name: str, seconds: float, *labels: str) -> None:
        histogram = self._histograms[f"volcano_{name}"]
        (histogram.labels(*labels) if labels else histogram).observe(1000 * seconds)

    def _since(self, moment: float) -> float:
        """Return the seconds since ``moment``, at least 0: clocks of two machines may differ."""
        return max(0.0, self._clock.now() - moment)

    def _record(self, gang: Gang) -> GroupRecord:
        return self.records.setdefault(gang.uid, GroupRecord())

    def remove_stale_series(self) -> None:
        """Drop series of deleted queues and pod groups; a follower has none of either."""
        model = self._status.model
        self._keep_groups(() if model is None else model.gangs.values())
        queues: Collection[str] = () if model is None else model.queues
        for name, counter in self._counters.items():
            if "queue" in BY_NAME[name].labels:
                counted = {
                    sample.labels["queue"] for metric in counter.collect() for sample in metric.samples
                }
                for queue in counted.difference(queues):
                    counter.remove_by_labels({"queue": queue})

    def _keep_groups(self, gangs: Iterable[Gang]) -> None:
        for uid in self.records.keys() - {gang.uid for gang in gangs}:
            del self.records[uid]

    def application(self) -> web.Application:
        return metrics_application(self.registry, before_scrape=self.remove_stale_series)
