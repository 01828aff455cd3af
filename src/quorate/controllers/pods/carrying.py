"""Carrying out plans about pods for the keys of one reconciler, none of which is decided on old news."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from quorate.api.meta import Key, ObjectMeta
from quorate.controllers.context import ControllerContext
from quorate.controllers.metrics import record_creations
from quorate.controllers.pods.constants import ADMISSION_GATE
from quorate.controllers.pods.plan import GatesOff, PodPlan
from quorate.kube.debounce import Debounce
from quorate.kube.expectations import Expectations, Version
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import Resource
from quorate.kube.writes import send, send_concurrently

WORKERS: Final = 16  # a run mostly waits for the answers to its writes
DEBOUNCE_S: Final = 1.0  # pods of a group end together, and one write can tell of many


class PlanCarrier:
    def __init__(
        self,
        context: ControllerContext,
        resource: Resource[Any],
        name: str,
        reconcile: Callable[[Key], Awaitable[float | None]],
    ) -> None:
        self._kind = resource.kind
        self._context = context
        self._lacking: set[Key] = set()  # for which something must come to be first
        self._expectations = Expectations(context.clock)
        self._debounce = Debounce(context.clock, DEBOUNCE_S)  # with patient plans
        self._log = logger(__name__)
        workers = context.workers_for(resource, WORKERS)
        self.reconciler = Reconciler(name, reconcile, context.clock, workers)
        informers = context.informers
        for come in (informers.flavors, informers.workload_classes, informers.pod_classes):
            come.subscribe(lambda _: self._something_came())

    def _something_came(self) -> None:
        for key in sorted(self._lacking):
            self.reconciler.enqueue(key)

    def pending_until(self, key: Key, seen: Iterable[Version]) -> float | None:
        """Until when (epoch seconds) to wait for what came of our own writes."""
        return self._expectations.pending_until(key, seen)

    async def carry_out(self, key: Key, plan: PodPlan, job: ObjectMeta | None = None) -> float | None:
        """``job``: whose workloads the plan may make; of a group its first pod."""
        if plan.lacks:
            self._lacking.add(key)
        else:
            self._lacking.discard(key)
        if plan.patient and (due := self._debounce.defer_until(key)) is not None:
            return due
        self._debounce.clear(key)
        if plan.pods:
            await send_concurrently(self._context.client, plan.pods)
        if plan.gates_off is not None:
            self._count(plan.gates_off)
        if plan.workload:
            answers = await send(self._context.client, plan.workload)
            if job is not None and self._context.configuration.gates.metric_for_workload_creation_latency:
                record_creations(self._context.record, self._kind, job, plan.workload, answers)
        if plan.pods or plan.workload:
            sent = [*(write for writes in plan.pods for write in writes), *plan.workload]
            self._expectations.expect(key, sent)
        for each in plan.told:
            event, unique = each.event, not (plan.pods or plan.workload)
            self._context.events.event(each.regarding, event.type, event.reason, event.message, unique=unique)
            self._log.info("pods", key=key, about=each.regarding.name, did=event.reason, note=event.message)
        return plan.wake_at

    def _count(self, off: GatesOff) -> None:
        labels = {
            "name": ADMISSION_GATE,
            "cluster_queue": off.cluster_queue,
            "is_group": str(off.is_group).lower(),
        }
        seconds = max(0.0, self._context.clock.now() - off.admitted_at)
        for _ in range(off.count):
            self._context.record("kueue_pod_scheduling_gate_removal_seconds", labels, seconds)

    def forget(self, key: Key) -> None:
        self._lacking.discard(key)
        self._expectations.forget(key)
        self._debounce.clear(key)
