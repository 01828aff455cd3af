"""The metrics and the events of the witness."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from quorate.api.meta import Key, Uid
from quorate.api.quantity import NANOS
from quorate.kube.clock import Clock
from quorate.kube.events import EventRecorder, EventType
from quorate.kube.log import logger
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    WORKLOADS,
    Resource,
    reference,
)
from quorate.observe.families import Family
from quorate.witness.report import Difference, Place, Reason, Report

COMPONENT: Final = "quorate-witness"
_REPEAT_S: Final = 600.0  # between two events about the same difference
_PLACE: Final = ("kind", "name", "flavor", "resource")

USED: Final = Family(
    "quorate_witness_used", "gauge", _PLACE,
    "What running pods use of a cluster queue or cohort, by their requests",
)  # fmt: skip
EXCESS: Final = Family(
    "quorate_witness_excess", "gauge", (*_PLACE, "reason"),
    "How much that is above the limit of a cluster queue or cohort, or above the allocatable resources of a "
    "node, or of a workload above its admission; of a local queue or namespace: running pods of workloads "
    "without quota",
)  # fmt: skip
LASTING: Final = Family(
    "quorate_witness_lasting_differences", "gauge", ("reason",),
    "Differences that have lasted longer than the grace; all reasons but `LimitLowered` "
    "and `BeforeStart` are faults",
)  # fmt: skip
OBSERVATIONS: Final = Family(
    "quorate_witness_observations_total", "counter", (), "Comparisons since the process started"
)
UNCOUNTED: Final = Family(
    "quorate_witness_uncounted", "gauge", ("resource",),
    "1 for each resource that counts counters, if a pod has a device that is in no ResourceSlice",
)  # fmt: skip
FAMILIES: Final = (USED, EXCESS, LASTING, UNCOUNTED, OBSERVATIONS)
_KINDS: Final[dict[str, Resource[Any]]] = {
    resource.kind: resource
    for resource in (CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, NAMESPACES, NODES, WORKLOADS)
}


class WitnessMetrics(Collector):
    """The series of the last report."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._report: Report | None = None
        self._observations = 0
        self.registry.register(self)

    def reported(self, report: Report) -> None:
        self._report = report
        self._observations += 1

    def collect(self) -> Iterator[Metric]:
        used, excess, lasting, uncounted = (
            GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for family in (USED, EXCESS, LASTING, UNCOUNTED)
        )
        if self._report is not None:
            for usage in self._report.usage:
                used.add_metric([*usage.holder, *usage.of], usage.used / NANOS)
            for difference in self._report.differences:
                place = difference.place
                labels = [place.kind, place.name, place.flavor, place.resource, difference.reason]
                excess.add_metric(labels, difference.excess / NANOS)
            for resource in self._report.uncounted:
                uncounted.add_metric([resource], 1)
            counts = Counter(difference.reason for difference in self._report.lasting)
            for reason in Reason:
                lasting.add_metric([reason], counts[reason])
        observations = CounterMetricFamily(OBSERVATIONS.name, OBSERVATIONS.help)
        observations.add_metric([], self._observations)
        yield from (used, excess, lasting, uncounted, observations)


class WitnessEvents:
    """An event for each lasting difference, about the queue, cohort or node, with the names of pods."""

    def __init__(self, events: EventRecorder, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._recorded_at: dict[tuple[Place, Reason], float] = {}

    def reported(self, report: Report) -> None:
        now = self._clock.now()
        lasting = {(difference.place, difference.reason): difference for difference in report.lasting}
        for key in self._recorded_at.keys() - lasting.keys():
            logger(__name__).info("difference ended", kind=key[0].kind, name=key[0].name, reason=key[1])
        self._recorded_at = {key: at for key, at in self._recorded_at.items() if key in lasting}
        for key, difference in lasting.items():
            if now - self._recorded_at.get(key, -_REPEAT_S) >= _REPEAT_S:
                self._recorded_at[key] = now
                self._record(difference)

    def _record(self, difference: Difference) -> None:
        place = difference.place
        namespace, _, name = place.name.rpartition("/")
        about = reference(_KINDS[place.kind], Key(namespace, name), Uid(""))
        type_: EventType = "Warning" if difference.reason.is_fault else "Normal"
        self._events.event(about, type_, difference.reason, difference.message)
        log = logger(__name__).warning if difference.reason.is_fault else logger(__name__).info
        log(
            "difference", kind=place.kind, name=place.name, reason=difference.reason, found=difference.message
        )
