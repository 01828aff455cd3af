"""``/metrics`` of the gang scheduler: Volcano's series of queues and sessions, and ours about admission.

Counters are kept while this replica decides.  Gauges are read off the model when they are asked for, so that
what is gone has none; a queue that is gone takes its counters with it.
"""

from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from typing import Final

import prometheus_client
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from quorate.api.volcano import COMPLETED, INQUEUE, PENDING, RUNNING, UNKNOWN
from quorate.gang.claims import quota_claim_of
from quorate.gang.model import Model
from quorate.gang.outcome import Outcome
from quorate.gang.queue_report import queue_reports
from quorate.kube.clock import Clock
from quorate.observe.queue_gauges import queue_gauges
from quorate.scheduler.scheduler import Seen

PHASES: Final = (PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED)
SESSION_MS: Final = tuple(5.0 * 2**step for step in range(10))  # 5 ms to 2.6 s
WAIT_S: Final = tuple(1.0 * 4**step for step in range(9))  # 1 s to 18 h


class GangMetrics:
    """Counts what the sessions of ``seen`` decide."""

    def __init__(self, seen: Seen, clock: Clock) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self._seen = seen
        self._admitted = Counter(
            "volcano_enqueue_admitted_total", "Pod groups that were let in.", ["queue"], registry=registry
        )
        self._refused = Counter(
            "volcano_enqueue_rejected_total",
            "Pod groups that were made to wait, once for each reason a group has in turn.",
            ["queue", "reason"],
            registry=registry,
        )
        self._sent_back = Counter(
            "volcano_inqueue_rollback_total",
            "Pod groups that were let in and had to wait again.",
            ["queue", "reason"],
            registry=registry,
        )
        self._waited_s = Histogram(
            "volcano_inqueue_wait_seconds",
            "From the creation of a pod group until it was let in.",
            buckets=WAIT_S,
            registry=registry,
        )
        self._session_ms = Histogram(
            "volcano_e2e_scheduling_latency_milliseconds",
            "How long a session took.",
            buckets=SESSION_MS,
            registry=registry,
        )
        registry.register(_Gauges(seen, clock))
        seen.on_session.append(self._count)

    def _count(self, outcome: Outcome, took_s: float) -> None:
        self._session_ms.observe(took_s * 1000)
        for admitted in outcome.admitted:
            self._admitted.labels(admitted.queue).inc()
            self._waited_s.observe(max(0.0, admitted.waited_s))
        for refused in outcome.refused:
            self._refused.labels(refused.queue, refused.reason).inc()
        for sent_back in outcome.sent_back:
            self._sent_back.labels(sent_back.queue, sent_back.reason).inc()

    def forget_queues_that_are_gone(self) -> None:
        model = self._seen.model
        if model is None:
            return
        for counter in (self._admitted, self._refused, self._sent_back):
            queues = {sample.labels["queue"] for family in counter.collect() for sample in family.samples}
            for queue in queues - model.queues.keys():
                counter.remove_by_labels({"queue": queue})

    def application(self) -> web.Application:
        async def answer(request: web.Request) -> web.Response:
            self.forget_queues_that_are_gone()
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
            return web.Response(body=encode(self.registry), headers={"Content-Type": content_type})

        app = web.Application()
        app.router.add_get("/metrics", answer)
        return app


class _Gauges(Collector):
    def __init__(self, seen: Seen, clock: Clock) -> None:
        self._seen = seen
        self._clock = clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        model = self._seen.model
        if model is None:
            return
        yield from _counts_by_phase(model)
        if self._seen.settings is not None:
            yield from queue_gauges(queue_reports(model, self._seen.settings, self._clock.now()))
        yield _family(
            "volcano_inqueue_age_seconds",
            "How long the oldest pod group without a member on a node has been let in.",
            ("queue",),
            {(queue,): age for queue, age in _ages(model, self._clock.now()).items()},
        )
        yield _family(
            "volcano_quota_reserved",
            "What active pod groups may still take of the quotas of their namespace, in base units.",
            ("namespace", "resource"),
            _reserved(model),
        )


def _family(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for of, value in sorted(values.items()):
        family.add_metric(of, value)
    return family


def _counts_by_phase(model: Model) -> Iterator[GaugeMetricFamily]:
    counts = Counts(
        (gang.queue, gang.phase or PENDING) for gang in model.gangs.values() if gang.queue in model.queues
    )
    for phase in PHASES:
        yield _family(
            f"volcano_queue_pod_group_{phase.lower()}_count",
            f"Pod groups of the queue that are {phase}.",
            ("queue_name",),
            {(queue,): counts[queue, phase] for queue in model.queues},
        )


def _ages(model: Model, now: float) -> Mapping[str, float]:
    ages: dict[str, float] = {}
    for gang in model.gangs.values():
        if gang.phase == INQUEUE and gang.inqueue_since is not None and not gang.has_started:
            ages[gang.queue] = max(ages.get(gang.queue, 0.0), now - gang.inqueue_since)
    return ages


def _reserved(model: Model) -> Mapping[tuple[str, ...], float]:
    """In namespaces that have a quota."""
    limited = {key.namespace for key in model.quotas}
    reserved: Counts[tuple[str, ...]] = Counts()
    for gang in model.gangs.values():
        if gang.is_active and gang.key.namespace in limited:
            for resource, amount in quota_claim_of(gang).items():
                reserved[gang.key.namespace, resource] += amount
    return reserved
